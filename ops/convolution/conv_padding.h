// Forms of a convolution that are written as the plain one: padding='same' or 'valid', and an input
// without a batch.
#pragma once

#include "shardproof/ops/core/op.h"

namespace shardproof {

void take_conv_forms(OpRecord& record, int spatial);

}  // namespace shardproof
