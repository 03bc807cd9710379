// One type, one name: two types of one name in one namespace are one type to the linker, which
// takes either and says nothing.
#include <map>
#include <regex>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

struct Place {
  std::string path;
  std::size_t line = 0;
};

// The sources are formatted: what stands in a namespace starts its line, and namespaces end with a
// comment that says so.
class TypeNames {
 public:
  void read(const Source& source) {
    static const std::regex kType(
        "^(struct|class|enum class|enum|union) (\\w+)( final)?( :.*)? ?\\{.*");
    std::vector<std::string> namespaces;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string& line = source.lines[i];
      std::smatch match;
      if (line == "namespace {")
        namespaces.emplace_back();
      else if (line.starts_with("namespace ") && line.ends_with(" {"))
        namespaces.push_back(line.substr(10, line.size() - 12));
      else if (line.starts_with("}  // namespace") && !namespaces.empty())
        namespaces.pop_back();
      else if (std::regex_match(line, match, kType))
        define(namespaces, match[2], {source.path, i + 1});
    }
  }
  Violations found() && { return std::move(found_); }

 private:
  void define(const std::vector<std::string>& namespaces, const std::string& name, Place place) {
    std::string whole;
    for (const std::string& part : namespaces) {
      if (part.empty()) return;  // of this file alone
      whole += part + "::";
    }
    const auto [first, fresh] = places_.emplace(whole + name, place);
    if (!fresh)
      found_.push_back({place.path, place.line,
                        whole + name + " is defined in " + first->second.path + " line " +
                            std::to_string(first->second.line) + " too"});
  }

  std::map<std::string, Place> places_;
  Violations found_;
};

}  // namespace

Violations check_type_names(const std::vector<Source>& tree) {
  TypeNames rooms;
  for (const Source& source : tree)
    if (source.is_code() && place_in_tower(source.room()) >= 0) rooms.read(source);
  return std::move(rooms).found();
}

}  // namespace shardproof::tidy
