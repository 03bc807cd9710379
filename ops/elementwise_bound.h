// Error bounds of elementwise ops: the operands of a result element as intervals, and the loop over
// elements.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "shardproof/ops/bound.h"

namespace shardproof {

// An operand at one element: its truth value t (after conversion to the compute type, which every
// honest computation does alike; for complex the size), and the bound e. The real value lies within
// e of t, any honest computation's within 2e: [low, high].
struct Interval {
  double value = 0, error = 0;
  double low() const { return value - 2 * error; }
  double high() const { return value + 2 * error; }
  bool is_known() const { return error == 0; }
  bool is_finite() const { return std::isfinite(value) && std::isfinite(error); }
  double size() const { return (value < 0 ? -value : value) + 2 * error; }  // largest |x|
};

// Values of a tensor as doubles, converted to `compute` first; sizes for complex.
std::vector<double> values_as(const Tensor& tensor, DType compute);
std::vector<double> sizes_of(const Tensor& tensor);  // |x| of each element

// Per element of output `output`: f(intervals of the inputs, truth result) is the error. `compute`
// is what inputs are converted to. An element that is not finite has no error when its inputs have
// none, or `decides` says that those that have none decide it; else infinity.
using ElementError = std::function<double(const Interval* inputs, double result)>;
using Decides = std::function<bool(const Interval* inputs, double result)>;
Bound elementwise_bound(const BoundCall& call, DType compute, int output, const ElementError& error,
                        const Decides& decides = {});

// All inputs exact, and every multiple of 2^grid up to the result's largest size is a value of its
// dtype: then a correctly rounded op has not rounded.
bool exact_on_grid(const BoundCall& call, int grid, int output = 0);
// Grid of an input after conversion to `compute` (numbers of the program lose bits there).
int converted_grid(const BoundCall& call, int input, DType compute);

}  // namespace shardproof
