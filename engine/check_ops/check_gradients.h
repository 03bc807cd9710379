// Checks the gradient of an op by brute force, in two ways.
//
//   formula   <u, J v> along random directions v, as a central difference of the op in f64, is
//             <gradient, v>; inputs at which a sample names a kink are left out. If the result is
//             finite, a gradient that is not finite is wrong. If no element of the result is
//             finite, the gradient is right if none of its elements is, else undecided
//   dual law  if ranks compute the op on shards placed p and the result is placed q (all such pairs
//             on one axis, those that the op's rule claims on two), then the gradients that they
//             compute on their shards are placed as the duals of p, for cotangents placed as the
//             dual of q; of a call without elements, where any placement is right, the claimed
//             pairs are judged on one axis too. R and P(sum) are duals of each other, S of itself;
//             under P(avg) over n ranks each rank has 1/n of the cotangent.
//
// Gradients through `as`, shard_map and hand-written ranks rely on the dual law. It catches a
// gradient that depends on the size of the whole, such as a mean that divides by the wrong count.
#pragma once

#include <map>

#include "shardproof/engine/check_ops/check_rules.h"
#include "shardproof/engine/check_ops/rule_case.h"

namespace shardproof {

struct WrongGradient {
  RuleCase rule;
  ClaimAnswer answer;
};

struct GradientReport {
  std::string op;
  int64_t combinations = 0;  // directions and placements that were judged
  int64_t undecided = 0;
  std::map<std::string, int64_t> reasons;  // number of undecided ones by reason
  std::vector<WrongGradient> wrong;
};

// Leaves out ops without a gradient, calls of several results, and calls that state a dtype
// narrower than f64. Composite ops without a gradient of their own are left out, too: the ops of
// their decomposition are checked.
GradientReport check_gradient(const OpRecord& record, const OpRegistry& ops,
                              const RuleOptions& options);

// Returns the placements of a call's backward for placements of the call, or nullopt if a placement
// has no dual (P of min, max, prod and bits; P(avg) of an input). `call` is the call before
// make_backward.
std::optional<CasePlacements> dual_placements(const RuleCase& call, const std::vector<Spec>& inputs,
                                              const std::vector<Spec>& outputs);

}  // namespace shardproof
