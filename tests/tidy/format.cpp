// Implements check_format: runs clang-format on the whole tree at once and reads its warnings.
#include <array>
#include <cstdio>
#include <regex>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

// Other releases break lines elsewhere, so the result is defined for one release only.
constexpr const char* kFormatVersion = "14";

std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> chunk;
  while (std::size_t n = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    output.append(chunk.data(), n);
  }
  pclose(pipe);
  return output;
}

std::string find_clang_format() {
  for (std::string name :
       {std::string("clang-format-") + kFormatVersion, std::string("clang-format")}) {
    std::string version = output_of(name + " --version 2>/dev/null");
    if (version.find(std::string("version ") + kFormatVersion + ".") != std::string::npos) {
      return name;
    }
  }
  return "";
}

std::string quoted(const std::string& path) { return "'" + path + "'"; }

}  // namespace

Violations check_format(const std::filesystem::path& root, const std::vector<Source>& tree,
                        std::string& skipped) {
  Violations found;
  std::string tool = find_clang_format();
  if (tool.empty()) {
    skipped = std::string("clang-format ") + kFormatVersion + " is not installed";
    return found;
  }
  std::string files;
  for (const Source& source : tree) {
    if (source.is_code()) files += " " + quoted(source.path);
  }
  if (files.empty()) return found;
  std::string output =
      output_of("cd " + quoted(root.string()) + " && " + tool + " --dry-run" + files + " 2>&1");
  static const std::regex kWarning("(^|\\n)([^:\\n]+):(\\d+):\\d+: warning: code should be");
  std::string last;
  for (std::sregex_iterator it(output.begin(), output.end(), kWarning), end; it != end; ++it) {
    std::string path = (*it)[2];
    if (path == last) continue;
    last = path;
    found.push_back({path, std::stoul((*it)[3]), "not formatted; run ./dev fmt", ""});
  }
  return found;
}

}  // namespace shardproof::tidy
