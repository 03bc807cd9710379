// Remarks: lines of a report other than its findings. They change no exit code.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/job/outcome.h"

namespace shardproof {

// Returns lines such as "not decided   line 7   m (i=3)   3 of 64 elements   the sign of a sum that
// is 0"
std::vector<std::string> undecided_lines(const Outcome& outcome);

// Returns values that are not findings and have a ratio of kPrecisionNote or more, or a cause; then
// limits of the judgement. Example: "note line 6 g: error 3.1e-3 ...: 52,000 times cause fp32
// gradients are reduced in bf16".
std::vector<std::string> note_lines(const Outcome& outcome);

}  // namespace shardproof
