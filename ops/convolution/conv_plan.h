// What a kernel of a convolution does, in the words of two families: zeros around the input, then a
// contraction of its windows, which overlap in memory.
#pragma once

#include "shardproof/ops/contraction/contraction.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {

struct ConvPlan {
  BoxCopyPlan pad;  // of input 0; without moves there is nothing to pad
  ViewLayout windows;
  Dims weight, bias, result;  // as the contraction sees inputs 1 and 2, and the output
  ContractionPlan product;
};

}  // namespace shardproof
