// Implements check_helper_names. A helper is a function or a constant in an anonymous namespace.
// Sources of a room that compile as one unit share that namespace: equal helpers are defined twice,
// and calls of overloads may be ambiguous. So may calls of a function that a header declares.
//
// A declaration begins its line. Its name is the last word before the first '(', '=', '{', '[' or
// ';' outside template arguments:
//
//   std::map<int, Dims> dims_of(const Spec& spec) {   dims_of
//   constexpr std::array<Row, 2> kRows = {{           kRows
//   int Table::size() const {                         none: a member is named in its type
#include <map>
#include <sstream>

#include "shardproof/tests/tidy/rules.h"
#include "shardproof/tests/tidy/scopes.h"

namespace shardproof::tidy {
namespace {

// Returns the length of the text before the first character that ends a declared name.
std::size_t end_of_name(const std::string& line) {
  int depth = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '<') ++depth;
    if (line[i] == '>') --depth;
    if (depth == 0 && std::string_view("(={[;").find(line[i]) != std::string_view::npos) return i;
  }
  return 0;
}

// Returns the name that a line at the scope of a namespace declares, or "" if it declares none.
std::string declared_name(const std::string& line) {
  if (line.empty() || !is_word(line[0])) return "";
  std::size_t end = end_of_name(line);
  while (end > 0 && line[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && is_word(line[begin - 1])) --begin;
  // A member function is defined with its type; a macro and a static_assert declare no name.
  if (begin == 0 ? line[0] != 'k' && line[end] != '(' : line[begin - 1] == ':') return "";
  const std::string name = line.substr(begin, end - begin);
  return name == "operator" || name == "static_assert" || name == "template" ? "" : name;
}

// check_room_type_names compares types. Equal aliases may be declared twice.
bool declares_type(const std::string& line) {
  for (const char* word : {"struct ", "class ", "enum ", "union ", "using "})
    if (line.starts_with(word)) return true;
  return false;
}

// Returns the lines of the functions and constants of `source`, in anonymous namespaces or outside
// them, by qualified name.
std::map<std::string, std::size_t> declared_in(const Source& source, bool anonymous) {
  std::map<std::string, std::size_t> declared;
  const std::vector<Scope> scopes = scopes_of(source);
  std::istringstream code(source.code);
  std::string line;
  for (std::size_t i = 0; std::getline(code, line); ++i) {
    if (scopes[i].anonymous != anonymous || line.starts_with("namespace") || declares_type(line))
      continue;
    const std::string name = declared_name(line);
    if (!name.empty()) declared.emplace(scopes[i].name + name, i + 1);
  }
  return declared;
}

// True if CMake may join the source with others of its room. A stand-in such as no_cuda.cpp is
// compiled instead of other sources.
bool is_joined(const Source& source) {
  return room_position(source.room()) >= 0 && source.path.ends_with(".cpp") &&
         source.path.find("/no_") == std::string::npos;
}

}  // namespace

Violations check_helper_names(const std::vector<Source>& tree) {
  struct Place {
    std::string path;
    std::size_t line = 0;
  };
  std::map<std::string, Place> first_of;
  for (const Source& source : tree)
    if (source.is_header() && room_position(source.room()) >= 0)
      for (const auto& [name, line] : declared_in(source, false))
        first_of.emplace(source.room() + "/" + name, Place{source.path, line});
  Violations found;
  for (const Source& source : tree) {
    if (!is_joined(source)) continue;
    for (const auto& [name, line] : declared_in(source, true)) {
      const auto [first, fresh] =
          first_of.emplace(source.room() + "/" + name, Place{source.path, line});
      if (fresh) continue;
      const Place& other = first->second;
      found.push_back({source.path, line,
                       "helper " + name.substr(name.rfind(':') + 1) + " of room " + source.room() +
                           " is declared in " + other.path + " line " + std::to_string(other.line) +
                           " too, and both may compile as one; share it or name each after its "
                           "purpose",
                       ""});
    }
  }
  return found;
}

}  // namespace shardproof::tidy
