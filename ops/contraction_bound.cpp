#include "shardproof/ops/contraction_bound.h"

#include <algorithm>
#include <cmath>

#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

constexpr int kNoGrid = -100000;  // of values that are not exact: sums of them never are

std::vector<double> errors_of(const Bound& bound, int64_t count) {
  std::vector<double> errors(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) errors[static_cast<size_t>(i)] = error_of(bound, i);
  return errors;
}

// What any honest computation of the value stays below: two of them differ by at most 2 * error.
std::vector<double> ceiling_of(const Tensor& value, const std::vector<double>& errors) {
  std::vector<double> ceiling;
  if (!is_complex(value.dtype)) {
    ceiling = values_of(value);
  } else {  // |re| + |im|, so that products of parts are covered
    Tensor dense = contiguous_copy(value);
    for (int64_t i = 0; i < dense.elements(); ++i) {
      double re = 0, im = 0;
      if (dense.dtype == DType::c128) {
        const auto* at = reinterpret_cast<const C128*>(dense.data()) + i;
        re = at->real(), im = at->imag();
      } else {
        const auto* at = reinterpret_cast<const C64*>(dense.data()) + i;
        re = at->real(), im = at->imag();
      }
      ceiling.push_back(std::abs(re) + std::abs(im));
    }
  }
  for (size_t i = 0; i < ceiling.size(); ++i) ceiling[i] = std::abs(ceiling[i]) + 2 * errors[i];
  return ceiling;
}

LaneView view_of(std::vector<double>& values, const Dims& shape) {
  LaneView view;
  view.base = reinterpret_cast<std::byte*>(values.data());
  view.dtype = DType::f64;
  view.shape = shape;
  view.strides = contiguous_strides(shape);
  return view;
}

std::vector<double> contract(const ContractionBoundCall& how, std::vector<double>& a,
                             const Dims& a_shape, std::vector<double>& b, const Dims& b_shape,
                             const Dims& result_shape) {
  Contraction contraction(how.letters, {DType::f64, a_shape}, {DType::f64, b_shape},
                          {DType::f64, result_shape});
  std::vector<double> result(static_cast<size_t>(element_count(result_shape)));
  Bytes workspace = Bytes::uninitialized(contraction.workspace_bytes());
  LaneView left = view_of(a, a_shape), right = view_of(b, b_shape);
  LaneView out = view_of(result, result_shape);
  contraction.run({1, &left, &right, nullptr, &out, workspace.mutate()});
  return result;
}

// Index of the bias element under each element of the result.
std::vector<int64_t> bias_index(const Dims& result, const Dims& bias) {
  Dims strides = contiguous_strides(bias);
  std::vector<int64_t> index(static_cast<size_t>(element_count(result)));
  for (size_t i = 0; i < index.size(); ++i) {
    Dims at = unravel(static_cast<int64_t>(i), result);
    int lead = result.size() - bias.size();
    for (int d = 0; d < bias.size(); ++d) index[i] += bias[d] == 1 ? 0 : at[lead + d] * strides[d];
  }
  return index;
}

}  // namespace

Bound contraction_bound(const ContractionBoundCall& how, const BoundCall& call) {
  const Tensor& result = *call.outputs[0];
  auto use = [&](int i) {
    const Tensor& value = *call.inputs[static_cast<size_t>(i)];
    const Bound& bound = *call.input_bounds[static_cast<size_t>(i)];
    auto errors = errors_of(bound, value.elements());
    auto ceiling = ceiling_of(value, errors);
    return std::tuple{value.shape, bound.exact ? bound.grid : kNoGrid, errors, ceiling};
  };
  auto [a_shape, a_grid, a_error, a] = use(how.a);
  Dims b_shape;
  int b_grid = 0;
  std::vector<double> b_error{0.0}, b{1.0};
  if (how.b >= 0) std::tie(b_shape, b_grid, b_error, b) = use(how.b);

  auto absolute = contract(how, a, a_shape, b, b_shape, result.shape);
  auto brought = contract(how, a_error, a_shape, b, b_shape, result.shape);
  auto brought_b = contract(how, a, a_shape, b_error, b_shape, result.shape);
  int64_t terms = 1;
  for (const auto& letter : how.letters) terms *= letter.result < 0 ? letter.size : 1;
  int grid = a_grid == kNoGrid || b_grid == kNoGrid ? kNoGrid : a_grid + b_grid;
  const double fewer_bits = how.b < 0 ? 0 : precision_error(call.matmul, terms, result.dtype);
  for (size_t i = 0; i < absolute.size(); ++i) {
    absolute[i] *= std::abs(how.alpha);
    brought[i] = std::abs(how.alpha) * (brought[i] + brought_b[i]) + absolute[i] * fewer_bits;
  }
  if (how.alpha != 1 || (how.bias >= 0 && how.beta != 1)) grid = kNoGrid;
  if (how.bias >= 0) {
    auto [shape, bias_grid, bias_error, bias] = use(how.bias);
    auto index = bias_index(result.shape, shape);
    for (size_t i = 0; i < absolute.size(); ++i) {
      absolute[i] += std::abs(how.beta) * bias[static_cast<size_t>(index[i])];
      brought[i] += std::abs(how.beta) * bias_error[static_cast<size_t>(index[i])];
    }
    terms += 3;  // two scalings and the sum
    grid = grid == kNoGrid ? kNoGrid : std::min(grid, bias_grid);
  }
  for (size_t i = 0; i < absolute.size(); ++i)
    brought[i] += sum_error(absolute[i], terms, call.parts, result.dtype, grid);
  return bound_from_errors(result, std::move(brought));
}

}  // namespace shardproof
