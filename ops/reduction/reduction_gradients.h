// Parts of the gradients of reductions.
#pragma once

#include "shardproof/ops/core/gradient.h"

namespace shardproof {

// Inserts dims of size 1 where the call `op` has reduced input 0, unless it has keepdim. `reduced`
// has the shape of a result of the call.
FormulaTerm with_reduced_dims(Gradient& g, const FormulaTerm& reduced);

}  // namespace shardproof
