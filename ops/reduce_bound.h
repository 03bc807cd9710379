// Error bounds of reductions: what each result element folds, summed up.
#pragma once

#include <vector>

#include "shardproof/ops/bound.h"
#include "shardproof/ops/reduce.h"

namespace shardproof {

// Of one result element.
struct Folded {
  int64_t count = 0;
  double absolute = 0;  // sum of the largest |x| of each element
  double largest = 0;   // of |x|
  double error = 0;     // sum of the errors
  double worst = 0;     // largest error
};
// Of input 0, converted to `compute`.
std::vector<Folded> fold_errors(const BoundCall& call, const DimMask& mask, DType compute);
// Grid of input 0 when it is exact, else one on which nothing is.
int grid_of(const BoundCall& call);
inline constexpr int kNoGrid = -5000;

// Bound of a result from its error per element; unknown where the value is not finite and its
// inputs are not exact.
Bound folded_bound(const BoundCall& call, const std::vector<Folded>& folded,
                   std::vector<double> errors);

}  // namespace shardproof
