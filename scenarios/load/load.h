// Loading: reads a scenario file or text. Everything that can be wrong before a run is an Error
// with file and place (docs/language.md, section 14).
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
  int64_t max_bytes = 0;  // limit for all tensors; 0: half of the memory
  int64_t max_cases = kMaxCases;
  std::string folder;  // base of the relative path of a topology file
};

// Return the scenario. `file` is its name in errors and reports. Throw Error(bad_input),
// Error(limit), Error(unsupported), and load_file also Error(io).
Scenario load_text(std::string_view text, const std::string& file, const LoadOptions& options = {});
Scenario load_file(const std::string& path, const std::string& file,
                   const LoadOptions& options = {});

// A scenario file of the command line.
struct ScenarioPath {
  std::string path;  // to open
  std::string file;  // name in reports: never absolute
  // Row in the table of a folder: the first folder below the path. Empty for a single file.
  std::string group;
  std::optional<std::string> text = {};  // contents, if read from standard input
};
// Returns the file `path`, or all *.json below the folder `path` in order of their names, or for
// "-" standard input, which is read here. Throws Error(io) if there is no such file.
std::vector<ScenarioPath> find_scenarios(const std::string& path);
// Returns the contents of a file. Throws Error(io) with the name `file`.
std::string read_file(const std::string& path, const std::string& file);

// Returns half of the memory of this machine in bytes.
int64_t default_max_bytes();

}  // namespace shardproof
