// Narrows the fills of index tensors to numbers that a call accepts.
//
// Samples of other sizes keep the fills of their sample. Indices "ints(0, 5)" are legal for a table
// of 5 rows. For a table of 4 rows one device refuses most draws, and nothing would be judged.
#pragma once

#include <functional>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Narrows each fill "ints(low, high)" of an integer input until `accepts` is true at both ends. For
// each end, `accepts` gets a sample in which all numbers of that input are low, or high - 1.
// Returns false if no number of an input is accepted. If the sample has no such input, returns what
// `accepts` returns. `accepts` runs the call of a sample on one device.
bool narrow_indices(Sample& sample, const std::function<bool(const Sample&)>& accepts);

}  // namespace shardproof
