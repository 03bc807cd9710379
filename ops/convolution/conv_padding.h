// Forms of a convolution that decompose into the plain one: padding='same' or 'valid', and an input
// without a batch dim.
#pragma once

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Adds both forms to a convolution over `spatial` dims.
void add_padding_forms(OpRecord& record, int spatial);

}  // namespace shardproof
