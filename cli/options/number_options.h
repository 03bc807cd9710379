// Options whose values are numbers.
#pragma once

#include "shardproof/cli/options/parse_options.h"

namespace shardproof {

// Returns the whole number of an option, `fallback` without the option. Throws Error(bad_input)
// that states the range from `least` to `most`.
uint64_t whole_option(const boost::program_options::variables_map& given, const char* option,
                      uint64_t fallback, uint64_t least, uint64_t most);
// Returns the number of an option that is given. Throws Error(bad_input) unless it is above 0 and
// at most `most`.
double positive_option(const boost::program_options::variables_map& given, const char* option,
                       double most);

}  // namespace shardproof
