// The windows that a convolution reads: its numbers and sizes, checked.
#pragma once

#include <string>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

struct Conv {
  std::string name;
  int spatial = 1;
};

struct ConvWindow {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
  Dims out;     // [N, O, L'..]
  Dims padded;  // [N, C, L + 2 padding..]
};

// Returns the windows of a call whose first inputs are [N, C, L..] and a weight [O, C / groups,
// K..]. Throws Error(bad_input) if they do not fit each other.
ConvWindow conv_window(const Conv& conv, const OpCall& call);

// conv_windows and conv_windows_grad; ops/convolution/conv_window_ops.cpp.
std::vector<OpRecord> conv_window_records();

}  // namespace shardproof
