// Attributes that layer_norm, rms_norm and their gradients share.
#pragma once

#include <string_view>

#include "shardproof/ops/core/op.h"

namespace shardproof {

enum class Norm { layer, rms };  // layer subtracts the mean, rms does not

std::string_view norm_name(Norm norm);
// Returns the number of normalized dims, given as `dims`, or as their sizes like in torch.
int64_t normalized_dims(const OpCall& call);
// Returns eps; if the call leaves it out, the step at 1 of the compute dtype.
double norm_eps(const OpCall& call);

// The input as rows; the `row` elements of one are normalized together.
struct NormRows {
  int64_t rows = 1, row = 1;
};
NormRows norm_rows(const Dims& shape, int64_t dims);

}  // namespace shardproof
