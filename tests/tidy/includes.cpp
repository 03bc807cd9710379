// Implements check_includes: the order of rooms, and the rooms that may include each library. Some
// rooms must not be included by a room although they are to its left.
#include <algorithm>
#include <array>
#include <map>
#include <regex>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

// A room that must not include another, although that is to its left.
struct Unseen {
  std::string_view room;
  std::string_view other;
};
constexpr std::array<Unseen, 4> kUnseen = {
    {{"program", "sim"}, {"program", "backends"}, {"ops", "sim"}, {"ops", "backends"}}};

// A library: the beginning of its header names, and the files that may include it.
struct Library {
  std::string_view name;
  std::string_view pattern;
  std::string_view where;
};
constexpr std::array<Library, 10> kLibraries = {{
    {"nlohmann-json", "^nlohmann/", "^scenarios/"},
    {"Boost.Program_options", "^boost/program_options", "^cli/"},
    {"Boost.Math", "^boost/math/", "^ops/.*\\.cpp$"},
    {"Boost", "^boost/(?!program_options|math/)", "^sim/"},
    {"Eigen", "^(unsupported/)?Eigen/", "^ops/.*\\.cpp$"},
    {"MPI", "^mpi\\.h", "^backends/"},
    {"CUDA", "^(cuda|cublas|curand|nccl|cooperative_groups|thrust/|cub/)", "^(backends|ops/cuda)/"},
    {"fibers", "^(thread|future|condition_variable)$", "^(sim|backends|engine|scenarios|cli)/"},
    {"time", "^chrono$", "^(sim|backends|engine|scenarios|cli)/"},
    {"files", "^(fstream|filesystem)$", "^(sim|backends|engine|scenarios|cli)/"},
}};

// Public headers must not include the first seven.
constexpr std::size_t kHiddenLibraries = 7;

bool matches(std::string_view text, std::string_view pattern) {
  static std::map<std::string, std::regex, std::less<>> compiled;
  auto known = compiled.find(pattern);
  if (known == compiled.end())
    known = compiled.emplace(pattern, std::regex(std::string(pattern))).first;
  return std::regex_search(text.begin(), text.end(), known->second);
}

bool is_unseen(std::string_view room, std::string_view other) {
  return std::any_of(kUnseen.begin(), kUnseen.end(),
                     [&](const Unseen& b) { return b.room == room && b.other == other; });
}

std::string library_error(const Source& source, const std::string& header) {
  for (const Library& library : kLibraries) {
    if (!matches(header, library.pattern)) continue;
    if (!matches(source.path, library.where)) {
      return "<" + header + ">: " + source.room() + " must not include " +
             std::string(library.name);
    }
  }
  return "";
}

std::string room_error(const Source& source, const std::string& header) {
  std::string own = source.room();
  std::string rest = header.substr(std::string_view("shardproof/").size());
  std::string other = rest.substr(0, rest.find('/'));
  if (room_position(other) < 0) return "\"" + header + "\": " + other + " is not a room";
  if (room_position(other) > room_position(own)) {
    return "\"" + header + "\": " + other + " stands to the right of " + own +
           "; move what both need into a room to the left";
  }
  if (is_unseen(own, other)) return "\"" + header + "\": " + own + " must not include " + other;
  bool matches_calls = matches(rest, "^sim/(matching/call_matcher|call/ticket_table)\\.h");
  if (own == "backends" && matches_calls && !matches(source.path, "^backends/(local|remote)")) {
    return "\"" + header +
           "\": of the backends, only local and remote may include call matcher and ticket table";
  }
  return "";
}

}  // namespace

std::string hidden_library(const std::string& header) {
  for (std::size_t i = 0; i < kHiddenLibraries; ++i) {
    if (matches(header, kLibraries[i].pattern)) return std::string(kLibraries[i].name);
  }
  return "";
}

Violations check_includes(const Source& source) {
  Violations found;
  if (!source.is_code() || room_position(source.room()) < 0) return found;
  static const std::regex kInclude("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"]");
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    std::smatch match;
    if (source.lines[i].find("include") == std::string::npos ||
        !std::regex_search(source.lines[i], match, kInclude))
      continue;
    std::string header = match[2];
    std::string message;
    if (header.starts_with("shardproof/")) {
      message = room_error(source, header);
    } else {
      message = library_error(source, header);
      if (message.empty() && match[1] == "\"") {
        message = "\"" + header + "\": write the path from the root, \"shardproof/" +
                  source.room() + "/...\"";
      }
    }
    if (!message.empty()) found.push_back({source.path, i + 1, message, ""});
  }
  return found;
}

}  // namespace shardproof::tidy
