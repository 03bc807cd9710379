#include "shardproof/ops/bound.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "shardproof/localtensor/error.h"
#include "shardproof/ops/promotion.h"

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kAllZero = 2000;

bool rounds(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

struct Measure {
  int grid = kAllZero;
  double magnitude = 0;
  void add(double x) {
    if (!std::isfinite(x)) return;
    grid = std::min(grid, last_bit_exponent(x));
    magnitude = std::max(magnitude, std::fabs(x));
  }
};

void measure_elements(const Tensor& dense, Measure& measure) {
  const std::byte* data = dense.data();
  // Complex numbers are pairs of parts, and each part is on the grid.
  const bool complex = is_complex(dense.dtype);
  const DType part = real_part(dense.dtype);
  const int64_t count = dense.elements() * (complex ? 2 : 1);
  const int64_t bytes = size_of(part);
  for (int64_t i = 0; i < count; ++i) {
    if (rounds(part)) {
      measure.add(load_f64(data + i * bytes, part));
    } else {
      const int64_t x = load_i64(data + i * bytes, part);
      if (x != 0) measure.grid = std::min(measure.grid, std::countr_zero(static_cast<uint64_t>(x)));
      measure.magnitude = std::max(measure.magnitude, std::fabs(static_cast<double>(x)));
    }
  }
}

}  // namespace

Bound Bound::exact_of(const Tensor& value) {
  Measure measure;
  measure_elements(value.contiguous() ? value : contiguous_copy(value), measure);
  Bound bound;
  bound.grid = measure.grid;
  bound.magnitude = measure.magnitude;
  return bound;
}

int last_bit_exponent(double x) {
  if (x == 0) return kAllZero;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(x), &exponent);
  const auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53));
  return exponent - 53 + std::countr_zero(mantissa);
}

bool representable(double magnitude, int grid, DType dtype) {
  if (!rounds(dtype) || magnitude == 0) return true;
  if (grid < smallest_exponent(dtype) || !std::isfinite(magnitude)) return false;
  const double largest = is_complex(dtype) ? kInfinity : max_finite(dtype);
  return magnitude <= std::ldexp(1.0, precision_bits(dtype) + std::min(grid, 1000)) &&
         magnitude <= largest;
}

double gamma(int64_t k, double u) {
  const double ku = static_cast<double>(k) * u;
  return ku < 1 ? ku / (1 - ku) : kInfinity;
}

double sum_error(double absolute, int64_t terms, int64_t parts, DType dtype, int grid) {
  if (!rounds(dtype) || absolute == 0 || representable(absolute, grid, dtype)) return 0;
  if (!std::isfinite(absolute)) return kInfinity;
  const DType wide = compute_dtype(dtype);
  // A complex product takes four real ones and two sums.
  const int64_t roundings = is_complex(dtype) ? 4 * terms : terms;
  double error = 0;
  if (!representable(absolute, grid, wide))
    error += absolute * gamma(roundings, unit_roundoff(wide));
  const int64_t cuts = std::max<int64_t>(1, parts);
  if (wide != dtype) error += (absolute + error) * gamma(cuts, unit_roundoff(dtype));
  return error + static_cast<double>(cuts) * std::ldexp(1.0, smallest_exponent(dtype));
}

double precision_error(MatmulPrecision matmul, int64_t terms, DType dtype) {
  if (matmul == MatmulPrecision::highest || !is_floating(dtype)) return 0;
  constexpr double kCutTo10Bits = 0x1p-10, kSumOf14Bits = 0x1p-13;
  if (dtype == DType::f32) return kCutTo10Bits * (2 + kCutTo10Bits);
  return size_of(dtype) == 1 ? static_cast<double>(terms) * kSumOf14Bits : 0;
}

double error_of(const Bound& bound, int64_t element) {
  return bound.exact || bound.error.empty() ? 0 : bound.error[static_cast<size_t>(element)];
}

bool all_exact(const BoundCall& call) {
  return std::all_of(call.input_bounds.begin(), call.input_bounds.end(),
                     [](const Bound* bound) { return !bound || bound->exact; });
}

Bound bound_from_errors(const Tensor& value, std::vector<double> errors) {
  Bound bound = Bound::exact_of(value);
  if (std::all_of(errors.begin(), errors.end(), [](double e) { return e == 0; })) return bound;
  bound.exact = false;
  bound.error = std::move(errors);
  const bool narrow = is_floating(value.dtype) && compute_dtype(value.dtype) != value.dtype;
  const std::vector<double> values = narrow ? values_of(value) : std::vector<double>();
  for (size_t i = 0; i < bound.error.size(); ++i) {
    double& e = bound.error[i];
    // Another honest result may have overflowed, or this one has, which is NaN in f8e4m3.
    const bool beyond =
        narrow && e != 0 && !(std::fabs(values[i]) + 2 * e <= max_finite(value.dtype));
    if (std::isnan(e) || beyond || (e != 0 && !rounds(value.dtype))) e = kInfinity;
  }
  return bound;
}

std::vector<Bound> unknown_bounds(const BoundCall& call) {
  std::vector<Bound> bounds;
  for (const Tensor* output : call.outputs)
    bounds.push_back(bound_from_errors(
        *output, std::vector<double>(static_cast<size_t>(output->elements()), kInfinity)));
  return bounds;
}

double rounding_error(double magnitude, DType dtype, double ulps) {
  if (!rounds(dtype)) return 0;
  const double roundoff = unit_roundoff(compute_dtype(dtype)) * ulps * 2;
  const double last = compute_dtype(dtype) == dtype ? 0 : unit_roundoff(dtype);
  return magnitude * (roundoff + last) * (1 + last) + std::ldexp(1.0, smallest_exponent(dtype));
}

}  // namespace shardproof
