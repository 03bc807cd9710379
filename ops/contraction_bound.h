// Error bound of a contraction: (|a||b|) gives what rounding can do, (error(a)|b| + |a|error(b))
// what the inputs bring along. Computed in f64 by the contraction itself.
#pragma once

#include "shardproof/ops/contraction.h"

namespace shardproof {

struct ContractionBoundCall {
  std::vector<ContractionLetter> letters;
  int a = 0, b = 1;  // which inputs; b = -1: a alone (a sum or a permutation of a)
  int bias = -1;     // input added to the product
  double alpha = 1, beta = 1;
};

Bound contraction_bound(const ContractionBoundCall& how, const BoundCall& call);

}  // namespace shardproof
