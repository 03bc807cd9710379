// Text of an outcome, for tests that expect equal outcomes of several runs.
#pragma once

#include <string>

#include "shardproof/engine/job/outcome.h"

namespace shardproof::testing {

// Returns findings, calls, values to the bit, memory and times, so that the first line that differs
// shows the failure.
std::string text_of(const Outcome& outcome);

}  // namespace shardproof::testing
