// The command line of shardproof as a function. A caller may add ops and backends to the
// registries, and so use all commands with its own ops, rules and backends.
#pragma once

#include "shardproof/engine/job/job.h"

namespace shardproof {

// Runs the command of argv[1] and returns the exit code. 0: as expected; 1: an unexpected finding
// or an unmet expectation; 2: bad input or a refused operation; 3: a bug of shardproof. Prints
// errors to standard error.
int cli_main(int argc, const char* const* argv, const Registries& registries);

}  // namespace shardproof
