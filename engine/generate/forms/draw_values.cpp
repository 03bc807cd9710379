// Implements draw_values.h: draws a distribution for each tensor, then its elements.
#include "shardproof/engine/generate/forms/draw_values.h"

#include <algorithm>
#include <cmath>

namespace shardproof {
namespace {

using Values = std::vector<double>;

Values normal_values(Draw& draw, size_t count, double mean, double deviation) {
  Values values(count);
  for (double& value : values) value = mean + deviation * draw.normal();
  return values;
}

Values whole_values(Draw& draw, size_t count, int64_t low, int64_t high) {
  Values values(count);
  for (double& value : values) value = static_cast<double>(draw.between(low, high));
  return values;
}

Values tame_values(Draw& draw, size_t count) {
  switch (draw.below(6)) {
    case 0: return whole_values(draw, count, -4, 4);
    case 1: return normal_values(draw, count, 0, 0.1);
    case 2: return normal_values(draw, count, 1, 0.3);
    case 3: {
      Values values(count);
      for (double& value : values) value = 0.1 + draw.uniform();
      return values;
    }
    default: return normal_values(draw, count, 0, 1);
  }
}

// Returns large terms whose sum is small.
Values cancelling_values(Draw& draw, size_t count) {
  const double large = std::pow(10.0, static_cast<double>(draw.between(2, 4)));
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = (i % 2 == 0 ? large : -large) + draw.normal();
  return values;
}

Values values_of_many_scales(Draw& draw, size_t count) {
  Values values(count);
  for (double& value : values) value = draw.normal() * std::pow(10.0, 8 * draw.uniform() - 5);
  return values;
}

void put_in(Draw& draw, Values& values, std::initializer_list<double> specials) {
  if (values.empty()) return;
  for (int64_t puts = draw.between(1, 3); puts > 0; --puts)
    values[static_cast<size_t>(draw.below(std::ssize(values)))] = draw.from(specials);
}

// Scales values so that sums of squares stay in the range of f16.
Values in_range_of_f16(Values values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  for (double& value : values) value *= std::min(1.0, 40 / largest);
  return values;
}

Values rough_values(Draw& draw, size_t count) {
  Values values;
  switch (draw.below(8)) {
    case 0: return cancelling_values(draw, count);
    case 1: return values_of_many_scales(draw, count);
    case 2: return normal_values(draw, count, 100, 0.01);  // nearly constant
    case 3: return normal_values(draw, count, 0, 1000);
    case 4: return normal_values(draw, count, 0, 1e-5);
    case 5:
      values = normal_values(draw, count, 0, 1);
      put_in(draw, values, {0.0, -0.0, 0.0});
      return values;
    default: return tame_values(draw, count);
  }
}

Values extreme_values(Draw& draw, size_t count, DType dtype) {
  const double most = max_finite(dtype == DType::f64 ? DType::f32 : dtype);
  Values values = draw.chance(0.5) ? rough_values(draw, count) : tame_values(draw, count);
  switch (draw.below(5)) {
    case 0: put_in(draw, values, {INFINITY, -INFINITY, NAN}); break;
    case 1: put_in(draw, values, {most, -most, most / 4}); break;
    case 2: put_in(draw, values, {most * 0x1p-2, 1 / most, -0.0}); break;
    case 3: put_in(draw, values, {INFINITY, 0.0}); break;
    default: break;
  }
  return values;
}

}  // namespace

std::string_view name(Conditioning conditioning) {
  switch (conditioning) {
    case Conditioning::whole_numbers: return "whole numbers";
    case Conditioning::well: return "well";
    case Conditioning::ill: return "ill";
    case Conditioning::extreme: return "extreme";
  }
  return "";
}

std::vector<double> draw_values(Draw& draw, DType dtype, int64_t count, Conditioning conditioning) {
  const auto size = static_cast<size_t>(count);
  if (dtype == DType::boolean) return whole_values(draw, size, 0, 1);
  if (is_integral(dtype) || conditioning == Conditioning::whole_numbers)
    return whole_values(draw, size, dtype == DType::u8 ? 0 : -3, 3);
  if (is_complex(dtype)) return rounded_values(dtype, tame_values(draw, size));
  switch (conditioning) {
    case Conditioning::ill: {
      Values values = rough_values(draw, size);
      return rounded_values(dtype, dtype == DType::f16 ? in_range_of_f16(values) : values);
    }
    case Conditioning::extreme: return rounded_values(dtype, extreme_values(draw, size, dtype));
    default: return rounded_values(dtype, tame_values(draw, size));
  }
}

std::vector<double> rounded_values(DType dtype, const std::vector<double>& values) {
  return values_of(tensor_of(dtype, Dims{std::ssize(values)}, values));
}

}  // namespace shardproof
