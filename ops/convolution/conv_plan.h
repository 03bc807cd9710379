// Plan of a convolution's kernel for devices: zeros around the input (copy_boxes), then a
// contraction of its windows, which overlap in memory.
#pragma once

#include "shardproof/ops/contraction/contraction.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {

struct ConvPlan {
  BoxCopyPlan pad;  // of input 0; without moves there is no padding
  ViewLayout windows;
  Dims weight, bias, result;  // shapes in which the contraction reads inputs 1 and 2, and writes
  ContractionPlan product;
};

}  // namespace shardproof
