// Implements fold_in_order of fold.h: reductions whose schedule is not the order of the members.
//
//   NCCL's orders   fold_ranges (reduction_order.h) gives, for each range of elements, a program
//                   for a stack of partial results; run_steps executes it for a tile of elements
//                   with the roundings of NCCL's kernels (class Adder).
//   exact           ExactSum: sums of doubles without error, rounded once (fold_exactly).
//   nvls            as order f32: the switch adds in an order that is not documented.
//
// Example of a program, a tree of 2 nodes with 2 members each: push 1, own 0, push 3, own 2, merge.
//   stack: [x1]  [x0+x1]  [x0+x1, x3]  [x0+x1, x2+x3]  [(x2+x3) + (x0+x1)]
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/fold.h"
#include "shardproof/localtensor/collective/reduction_order.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {
namespace {

constexpr int64_t kScheduleTile = 1024;  // elements

bool is_small8(DType dtype) { return dtype == DType::f8e4m3 || dtype == DType::f8e5m2; }

// Returns the scalar rounded to the wire type.
double as_wire(double scalar, DType dtype) {
  std::byte element[16] = {};
  store_f64(element, dtype, scalar);
  return load_f64(element, dtype);
}

// Returns a + b rounded to odd: if the sum is not exact, its last bit is set. A later rounding to
// fewer than 52 bits then equals one rounding of the exact sum. Source: Boldo and Melquiond,
// Emulation of FMA and correctly rounded sums, 2008.
double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double of_b = sum - a;
  const double error = (a - (sum - of_b)) + (b - of_b);
  if (error == 0 || (std::bit_cast<uint64_t>(sum) & 1) != 0) return sum;
  return std::nextafter(sum, error > 0 ? HUGE_VAL : -HUGE_VAL);
}

// Returns a * b + c for one rounding to a floating dtype of 16 bits or more.
double multiply_and_add(DType dtype, double a, double b, double c) {
  if (dtype == DType::f64) return std::fma(a, b, c);
  if (dtype == DType::f32)
    return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
  return add_to_odd(a * b, c);  // 16-bit types: the product is exact in double
}

// The scalars of an element: one, or two for a complex type.
struct Scalars {
  DType dtype;
  int64_t per_element;
};

Scalars scalars_of(DType dtype) {
  if (dtype == DType::c64) return {DType::f32, 2};
  if (dtype == DType::c128) return {DType::f64, 2};
  return {dtype, 1};
}

// Returns the accumulator type of NCCL's symmetric kernels (ncclSymkAccumType).
DType symmetric_sum(const Collective& call) {
  const bool mean = call.reduction.op == ReduceOp::avg;
  if (is_small8(call.dtype)) return mean ? DType::f16 : DType::f32;
  return DType::f32;
}

// The additions of NCCL's kernels on tiles of partial results. These have the wire type, except in
// symmetric kernels.
class Adder {
 public:
  Adder(const Collective& call)
      : dtype_(call.dtype), held_(call.dtype), op_(call.reduction), n_(call.group.size()) {
    const bool floats = !is_integral(dtype_);
    if (order_of(call) == FoldOrder::symmetric) {
      held_ = symmetric_sum(call);
      scales_after_ = op_.op == ReduceOp::avg;
      op_ = {ReduceOp::sum, 0};
    }
    if (op_.op == ReduceOp::avg && floats) op_ = {ReduceOp::premul_sum, 1.0 / double(n_)};
    if (op_.op == ReduceOp::premul_sum && floats) op_.scalar = as_wire(op_.scalar, dtype_);
  }

  DType held() const { return held_; }

  // Writes a member's elements as the first partial result, scaled if the reduction scales.
  void load_scaled(const std::byte* own, int64_t count, std::byte* out) const {
    if (op_.op != ReduceOp::premul_sum) return convert(own, dtype_, out, held_, count);
    if (!is_small8(dtype_)) return shardproof::fold(op_, {}, dtype_, &own, 1, 0, count, out);
    std::byte halves[2 * kScheduleTile];
    const std::byte* wide = halves;
    convert(own, dtype_, halves, DType::f16, count);
    shardproof::fold(op_, {}, DType::f16, &wide, 1, 0, count, halves);
    narrow(halves, DType::f16, count, out);
  }

  // Adds a member's elements, scaled if the reduction scales, to a partial result. Scaling and
  // adding is one fused instruction, except for 8-bit floats, whose products are narrowed in
  // between. Source: machine code for sm_90 and sm_100 of NCCL 2.28 and 2.32. nvcc fuses them in
  // all kernels but those for LL128.
  void add_scaled(const std::byte* own, int64_t count, std::byte* sum) const {
    const bool floats = !is_integral(dtype_) && !is_small8(dtype_);
    if (op_.op != ReduceOp::premul_sum || !floats) {
      std::byte scaled[16 * kScheduleTile];
      load_scaled(own, count, scaled);
      return add(scaled, count, sum);
    }
    const Scalars scalars = scalars_of(dtype_);
    const int64_t size = size_of(scalars.dtype);
    for (int64_t at = 0; at < count * scalars.per_element * size; at += size)
      store_f64(sum + at, scalars.dtype,
                multiply_and_add(scalars.dtype, load_f64(own + at, scalars.dtype), op_.scalar,
                                 load_f64(sum + at, scalars.dtype)));
  }

  void add(const std::byte* own, int64_t count, std::byte* sum) const {
    const ReduceOp op = op_.op;
    if (op == ReduceOp::min || op == ReduceOp::max) return choose(own, count, sum);
    const bool sums = op != ReduceOp::prod;
    const Reduction pair{sums ? ReduceOp::sum : ReduceOp::prod, 0};
    if (is_small8(held_)) return add_in_half(pair, own, count, sum);
    const std::byte* both[] = {own, sum};
    shardproof::fold(pair, {}, held_, both, 2, 0, count, sum);
  }

  // Writes the result in the wire type. NCCL divides an integer sum once, after it has wrapped.
  void finish(std::byte* sum, int64_t count, std::byte* out) const {
    const int64_t size = size_of(dtype_);
    if (scales_after_) {
      const Reduction scale{ReduceOp::premul_sum, as_wire(1.0 / double(n_), held_)};
      const std::byte* whole = sum;
      shardproof::fold(scale, {}, held_, &whole, 1, 0, count, sum);
    }
    if (op_.op == ReduceOp::avg)
      for (int64_t i = 0; i < count; ++i)
        store_i64(sum + i * size, dtype_, load_i64(sum + i * size, dtype_) / n_);
    narrow(sum, held_, count, out);
  }

 private:
  // Minimum and maximum as in fminf, __hmin and their PTX. For a NaN and a number the result is the
  // number, and -0 is less than +0.
  void choose(const std::byte* own, int64_t count, std::byte* sum) const {
    const int64_t size = size_of(dtype_);
    const bool integral = is_integral(dtype_), least = op_.op == ReduceOp::min;
    for (int64_t i = 0; i < count; ++i) {
      const std::byte* mine = own + i * size;
      std::byte* held = sum + i * size;
      bool takes = false;
      if (integral) {
        const int64_t a = load_i64(mine, dtype_), b = load_i64(held, dtype_);
        takes = least ? a < b : a > b;
      } else {
        const double a = load_f64(mine, dtype_), b = load_f64(held, dtype_);
        const bool less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
        const bool more = a > b || (a == b && !std::signbit(a) && std::signbit(b));
        takes = std::isnan(b) || (least ? less : more);
      }
      if (takes) std::memcpy(held, mine, static_cast<size_t>(size));
    }
  }

  void add_in_half(const Reduction& pair, const std::byte* own, int64_t count,
                   std::byte* sum) const {
    std::byte left[2 * kScheduleTile], right[2 * kScheduleTile];
    convert(own, dtype_, left, DType::f16, count);
    convert(sum, dtype_, right, DType::f16, count);
    const std::byte* both[] = {left, right};
    shardproof::fold(pair, {}, DType::f16, both, 2, 0, count, right);
    narrow(right, DType::f16, count, sum);
  }

  // Converts to the wire type. CUDA's conversion to an 8-bit float saturates (__NV_SATFINITE).
  void narrow(std::byte* wide, DType from, int64_t count, std::byte* out) const {
    if (is_small8(dtype_) && from != dtype_) {
      const double most = dtype_ == DType::f8e4m3 ? 448 : 57344;
      const int64_t size = size_of(from);
      for (int64_t i = 0; i < count; ++i) {
        const double x = load_f64(wide + i * size, from);
        if (std::fabs(x) > most) store_f64(wide + i * size, from, std::copysign(most, x));
      }
    }
    convert(wide, from, out, dtype_, count);
  }

  DType dtype_, held_;
  Reduction op_;
  int64_t n_;
  bool scales_after_ = false;
};

// A stack of partial results of one tile; memory of popped entries is reused.
class Stack {
 public:
  explicit Stack(int64_t tile_bytes) : tile_bytes_(tile_bytes) {}
  std::byte* push() {
    ++height_;
    if (tiles_.size() < height_) tiles_.emplace_back(static_cast<size_t>(tile_bytes_));
    return tiles_[height_ - 1].data();
  }
  std::byte* top() { return tiles_[height_ - 1].data(); }
  std::byte* pop() { return tiles_[--height_].data(); }

 private:
  int64_t tile_bytes_;
  size_t height_ = 0;
  std::vector<std::vector<std::byte>> tiles_;
};

void run_steps(const std::vector<FoldStep>& steps, const Adder& adder,
               const std::byte* const* inputs, int64_t offset_bytes, int64_t count, Stack& stack,
               std::byte* out) {
  for (const FoldStep& step : steps) {
    const std::byte* own = inputs[step.member] + offset_bytes;
    switch (step.kind) {
      case FoldStep::Kind::push: adder.load_scaled(own, count, stack.push()); break;
      case FoldStep::Kind::own: adder.add_scaled(own, count, stack.top()); break;
      case FoldStep::Kind::merge: {
        const std::byte* child = stack.pop();
        adder.add(child, count, stack.top());
        break;
      }
    }
  }
  adder.finish(stack.top(), count, out);
  stack.pop();
}

void fold_as_nccl(const Collective& call, const std::byte* const* inputs, int64_t first,
                  int64_t count, std::byte* out) {
  const Adder adder(call);
  const int64_t size = size_of(call.dtype);
  Stack stack(kScheduleTile * size_of(adder.held()));
  for (const FoldRange& range : fold_ranges(call)) {
    const int64_t from = std::max(first, range.first);
    const int64_t to = std::min(first + count, range.first + range.count);
    for (int64_t at = from; at < to; at += kScheduleTile) {
      const int64_t length = std::min(kScheduleTile, to - at);
      run_steps(range.steps, adder, inputs, at * size, length, stack, out + (at - first) * size);
    }
  }
}

// A sum of doubles without error, as parts that do not overlap, smallest first (Shewchuk, Adaptive
// Precision Floating-Point Arithmetic, 1997; the algorithm of Python's math.fsum). Example: adding
// 1 and 2^-60 leaves the parts 2^-60 and 1; adding -1 leaves 2^-60.
class ExactSum {
 public:
  void add(double x) {
    if (!std::isfinite(x)) {
      special_ += x;
      return;
    }
    size_t kept = 0;
    for (double part : parts_) {
      if (std::fabs(x) < std::fabs(part)) std::swap(x, part);
      const double high = x + part, low = part - (high - x);
      if (low != 0) parts_[kept++] = low;
      x = high;
    }
    parts_.resize(kept);
    parts_.push_back(x);
  }
  double rounded() const {
    if (special_ != 0 || std::isnan(special_)) return special_;
    double sum = 0, low = 0;
    size_t at = parts_.size();
    while (at > 0 && low == 0) {
      const double x = sum, part = parts_[--at];
      sum = x + part;
      low = part - (sum - x);
    }
    // `low` is exactly half an ulp and was rounded to even: the next part decides the direction.
    if (at > 0 && ((low < 0 && parts_[at - 1] < 0) || (low > 0 && parts_[at - 1] > 0))) {
      const double twice = low * 2, up = sum + twice;
      if (up - sum == twice) sum = up;
    }
    return sum;
  }

 private:
  std::vector<double> parts_;
  double special_ = 0;
};

void fold_exactly(const Collective& call, const std::byte* const* inputs, int64_t first,
                  int64_t count, std::byte* out) {
  const Scalars scalars = scalars_of(call.dtype);
  const int64_t size = size_of(scalars.dtype), n = call.group.size();
  const bool scales = call.reduction.op == ReduceOp::premul_sum;
  for (int64_t i = 0; i < count * scalars.per_element; ++i) {
    ExactSum sum;
    for (int64_t member = 0; member < n; ++member) {
      const int64_t at = (first * scalars.per_element + i) * size;
      const double x = load_f64(inputs[member] + at, scalars.dtype);
      if (!scales) {
        sum.add(x);
        continue;
      }
      const double product = x * call.reduction.scalar;
      sum.add(product);
      if (std::isfinite(product)) sum.add(std::fma(x, call.reduction.scalar, -product));
    }
    const double whole = sum.rounded();
    const bool mean = call.reduction.op == ReduceOp::avg;
    store_f64(out + i * size, scalars.dtype, mean ? whole / double(n) : whole);
  }
}

bool adds(ReduceOp op) {
  return op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::premul_sum;
}

bool nccl_supports(const Reduction& reduction) {
  return adds(reduction.op) || reduction.op == ReduceOp::prod || reduction.op == ReduceOp::min ||
         reduction.op == ReduceOp::max;
}

}  // namespace

void fold_in_order(const Collective& call, const std::byte* const* inputs, int64_t first,
                   int64_t count, std::byte* out) {
  const FoldOrder order = call.schedule.order;
  const bool nccl = order >= FoldOrder::ring && order != FoldOrder::nvls;
  if (nccl && nccl_supports(call.reduction) && call.dtype != DType::boolean)
    return fold_as_nccl(call, inputs, first, count, out);
  if (order == FoldOrder::exact && adds(call.reduction.op) && !is_integral(call.dtype))
    return fold_exactly(call, inputs, first, count, out);
  // The switch adds 16-bit floats in f32 (multimem.ld_reduce with .acc::f32).
  ReductionSchedule schedule = call.schedule;
  if (order == FoldOrder::nvls) schedule.order = FoldOrder::f32;
  fold(call.reduction, schedule, call.dtype, inputs, call.group.size(), first, count, out);
}

}  // namespace shardproof
