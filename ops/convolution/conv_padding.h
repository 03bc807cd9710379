// Forms of a convolution that decompose into the plain one: padding='same' or 'valid', and an input
// without a batch dim.
#pragma once

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Adds both forms to a convolution over `spatial` dims.
void add_padding_forms(OpRecord& record, int spatial);
// Accepts an input of one dim less, `dims`: one entry without a batch dim.
void accept_one_entry(OpRecord& record, int dims);

}  // namespace shardproof
