// Implements agreement.h.
#include "shardproof/tests/ops/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof::testing {
namespace {

bool rounds(DType dtype) { return is_floating(dtype) || is_complex(dtype); }
bool is_widest(DType dtype) { return dtype == DType::f64 || dtype == DType::c128; }

double largest_of(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double x : numbers)
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  return largest;
}

// Returns complex numbers as pairs of reals.
Tensor as_reals(const Tensor& value) {
  if (!is_complex(value.dtype)) return value;
  Tensor reals = value.contiguous() ? value : contiguous_copy(value);
  reals.dtype = component_dtype(value.dtype);
  reals.offset *= 2;
  reals.shape.push_back(2);
  reals.strides = contiguous_strides(reals.shape);
  return reals;
}

}  // namespace

std::vector<double> numbers_of(const Tensor& value) { return values_of(as_reals(value)); }

double largest_number(const Tensor& value) { return largest_of(numbers_of(value)); }

double largest_number(const LocalTensor& value) {
  double largest = 0;
  for (const Block& block : value.blocks())
    for (int64_t lane = 0; lane < block.lanes.size(); ++lane)
      largest = std::max(largest, largest_of(values_of(as_reals(block.tensor), block.slot(lane))));
  return largest;
}

double room_in(DType dtype, double size, double units) {
  if (!rounds(dtype)) return 0;
  return is_widest(dtype) ? kF64Share * size : units * unit_in_last_place(dtype, size);
}

double room_computed_in(DType dtype, double size, double units) {
  const DType compute = compute_dtype(dtype);
  const double once = compute == dtype || !rounds(dtype) ? 0 : unit_in_last_place(dtype, size) / 2;
  return room_in(rounds(dtype) ? compute : dtype, size, units) + once;
}

std::string difference(const Tensor& got, const Tensor& want,
                       const std::function<double(size_t)>& room) {
  if (got.shape != want.shape)
    return fmt::format("the shape is {}, expected {}", to_string(got.shape), to_string(want.shape));
  const std::vector<double> a = numbers_of(got), b = numbers_of(want);
  if (a.size() != b.size()) return fmt::format("{} numbers, expected {}", a.size(), b.size());
  const bool narrower = rounds(got.dtype) && got.dtype != want.dtype;
  const double most = max_finite(got.dtype);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double allowed = room(i);
    if (narrower && std::fabs(b[i]) + allowed > most) continue;
    if (std::fabs(a[i] - b[i]) <= allowed) continue;
    return fmt::format("number {} is {}, expected {}{}", i, a[i], b[i],
                       allowed == 0 ? "" : fmt::format(" within {}", allowed));
  }
  return "";
}

std::string difference_in_bits(const Tensor& got, const Tensor& want) {
  const bool same_whole_numbers = got.dtype == want.dtype && got.shape == want.shape &&
                                  !rounds(got.dtype) && bit_equal(got, 0, want, 0);
  return same_whole_numbers ? "" : difference(got, want, [](size_t) { return 0.0; });
}

std::string difference_in_value(const Tensor& got, const Tensor& want, double terms) {
  const double room = room_in(got.dtype, std::max(terms, largest_number(want)));
  return difference(got, want, [room](size_t) { return room; });
}

}  // namespace shardproof::testing
