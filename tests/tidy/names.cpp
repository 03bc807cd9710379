// Implements check_source_names and check_function_verbs.
#include <array>
#include <filesystem>
#include <regex>
#include <set>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

namespace fs = std::filesystem;

// Sources that need no header of their own name.
struct Headerless {
  std::string_view pattern;
  std::string_view reason;
};
constexpr std::array<Headerless, 6> kHeaderless = {{
    {"^cli/main\\.cpp$", "the entry point of the program declares nothing"},
    {"^(backends|ops)/(.*/)?no_\\w+\\.cpp$", "compiled in place of sources that need a library"},
    {"/\\w+_static_checks\\.cpp$", "holds static_assert only"},
    {"^backends/(rank_context|builtin_backends|bench/benchmark_\\w+)\\.cpp$",
     "implements a header of backends/api with folders to the right of api"},
    // Families: one header declares one function a source.
    {"^cli/(commands/)?\\w+_command\\.cpp$", "commands: command.h"},
    {"^ops/cuda/\\w+_kernels\\.(cu|cpp)$", "kernels of a GPU: kernel_families.h"},
}};

bool is_headerless(const std::string& path) {
  for (const Headerless& row : kHeaderless) {
    if (std::regex_search(path, std::regex(std::string(row.pattern)))) return true;
  }
  return false;
}

// True for a source of ops that registers op records: families.h declares its one public function.
bool registers_ops(const Source& source) {
  static const std::regex kRegisters("(^|\\n)void add_\\w+\\(OpRegistry& \\w+\\) \\{");
  return (source.room() == "ops" && std::regex_search(source.code, kRegisters)) ||
         source.path == "ops/registry.cpp";
}

bool has_header(const Source& source, const std::set<std::string>& headers) {
  std::string stem = fs::path(source.path).replace_extension().generic_string();
  std::size_t name = source.folder().size() + 1;
  for (std::size_t end = stem.size(); end != std::string::npos && end > name;
       end = stem.rfind('_', end - 1)) {
    std::string base = stem.substr(0, end);
    if (headers.count(base + ".h") || headers.count(base + ".cuh")) return true;
  }
  return false;
}

// A declaration has a return type before its name; a call and a return statement have none.
const std::regex& weak_verb() {
  static const std::regex kWeak(
      "^\\s*(?!return\\b|else\\b|throw\\b|case\\b|co_return\\b)[\\w:][\\w:<>,*&\\s]*[\\w>][*&]*\\s+"
      "[*&]*"
      "((?:keep|tell|see|take|come|hear)s?(?:_\\w+)?)\\(");
  return kWeak;
}

std::string verb_of(const std::string& name) { return name.substr(0, name.find('_')); }

}  // namespace

Violations check_source_names(const std::vector<Source>& tree) {
  std::set<std::string> headers;
  for (const Source& source : tree) {
    if (source.is_header()) headers.insert(source.path);
  }
  Violations found;
  for (const Source& source : tree) {
    if (!source.is_code() || source.is_header() || room_position(source.room()) < 0) continue;
    if (has_header(source, headers) || is_headerless(source.path) || registers_ops(source)) {
      continue;
    }
    std::string name = fs::path(source.path).filename().string();
    std::string stem = fs::path(name).stem().string();
    found.push_back({source.path, 1,
                     name + " has no header beside it; name it after the header it implements: " +
                         stem + ".h, or x.h for a file x_aspect.cpp",
                     ""});
  }
  return found;
}

Violations check_function_verbs(const Source& source) {
  Violations found;
  if (!source.is_header() || room_position(source.room()) < 0) return found;
  std::size_t line = 1;
  for (std::size_t begin = 0; begin < source.code.size(); ++line) {
    std::size_t end = std::min(source.code.find('\n', begin), source.code.size());
    std::string code = source.code.substr(begin, end - begin);
    std::smatch match;
    if (std::regex_search(code, match, weak_verb())) {
      found.push_back({source.path, line,
                       "function " + match[1].str() + ": the verb \"" + verb_of(match[1]) +
                           "\" does not state what is done; write store, report, read, remove, "
                           "receive or the field's word",
                       ""});
    }
    begin = end + 1;
  }
  return found;
}

}  // namespace shardproof::tidy
