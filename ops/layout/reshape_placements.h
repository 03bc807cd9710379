// Where the shards of a reshaped tensor lie: the view propagation of reshape, view, flatten and
// unflatten.
#pragma once

#include <optional>

#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

// The spec of `shape` under which every rank holds, in the same local order, exactly the elements
// that it holds under `input` (so that reshaping locally moves no data), or nullopt when no
// placement says so. Never wrong: every candidate is judged by exact ownership of flat indices.
// Flattening gives strided shards where it must, explicit sizes where shards are uneven;
// unflattening resolves both. Partial axes pass.
std::optional<Spec> reshaped_spec(const Spec& input, const Dims& shape);

}  // namespace shardproof
