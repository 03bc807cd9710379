// Checks the slots of one-sided calls in a lowered program, without running it. So the findings are
// the same under every schedule and on every backend. Internal to the engine.
#pragma once

#include <vector>

#include "shardproof/localtensor/report/finding.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Returns two kinds of findings, one for each line, ordered by line:
//   race      a slot is read on a stream that has not waited for a signal of a put into it;
//   mismatch  the put that was waited for has another dtype or number of elements than the read.
// Requires that the ranks reach the end of their listings. Puts that land later are not compared
// with the read, and neither are faults.
std::vector<Finding> check_slots(const SpmdProgram& program);

}  // namespace shardproof
