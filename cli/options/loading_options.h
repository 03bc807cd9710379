// Options that set how scenario files are loaded (--set, --max-ranks, --max-bytes), and the loading
// of all files of a command line.
#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <vector>

#include "shardproof/scenarios/load/load.h"

namespace shardproof {

boost::program_options::options_description loading_options();

// Throws Error(bad_input) for --max-ranks below 1 and for a --set without "=".
LoadOptions read_loading_options(const boost::program_options::variables_map& given);

// Returns --max-bytes in bytes, or 0 if it is not given. Throws Error(bad_input) unless its value
// is a positive number with an optional unit (B, KB .. TB, KiB .. TiB).
int64_t read_max_bytes(const boost::program_options::variables_map& given);

// How load_all handles the Error of a file.
enum class ErrorHandling : uint8_t {
  told,    // prints it and goes on, so that the user sees the errors of all files at once
  thrown,  // throws the first one
};

// Loads all files before the first one runs. Returns nothing if a file was refused.
std::vector<Scenario> load_all(const std::vector<ScenarioPath>& paths, LoadOptions options,
                               ErrorHandling refusal = ErrorHandling::told);

}  // namespace shardproof
