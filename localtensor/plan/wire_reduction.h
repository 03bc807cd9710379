// WireReduction: the reduction of a step's call, and the work before and after it. If sum and avg
// axes are reduced together, the call is a sum, and the result is divided by the sizes of the avg
// axes. A norm is a sum of powers. Internal to plans.
#pragma once

#include "shardproof/localtensor/plan/plan.h"

namespace shardproof {

struct WireReduction {
  Reduction wire;
  double exponent = 0;  // of a norm; 0: no norm
  int64_t divisor = 1;  // product of the sizes of the avg axes, if sum axes take part too

  explicit WireReduction(const PlanStep& step);
  bool changes_input() const { return exponent != 0; }
  bool changes_result() const { return exponent != 0 || divisor != 1; }
  // Change `count` elements in place.
  void before(std::byte* data, DType dtype, int64_t count) const;
  void after(std::byte* data, DType dtype, int64_t count) const;
};

}  // namespace shardproof
