// The bell: the command line of shardproof over registries that the caller may have added to, so
// that a user's own op, rule or backend gets the whole tool. Returns the exit code: 0 clean, 1 a
// finding or a missed expectation, 2 bad input or a refused operation, 3 a bug of ours.
#pragma once

#include "shardproof/engine/job/job.h"

namespace shardproof {

int cli_main(int argc, const char* const* argv, const Registries& registries);

}  // namespace shardproof
