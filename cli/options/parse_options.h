// Parsing of options: arguments of a command to a map from option to value.
#pragma once

#include <boost/program_options.hpp>

#include "shardproof/cli/base/console.h"

namespace shardproof {

// Returns the given options and those with a default. Arguments without a leading dash are values
// of the option `positional`. Names of options must be complete. Throws Error(bad_input) for an
// unknown option, with the nearest known one, and for a missing or malformed value.
boost::program_options::variables_map parse_words(
    const CommandArguments& words, const boost::program_options::options_description& options,
    const char* positional);

}  // namespace shardproof
