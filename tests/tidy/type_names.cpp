// Implements check_type_names and check_room_type_names. Two types of one name in one namespace are
// one type to the linker, which takes either without a message. Two types of one name in one room
// cannot be compiled as one unit and send a reader to the wrong one.
#include <map>
#include <regex>

#include "shardproof/tests/tidy/rules.h"
#include "shardproof/tests/tidy/scopes.h"

namespace shardproof::tidy {
namespace {

struct TypeDefinition {
  std::string namespaces;  // "" in an anonymous namespace
  std::string name;
  std::string path;
  std::size_t line = 0;
};

// Returns the types at namespace scope. The sources are formatted: such a definition starts its
// line.
std::vector<TypeDefinition> types_of(const Source& source) {
  static const std::regex kType(
      "^(struct|class|enum class|enum|union) (\\w+)( final)?( :.*)? ?\\{.*");
  std::vector<TypeDefinition> types;
  const std::vector<Scope> scopes = scopes_of(source);
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_match(source.lines[i], match, kType)) continue;
    types.push_back({scopes[i].anonymous ? "" : scopes[i].name, match[2], source.path, i + 1});
  }
  return types;
}

bool is_room_code(const Source& source) {
  return source.is_code() && room_position(source.room()) >= 0;
}

// True if CMake compiles one file or the other: no_cuda.cpp replaces sources that need CUDA.
bool is_stand_in(const Source& source) {
  return source.path.substr(source.folder().size() + 1).starts_with("no_");
}

}  // namespace

Violations check_type_names(const std::vector<Source>& tree) {
  std::map<std::string, TypeDefinition> first_of;
  Violations found;
  for (const Source& source : tree) {
    if (!is_room_code(source)) continue;
    for (const TypeDefinition& type : types_of(source)) {
      if (type.namespaces.empty()) continue;
      const auto [first, fresh] = first_of.emplace(type.namespaces + type.name, type);
      if (fresh) continue;
      found.push_back({type.path, type.line,
                       first->first + " is defined in " + first->second.path + " line " +
                           std::to_string(first->second.line) + " too; give one another name",
                       ""});
    }
  }
  return found;
}

Violations check_room_type_names(const std::vector<Source>& tree) {
  std::map<std::string, TypeDefinition> first_of;
  Violations found;
  for (const Source& source : tree) {
    if (!is_room_code(source) || is_stand_in(source)) continue;
    for (const TypeDefinition& type : types_of(source)) {
      const auto [first, fresh] = first_of.emplace(source.room() + "/" + type.name, type);
      if (fresh) continue;
      found.push_back({type.path, type.line,
                       "type " + type.name + " of room " + source.room() + " is defined in " +
                           first->second.path + " line " + std::to_string(first->second.line) +
                           " too; name each after its purpose",
                       ""});
    }
  }
  return found;
}

}  // namespace shardproof::tidy
