// Implements check_public_headers. The list of a room's public headers is in its CMakeLists.txt,
// after PUBLIC_HEADERS of shardproof_room; CMake installs the same headers.
#include <regex>
#include <set>
#include <sstream>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

// Returns the words after PUBLIC_HEADERS up to the next keyword or the end of the call.
std::vector<std::string> listed_headers(const Source& cmake) {
  std::string words;
  for (const std::string& line : cmake.lines) words += line.substr(0, line.find('#')) + "\n";
  for (char& c : words) {
    if (c == '(' || c == ')') c = ' ';
  }
  std::vector<std::string> headers;
  std::istringstream in(words);
  bool listing = false;
  for (std::string word; in >> word;) {
    bool is_header = word.ends_with(".h");
    if (word == "PUBLIC_HEADERS") {
      listing = true;
    } else if (!is_header) {
      listing = false;
    } else if (listing) {
      headers.push_back(word);
    }
  }
  return headers;
}

class PublicHeaders {
 public:
  explicit PublicHeaders(const std::vector<Source>& tree) {
    std::set<std::string> files;
    for (const Source& source : tree) files.insert(source.path);
    for (const Source& source : tree) {
      bool is_room_list = room_position(source.folder()) >= 0 && source.is_cmake();
      if (!is_room_list) continue;
      for (const std::string& name : listed_headers(source)) add(source, name, files);
    }
  }

  void check(const Source& source) {
    static const std::regex kInclude("^\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"]");
    bool is_public = listed_.count(source.path) > 0;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      std::smatch match;
      if (source.lines[i].find("include") == std::string::npos ||
          !std::regex_search(source.lines[i], match, kInclude))
        continue;
      std::string message = include_error(source, match[1], is_public);
      if (!message.empty()) found.push_back({source.path, i + 1, message, ""});
    }
  }

  Violations found;

 private:
  void add(const Source& cmake, const std::string& name, const std::set<std::string>& files) {
    std::string path = cmake.folder() + "/" + name;
    listed_.insert(path);
    if (files.count(path)) return;
    found.push_back({cmake.path, 1, "public header " + name + " does not exist; delete it", ""});
  }

  std::string include_error(const Source& source, const std::string& header, bool is_public) const {
    if (!header.starts_with("shardproof/")) {
      std::string library = is_public ? hidden_library(header) : "";
      return library.empty() ? ""
                             : "<" + header + ">: a public header must not show " + library +
                                   "; include it in a source";
    }
    std::string path = header.substr(std::string_view("shardproof/").size());
    std::string room = path.substr(0, path.find('/'));
    if (room_position(room) < 0 || listed_.count(path)) return "";
    std::string advice = "; add it to PUBLIC_HEADERS of " + room +
                         "/CMakeLists.txt or include a "
                         "public header";
    if (room != source.room()) {
      return "\"" + header + "\" is internal to " + room + advice;
    }
    return is_public
               ? "\"" + header + "\" is not installed, but this public header includes it" + advice
               : "";
  }

  std::set<std::string> listed_;
};

}  // namespace

Violations check_public_headers(const std::vector<Source>& tree) {
  PublicHeaders headers(tree);
  for (const Source& source : tree) {
    if (source.is_code() && room_position(source.room()) >= 0) headers.check(source);
  }
  return std::move(headers.found);
}

}  // namespace shardproof::tidy
