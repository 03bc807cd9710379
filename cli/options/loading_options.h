// Options that set how scenario files are loaded (--set, --max-ranks, --max-bytes), and the loading
// of all files of a command line.
#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <vector>

#include "shardproof/cli/base/console.h"
#include "shardproof/scenarios/load/load.h"

namespace shardproof {

boost::program_options::options_description loading_options();

// Throws Error(bad_input) for --max-ranks below 1 and for a --set without "=".
LoadOptions read_loading_options(const boost::program_options::variables_map& given);

// Returns --max-bytes in bytes, or 0 if it is not given. Throws Error(bad_input) unless its value
// is a positive number with an optional unit (B, KB .. TB, KiB .. TiB).
int64_t read_max_bytes(const boost::program_options::variables_map& given);

// Returns the scenarios of all files and folders of a command line; a file that is named twice
// occurs once. A path without scenarios is listed with its error.
FoundScenarios find_all_scenarios(const CommandArguments& paths);

// Loads all files. The results are in the order of `paths`. Prints nothing.
std::vector<LoadedFile> load_all(const std::vector<ScenarioPath>& paths, LoadOptions options);
// Prints the errors of the files that have some. Returns the others.
std::vector<Scenario> print_refused(std::vector<LoadedFile> files);

}  // namespace shardproof
