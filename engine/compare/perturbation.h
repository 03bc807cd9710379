// Perturbation: measures the change of a value if operations round in other directions, and if
// parts of sums change in their last bits. Other roundings change every result that rounding can
// change. Source: Monte Carlo arithmetic (D. S. Parker, UCLA CSD-970002, 1997; Verificarlo; the
// thresholds of TTrace).
#pragma once

#include <cstdint>
#include <vector>

#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

// Other rounding directions than to nearest: up, down, toward zero.
inline constexpr int kOtherRoundings = 3;
// "up", "down" or "toward zero".
const char* rounding_text(int direction);

// Sets the rounding direction of this thread's floating-point operations to `direction` of
// kOtherRoundings, and restores it at destruction.
class ScopedRoundingMode {
 public:
  explicit ScopedRoundingMode(int direction);
  ~ScopedRoundingMode();
  ScopedRoundingMode(const ScopedRoundingMode&) = delete;
  ScopedRoundingMode& operator=(const ScopedRoundingMode&) = delete;

 private:
  int before_;
};

bool rounds_to_nearest();  // the direction of this thread

// Partial sums that are inputs of a line are changed by 2^-kMovedBits of the sizes of their parts.
// This is far above the roundoff of f64 (2^-53) and far below that of every dtype of a program.
inline constexpr int kMovedBits = 45;

// Returns `tensor` (f64 or c128) with each finite number changed by +-1/2 to 1 times 2^-kMovedBits
// of its size. `direction` and `input` select other signs, so that inputs of equal size do not
// cancel. No element has one sign in all directions, so that a number near a step of floor or round
// crosses it in one of them. Returns tensors of other dtypes unchanged.
Tensor moved(const Tensor& tensor, const std::vector<double>& sizes, int direction, int64_t input);

// Returns `tensor` (f64 or c128) with each finite number replaced by the next lower of the numbers
// (k + shift) * step. Numbers that are apart by far less than a step become equal with shift 0 or
// with shift 0.5. Returns tensors of other dtypes unchanged.
Tensor on_grid(const Tensor& tensor, double step, double shift);

}  // namespace shardproof
