// Narrows the fills of index tensors to numbers that a call accepts.
//
// Samples of other sizes keep the fills of their sample. Indices "ints(0, 5)" are legal for a table
// of 5 rows. For a table of 4 rows one device refuses most draws, and nothing would be judged.
#pragma once

#include <functional>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Narrows each fill "ints(low, high)" of an integer input until `accepts` is true at both ends. At
// the ends all numbers of that input are low, or high - 1. Returns false if an input has no
// such number, or `accepts` is false for a sample without such inputs. `accepts` runs the call of a
// sample on one device.
bool narrow_indices(Sample& sample, const std::function<bool(const Sample&)>& accepts);

}  // namespace shardproof
