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

// A file that was read: its scenario, or at most kMaxFileErrors errors with their places in the
// file. With errors, the scenario has no cases.
struct LoadedFile {
  Scenario scenario;
  std::vector<Error> errors;
};
LoadedFile read_scenario(std::string_view text, const std::string& file,
                         const LoadOptions& options = {});

// Return the scenario. `file` is its name in errors and reports. Throw the first of its errors:
// Error(bad_input), Error(limit), Error(unsupported), and load_file also Error(io).
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
  std::optional<Error> error = {};       // why there is nothing to open
};
// A *.json file of a folder that is not a scenario.
struct SkippedFile {
  std::string file;
  bool own = false;  // written by shardproof: a report, or the folder of a record
};
struct FoundScenarios {
  std::vector<ScenarioPath> paths;  // in order of their names
  std::vector<SkippedFile> skipped;
};
// Returns the file `path`, or the scenarios below the folder `path`, or for "-" standard input,
// which is read here. A *.json file below a folder is a scenario if it has the key "version" or one
// of mesh, program, ranks, phases and model. Files that shardproof wrote are no scenarios. Throws
// Error(io) if there is no such file, or no scenario in the folder.
FoundScenarios find_scenarios(const std::string& path);
// Returns the contents of a file. Throws Error(io) with the name `file`.
std::string read_file(const std::string& path, const std::string& file);

// Returns half of the memory of this machine in bytes.
int64_t default_max_bytes();

}  // namespace shardproof
