// Perturbation: how far a value moves when operations round in other directions, and when parts of
// sums are moved in their last bits. The method is Monte Carlo arithmetic (D. S. Parker, UCLA
// CSD-970002, 1997; Verificarlo; the thresholds of TTrace): what rounding can change, other
// roundings change.
#pragma once

#include <cstdint>
#include <vector>

#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

// Other rounding directions than to nearest: up, down, toward zero.
inline constexpr int kOtherRoundings = 3;

// While it lives, floating-point operations of this thread round in direction `direction` of
// kOtherRoundings.
class ScopedRoundingMode {
 public:
  explicit ScopedRoundingMode(int direction);
  ~ScopedRoundingMode();
  ScopedRoundingMode(const ScopedRoundingMode&) = delete;
  ScopedRoundingMode& operator=(const ScopedRoundingMode&) = delete;

 private:
  int before_;
};

// Inputs of a line that lie as partial sums are moved by this share of the sizes of their parts:
// far above the roundoff of f64 (2^-53), far below every dtype that a program computes in.
inline constexpr int kMovedBits = 45;

// `tensor` (f64 or c128) with each finite number moved by +-1/2 to 1 times 2^-kMovedBits of its
// size. `direction` and `input` select other signs, so that inputs of equal size do not cancel.
// Other dtypes are returned as they are.
Tensor moved(const Tensor& tensor, const std::vector<double>& sizes, int direction, int64_t input);

}  // namespace shardproof
