// All placements that a rule may name, for exhaustive search.
#pragma once

#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/ops/core/sharding_rule.h"

namespace shardproof {

struct EnumerateOptions {
  bool partials = true;  // P of every reduction that the dtype allows; norm(2) of norms
  bool strided = true;   // S(d, split=2)
};

// Returns every spec of a tensor on a mesh: on each axis R, S(d), strided S(d), P(op). Specs with
// two kinds of partials are left out. An absent tensor or a number is R.
std::vector<Spec> all_placements(const TensorMeta& meta, const Mesh& mesh,
                                 const EnumerateOptions& options);

}  // namespace shardproof
