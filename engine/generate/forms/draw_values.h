// Draws the elements of generated tensors: well-conditioned ones, and those that make programs
// ill-conditioned (terms that cancel, large and tiny scales, zeros, infinities).
#pragma once

#include <vector>

#include "shardproof/engine/generate/forms/draw.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

// The numerical difficulty of a generated program.
enum class Conditioning : uint8_t {
  whole_numbers,  // whole numbers that every order of addition keeps exact
  well,           // finite values of moderate size
  ill,            // cancellation, scales from tiny to large, zeros, quotients of small sums
  extreme,        // overflow, infinities, NaN
};
std::string_view name(Conditioning conditioning);

// Returns `count` elements, each representable in `dtype`. Integers and bools get small whole
// numbers.
std::vector<double> draw_values(Draw& draw, DType dtype, int64_t count, Conditioning conditioning);

// Returns the values rounded to `dtype`.
std::vector<double> rounded_values(DType dtype, const std::vector<double>& values);

}  // namespace shardproof
