#include "shardproof/ops/elementwise_bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>

#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

Tensor as_dense(const Tensor& tensor) {
  return tensor.contiguous() ? tensor : contiguous_copy(tensor);
}

Tensor converted(const Tensor& tensor, DType to) {
  const Tensor dense = as_dense(tensor);
  if (dense.dtype == to) return dense;
  Tensor result = Tensor::empty(to, dense.shape);
  convert(dense.data(), dense.dtype, result.mutate(), to, dense.elements());
  return result;
}

// One input's values and errors, found by the result's element number.
struct Source {
  std::vector<double> values;
  const Bound* bound = nullptr;
  std::vector<int64_t> places;  // empty: element i is element i

  Interval at(int64_t i) const {
    const int64_t k = places.empty() ? i : places[static_cast<size_t>(i)];
    return {values[static_cast<size_t>(k)], error_of(*bound, k)};
  }
};

std::vector<int64_t> broadcast_places(const Dims& from, const Dims& to) {
  if (from == to) return {};
  const int shift = to.size() - from.size();
  const Dims strides = contiguous_strides(from);
  const int64_t count = element_count(to);
  std::vector<int64_t> places(static_cast<size_t>(count));
  Dims index = Dims::filled(to.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (int d = 0; d < from.size(); ++d)
      if (from[d] != 1) place += index[d + shift] * strides[d];
    places[static_cast<size_t>(i)] = place;
    for (int d = to.size() - 1; d >= 0; --d) {
      if (++index[d] < to[d]) break;
      index[d] = 0;
    }
  }
  return places;
}

}  // namespace

std::vector<double> sizes_of(const Tensor& tensor) {
  const Tensor wide = converted(tensor, is_complex(tensor.dtype) ? DType::c128 : DType::f64);
  const auto count = static_cast<size_t>(wide.elements());
  std::vector<double> sizes(count);
  for (size_t i = 0; i < count; ++i) {
    sizes[i] = wide.dtype == DType::c128
                   ? std::abs(reinterpret_cast<const C128*>(wide.data())[i])
                   : std::fabs(reinterpret_cast<const double*>(wide.data())[i]);
  }
  return sizes;
}

std::vector<double> values_as(const Tensor& tensor, DType compute) {
  const Tensor in_compute = converted(tensor, compute);
  return is_complex(compute) ? sizes_of(in_compute) : values_of(in_compute);
}

Bound elementwise_bound(const BoundCall& call, DType compute, int output, const ElementError& error,
                        const Decides& decides) {
  const Tensor& result = *call.outputs[static_cast<size_t>(output)];
  std::array<Source, 8> sources;
  std::array<Interval, 8> intervals;
  const size_t inputs = call.inputs.size();
  SP_CHECK(inputs <= sources.size(), "an elementwise op of {} inputs", inputs);
  for (size_t k = 0; k < inputs; ++k) {
    if (!call.inputs[k]) continue;
    sources[k] = {values_as(*call.inputs[k], compute), call.input_bounds[k],
                  broadcast_places(call.inputs[k]->shape, result.shape)};
  }
  const std::vector<double> results =
      is_complex(result.dtype) ? sizes_of(result) : values_of(result);
  std::vector<double> errors(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    bool known = true;
    for (size_t k = 0; k < inputs; ++k) {
      if (!sources[k].bound) continue;
      intervals[k] = sources[k].at(static_cast<int64_t>(i));
      known = known && intervals[k].error == 0;
    }
    if (std::isfinite(results[i])) {
      errors[i] = error(intervals.data(), results[i]);
    } else {
      known = known || (decides && decides(intervals.data(), results[i]));
      errors[i] = known ? 0 : std::numeric_limits<double>::infinity();
    }
  }
  return bound_from_errors(result, std::move(errors));
}

bool exact_on_grid(const BoundCall& call, int grid, int output) {
  const Tensor& result = *call.outputs[static_cast<size_t>(output)];
  if (!all_exact(call)) return false;
  if (grid >= 1000) return true;  // all operands are 0
  const double magnitude = Bound::exact_of(result).magnitude;
  // Strictly below the last such multiple: a larger value could have been rounded down to it.
  const double above = magnitude * (1 + 0x1p-50);
  return representable(std::max(above, std::ldexp(1.0, grid)), grid, result.dtype);
}

int converted_grid(const BoundCall& call, int input, DType compute) {
  return Bound::exact_of(converted(*call.inputs[static_cast<size_t>(input)], compute)).grid;
}

}  // namespace shardproof
