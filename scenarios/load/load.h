// Loading: from a file or a text to a Scenario. The only reader of scenario files; throws Error
// with file and place for everything that can be wrong before a run (scenario language, section
// 14).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardproof/scenarios/model/scenario.h"

namespace shardproof {

inline constexpr int kLanguageVersion = 1;
inline constexpr int64_t kMaxCases = 10000;

struct LoadOptions {
  std::vector<std::pair<std::string, std::string>> set;  // --set name=text: overrides a `let`
  int64_t max_ranks = int64_t{1} << 20;
  int64_t max_bytes = 0;  // of tensors; 0: half of the machine's memory
  int64_t max_cases = kMaxCases;
  std::string folder;  // where a topology file is looked for
};

// `file` is the name that errors and reports carry.
Scenario load_text(std::string_view text, const std::string& file, const LoadOptions& options = {});
Scenario load_file(const std::string& path, const std::string& file,
                   const LoadOptions& options = {});

// The scenario files that a path means: itself, or the *.json below a folder, in order of their
// names; standard input, which is read at once, for "-".
struct ScenarioPath {
  std::string path;  // to open
  std::string file;  // to show: never absolute
  std::string
      group;  // first folder below the path, for the table of a folder; empty for a single file
  std::optional<std::string> text = {};  // of standard input
};
std::vector<ScenarioPath> find_scenarios(const std::string& path);
std::string read_file(const std::string& path, const std::string& file);  // Error(io)

int64_t default_max_bytes();

}  // namespace shardproof
