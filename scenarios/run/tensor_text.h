// Text of tensors as numpy and torch print them: nested brackets, aligned elements. Large tensors
// are abbreviated and state how many elements are omitted.
//
//   [[ 1,  2, -3],
//    [40,  5,  6]]
#pragma once

#include <string>

#include "shardproof/engine/job/outcome.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

// Returns the text of a one-device tensor, which ends with a line break. If it has more than 1,000
// elements, the first and last three of each dim are printed. A last line states how many elements
// are omitted.
std::string tensor_text(const Tensor& tensor);

// The value that `run --print` names: y, or y@3 for the part of rank 3.
struct PrintedName {
  std::string name;
  int64_t rank = -1;  // -1: the whole value
};
// Throws Error(bad_input) if the text after "@" is not a rank.
PrintedName parse_printed_name(const std::string& text);

// Returns a line with name, dtype, shape and placements, and the text of the value. Throws
// Error(bad_input) if the outcome has no value of that name, with the nearest one, or if the rank
// holds none.
std::string value_text(const PrintedName& printed, const Outcome& outcome);

}  // namespace shardproof
