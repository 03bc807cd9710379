// Implements wire_reduction.h.
#include "shardproof/localtensor/plan/wire_reduction.h"

#include <cmath>

namespace shardproof {

namespace {

// Replaces each element x by |x|^exponent: before and, with the inverse exponent, after a norm's
// sum.
void raise_all(std::byte* data, DType dtype, int64_t count, double exponent) {
  const int64_t bytes = size_of(dtype);
  for (int64_t i = 0; i < count; ++i, data += bytes) {
    double size = std::fabs(load_f64(data, dtype));
    if (is_complex(dtype))
      size = std::hypot(size, load_f64(data + bytes / 2, component_dtype(dtype)));
    store_f64(data, dtype, std::pow(size, exponent));
  }
}

void divide_all(std::byte* data, DType dtype, int64_t count, int64_t by) {
  if (is_complex(dtype)) {
    dtype = component_dtype(dtype);
    count *= 2;
  }
  const int64_t bytes = size_of(dtype);
  for (int64_t i = 0; i < count; ++i, data += bytes) {
    if (is_integral(dtype))
      store_i64(data, dtype, load_i64(data, dtype) / by);
    else
      store_f64(data, dtype, load_f64(data, dtype) / static_cast<double>(by));
  }
}

}  // namespace

WireReduction::WireReduction(const PlanStep& step) {
  bool sums = false;
  int64_t averaged = 1;
  for (int axis : step.axes) {
    if (!step.from.placement(axis).is_partial()) continue;
    wire = step.from.placement(axis).partial().reduction;
    if (wire.op == ReduceOp::avg)
      averaged *= step.from.mesh().axis_size(axis);
    else
      sums = true;
  }
  if (sums && averaged > 1) {
    wire = {ReduceOp::sum, 0};
    divisor = averaged;
  } else if (wire.op == ReduceOp::norm) {
    exponent = wire.scalar;
    wire = {ReduceOp::sum, 0};
  }
}

void WireReduction::before(std::byte* data, DType dtype, int64_t count) const {
  if (exponent != 0) raise_all(data, dtype, count, exponent);
}

void WireReduction::after(std::byte* data, DType dtype, int64_t count) const {
  if (exponent != 0) raise_all(data, dtype, count, 1 / exponent);
  if (divisor != 1) divide_all(data, dtype, count, divisor);
}

}  // namespace shardproof
