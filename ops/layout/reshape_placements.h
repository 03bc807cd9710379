// Placements of a reshaped tensor: how shards propagate through reshape, view, flatten and
// unflatten.
#pragma once

#include <optional>

#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

// Returns the spec of `shape` under which every rank holds, in the same local order, exactly the
// elements that it holds under `input`. A local reshape then moves no data. Returns nullopt if no
// placement does this. Every candidate is checked by exact ownership of flat indices, so the result
// is never wrong. Flattening gives strided shards where necessary, and explicit sizes where shards
// are uneven; unflattening resolves both. Partial axes pass.
std::optional<Spec> reshaped_spec(const Spec& input, const Dims& shape);

}  // namespace shardproof
