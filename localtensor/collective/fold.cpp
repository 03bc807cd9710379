// Implements fold.h and partial_fold.h: the left fold in member order.
//
//   1. fold_job chooses a type policy by dtype (Plain, Small, SmallWide, Logical). fold_arithmetic
//      or fold_bits choose the operation, and a step before (Scale, Power) or after (Divide,
//      Power).
//   2. fold_as goes through the elements in tiles that fit the first cache.
//   3. fold_tile adds four members a pass, so that accumulators are loaded and stored once for
//      four.
//
// Rounding: Small stores accumulators as f32 and rounds them to the storage type after every step.
// SmallWide (order f32) rounds once at the end. Plain computes in the storage type.
//
// Example in bf16 (8 bits): 256 + 1 + 1. Small: 256 + 1 = 257 rounds to 256 (tie to even), twice,
// so the result is 256. SmallWide: 258, which bf16 holds.
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/fold.h"
#include "shardproof/localtensor/collective/partial_fold.h"
#include "shardproof/localtensor/dtype/round_float.h"

namespace shardproof {

namespace {

constexpr int64_t kTileBytes = 16384;  // accumulators; with an input tile they fit the first cache

// Type policies: the arithmetic of each storage type. With kNarrow, values are rounded to the
// storage type after each step.
template <typename T>
struct Plain {
  using Storage = T;
  using Value = T;
  static constexpr bool kNarrow = false;
  static Value load(T x) { return x; }
  static T store(Value x) { return x; }
};
// Returns all bits set if the condition holds, else 0. Selection uses masks because compilers do
// not turn loops with branches into vector code.
inline int32_t mask_if(bool condition) { return -static_cast<int32_t>(condition); }
inline int32_t choose(int32_t mask, int32_t yes, int32_t no) { return (yes & mask) | (no & ~mask); }

// Returns load(store(x)): x rounded to T, as f32. The steps are those of round_to in round_float.h,
// but the result keeps f32's bit layout, so there is no shift.
template <typename T>
float round_value(float x) {
  using F = detail::Format<T>;
  constexpr int kShift = 23 - F::kMantissa;
  constexpr int32_t kCut = ~((1 << kShift) - 1);
  constexpr int32_t kInfinity = 0x7f800000, kQuietNan = 0x7fc00000;
  constexpr bool kHasInfinity = F::kOverflow != F::kQuietNan;
  const int32_t bits = std::bit_cast<int32_t>(x);
  const int32_t size = bits & 0x7fffffff;
  int32_t result = (size + ((1 << (kShift - 1)) - 1) + (size >> kShift & 1)) & kCut;
  if constexpr (F::kBias != 127) {  // other exponents than f32: subnormal and too large values
    constexpr int32_t kMinNormal = (127 - F::kBias + 1) << 23;
    constexpr int32_t kOverflow =
        (static_cast<int32_t>(F::kOverflow >> F::kMantissa) - F::kBias + 127) << 23 |
        static_cast<int32_t>(F::kOverflow & ((1u << F::kMantissa) - 1)) << kShift;
    // The last place of kMagic is T's smallest subnormal, so that adding it rounds.
    constexpr float kMagic = std::bit_cast<float>((127 - F::kBias + 1 + kShift) << 23);
    const float small = (std::bit_cast<float>(size) + kMagic) - kMagic;
    result = choose(mask_if(size < kMinNormal), std::bit_cast<int32_t>(small), result);
    result = choose(mask_if(result >= kOverflow), kHasInfinity ? kInfinity : kQuietNan, result);
  }
  const int32_t nan = kHasInfinity ? (size & kCut) | 0x400000 : kQuietNan;
  result = choose(mask_if(size > kInfinity), nan, result);
  return std::bit_cast<float>(result | (bits & std::numeric_limits<int32_t>::min()));
}

// Returns round_value(x) for a result of arithmetic on values of T. If T has f32's exponents
// (bf16), a NaN result is quiet and has no low bits, so it needs no selection.
template <typename T>
float round_result(float x) {
  using F = detail::Format<T>;
  if constexpr (F::kBias != 127) return round_value<T>(x);
  constexpr int kShift = 23 - F::kMantissa;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t half = (uint32_t{1} << (kShift - 1)) - 1;
  return std::bit_cast<float>((bits + half + (bits >> kShift & 1)) &
                              ~((uint32_t{1} << kShift) - 1));
}

template <typename T>
struct Small {
  using Storage = T;
  using Value = float;
  static constexpr bool kNarrow = true;
  static Value load(T x) { return detail::widen(x); }
  static T store(Value x) { return detail::round_to<T>(x); }
  static Value round(Value x) { return round_value<T>(x); }
  static Value round_sum(Value x) { return round_result<T>(x); }
};
template <typename T>
struct SmallWide : Small<T> {
  static constexpr bool kNarrow = false;
};
struct Logical {
  using Storage = Bool;
  using Value = uint8_t;
  static constexpr bool kNarrow = false;
  static Value load(Bool x) { return x.value; }
  static Bool store(Value x) { return Bool{x}; }
};

template <typename T>
constexpr bool is_complex_value = !std::is_arithmetic_v<T>;

struct Sum {
  template <typename V>
  V operator()(V a, V b) const {
    if constexpr (std::is_integral_v<V>) {
      using U = std::make_unsigned_t<V>;
      return static_cast<V>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct Prod {
  template <typename V>
  V operator()(V a, V b) const {
    if constexpr (std::is_integral_v<V>) {
      return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
// Minimum and maximum as in IEEE 754-2019: -0 is less than +0, and any NaN gives the quiet NaN. The
// result is therefore the same in every order of members.
template <typename V, typename Join>
V with_bits(V a, V b, Join join) {
  using Bits = std::conditional_t<sizeof(V) == 8, uint64_t, uint32_t>;
  return std::bit_cast<V>(join(std::bit_cast<Bits>(a), std::bit_cast<Bits>(b)));
}
struct Min {
  template <typename V>
  V operator()(V a, V b) const {
    const V less = b < a ? b : a;
    if constexpr (std::is_floating_point_v<V>) {
      const V one = a == b ? with_bits(a, b, [](auto x, auto y) { return x | y; }) : less;
      return a != a || b != b ? std::numeric_limits<V>::quiet_NaN() : one;
    } else {
      return less;
    }
  }
};
struct Max {
  template <typename V>
  V operator()(V a, V b) const {
    const V more = a < b ? b : a;
    if constexpr (std::is_floating_point_v<V>) {
      const V one = a == b ? with_bits(a, b, [](auto x, auto y) { return x & y; }) : more;
      return a != a || b != b ? std::numeric_limits<V>::quiet_NaN() : one;
    } else {
      return more;
    }
  }
};
struct And {
  template <typename V>
  V operator()(V a, V b) const {
    return static_cast<V>(a & b);
  }
};
struct Or {
  template <typename V>
  V operator()(V a, V b) const {
    return static_cast<V>(a | b);
  }
};
struct Xor {
  template <typename V>
  V operator()(V a, V b) const {
    return static_cast<V>(a ^ b);
  }
};

struct Same {
  template <typename V>
  V operator()(V x) const {
    return x;
  }
};
struct Scale {
  double factor;
  template <typename V>
  V operator()(V x) const {
    if constexpr (std::is_integral_v<V>) {
      return Prod()(x, static_cast<V>(static_cast<int64_t>(factor)));
    } else if constexpr (is_complex_value<V>) {
      return x * static_cast<typename V::value_type>(factor);
    } else {
      return x * static_cast<V>(factor);
    }
  }
};
struct Divide {
  int64_t by;
  template <typename V>
  V operator()(V x) const {
    if constexpr (std::is_integral_v<V>) {
      return static_cast<V>(static_cast<int64_t>(x) / by);
    } else if constexpr (is_complex_value<V>) {
      return x / static_cast<typename V::value_type>(by);
    } else {
      return x / static_cast<V>(by);
    }
  }
};
struct Power {
  double exponent;
  template <typename V>
  V operator()(V x) const {
    if constexpr (is_complex_value<V>) {
      return V(static_cast<typename V::value_type>(
          std::pow(std::abs(std::complex<double>(x)), exponent)));
    } else {
      return static_cast<V>(std::pow(std::fabs(static_cast<double>(x)), exponent));
    }
  }
};

struct FoldJob {
  const std::byte* const* inputs;
  int64_t members, first, count;
  std::byte* out;
  FoldPart part = FoldPart::whole;
  int64_t parties = members;  // an average is divided by this number
  bool opens() const { return part == FoldPart::whole || part == FoldPart::opening; }
  bool closes() const { return part == FoldPart::whole || part == FoldPart::closing; }
};

template <typename A>
typename A::Value rounded(typename A::Value x) {
  if constexpr (A::kNarrow) return A::round(x);
  return x;
}

template <typename A>
typename A::Value rounded_sum(typename A::Value x) {
  if constexpr (A::kNarrow) return A::round_sum(x);
  return x;
}

// Returns the element of a member as it is added: scaled first and rounded, if there is a `before`.
template <typename A, typename Before>
typename A::Value contribution(typename A::Storage x, Before before) {
  if constexpr (std::is_same_v<Before, Same>) return A::load(x);
  return rounded<A>(before(A::load(x)));
}

// Adds four members a pass: accumulators are loaded and stored once, and four streams use more of
// the memory bandwidth.
template <typename A, typename Op, typename Before>
void fold_tile(const FoldJob& job, int64_t at, int64_t length, typename A::Value* __restrict sum,
               Op op, Before before) {
  const auto input = [&](int64_t i) {
    return reinterpret_cast<const typename A::Storage*>(job.inputs[i]) + job.first + at;
  };
  const auto* first = input(0);
  for (int64_t j = 0; j < length; ++j) sum[j] = contribution<A>(first[j], before);
  int64_t i = 1;
  for (; i + 4 <= job.members; i += 4) {
    const auto *a = input(i), *b = input(i + 1), *c = input(i + 2), *d = input(i + 3);
    for (int64_t j = 0; j < length; ++j) {
      auto s = rounded_sum<A>(op(sum[j], contribution<A>(a[j], before)));
      s = rounded_sum<A>(op(s, contribution<A>(b[j], before)));
      s = rounded_sum<A>(op(s, contribution<A>(c[j], before)));
      sum[j] = rounded_sum<A>(op(s, contribution<A>(d[j], before)));
    }
  }
  for (; i < job.members; ++i) {
    const auto* in = input(i);
    for (int64_t j = 0; j < length; ++j)
      sum[j] = rounded_sum<A>(op(sum[j], contribution<A>(in[j], before)));
  }
}

template <typename A, typename Op, typename Before, typename After>
void fold_as(const FoldJob& job, Op op, Before before, After after) {
  using Value = typename A::Value;
  constexpr int64_t kTile = kTileBytes / static_cast<int64_t>(sizeof(Value));
  alignas(64) Value sum[static_cast<size_t>(kTile)];
  auto* out = reinterpret_cast<typename A::Storage*>(job.out);
  for (int64_t at = 0; at < job.count; at += kTile) {
    const int64_t length = std::min(kTile, job.count - at);
    fold_tile<A>(job, at, length, sum, op, before);
    for (int64_t j = 0; j < length; ++j) out[at + j] = A::store(after(sum[j]));
  }
}

template <typename A>
void fold_norm(const FoldJob& job, double exponent) {
  const Power before{exponent}, after{1 / exponent};
  if (job.opens() && job.closes()) return fold_as<A>(job, Sum(), before, after);
  if (job.opens()) return fold_as<A>(job, Sum(), before, Same());
  if (job.closes()) return fold_as<A>(job, Sum(), Same(), after);
  fold_as<A>(job, Sum(), Same(), Same());
}

template <typename A>
void fold_arithmetic(const FoldJob& job, const Reduction& reduction) {
  switch (reduction.op) {
    case ReduceOp::sum: return fold_as<A>(job, Sum(), Same(), Same());
    case ReduceOp::avg:
      if (job.closes()) return fold_as<A>(job, Sum(), Same(), Divide{job.parties});
      return fold_as<A>(job, Sum(), Same(), Same());
    case ReduceOp::prod: return fold_as<A>(job, Prod(), Same(), Same());
    case ReduceOp::premul_sum:
      if (job.opens()) return fold_as<A>(job, Sum(), Scale{reduction.scalar}, Same());
      return fold_as<A>(job, Sum(), Same(), Same());
    case ReduceOp::norm: return fold_norm<A>(job, reduction.scalar);
    default: break;
  }
  if constexpr (!is_complex_value<typename A::Value> && !A::kNarrow) {
    if (reduction.op == ReduceOp::min) return fold_as<A>(job, Min(), Same(), Same());
    if (reduction.op == ReduceOp::max) return fold_as<A>(job, Max(), Same(), Same());
  }
  SP_UNREACHABLE("{} on a dtype that cannot do it", to_string(reduction));
}

template <typename A>
void fold_bits(const FoldJob& job, const Reduction& reduction) {
  switch (reduction.op) {
    case ReduceOp::band: return fold_as<A>(job, And(), Same(), Same());
    case ReduceOp::bor: return fold_as<A>(job, Or(), Same(), Same());
    case ReduceOp::bxor: return fold_as<A>(job, Xor(), Same(), Same());
    case ReduceOp::min: return fold_as<A>(job, Min(), Same(), Same());
    case ReduceOp::max: return fold_as<A>(job, Max(), Same(), Same());
    default: SP_UNREACHABLE("{} on a dtype that cannot do it", to_string(reduction));
  }
}

template <typename T>
void fold_integers(const FoldJob& job, const Reduction& reduction) {
  const bool bitwise = reduction.op == ReduceOp::band || reduction.op == ReduceOp::bor ||
                       reduction.op == ReduceOp::bxor;
  if (bitwise) return fold_bits<Plain<T>>(job, reduction);
  fold_arithmetic<Plain<T>>(job, reduction);
}

template <typename Each, typename Wider>
void fold_floats(const FoldJob& job, const Reduction& reduction, ReductionSchedule schedule) {
  // A minimum or maximum of values of a type is one of them: no step has to round.
  const bool chooses = reduction.op == ReduceOp::min || reduction.op == ReduceOp::max;
  if (chooses || schedule.order == FoldOrder::f32) return fold_arithmetic<Wider>(job, reduction);
  fold_arithmetic<Each>(job, reduction);
}

void fold_job(const Reduction& reduction, ReductionSchedule schedule, DType dtype,
              const FoldJob& job) {
  switch (dtype) {
    case DType::f64: return fold_arithmetic<Plain<double>>(job, reduction);
    case DType::f32: return fold_arithmetic<Plain<float>>(job, reduction);
    case DType::f16: return fold_floats<Small<F16>, SmallWide<F16>>(job, reduction, schedule);
    case DType::bf16: return fold_floats<Small<BF16>, SmallWide<BF16>>(job, reduction, schedule);
    case DType::f8e4m3:
      return fold_floats<Small<F8E4M3>, SmallWide<F8E4M3>>(job, reduction, schedule);
    case DType::f8e5m2:
      return fold_floats<Small<F8E5M2>, SmallWide<F8E5M2>>(job, reduction, schedule);
    case DType::i64: return fold_integers<int64_t>(job, reduction);
    case DType::i32: return fold_integers<int32_t>(job, reduction);
    case DType::i16: return fold_integers<int16_t>(job, reduction);
    case DType::i8: return fold_integers<int8_t>(job, reduction);
    case DType::u8: return fold_integers<uint8_t>(job, reduction);
    case DType::boolean: return fold_bits<Logical>(job, reduction);
    case DType::c64: return fold_arithmetic<Plain<C64>>(job, reduction);
    case DType::c128: return fold_arithmetic<Plain<C128>>(job, reduction);
  }
}

}  // namespace

void fold(const Reduction& reduction, ReductionSchedule schedule, DType dtype,
          const std::byte* const* inputs, int64_t members, int64_t first, int64_t count,
          std::byte* out) {
  fold_job(reduction, schedule, dtype, {inputs, members, first, count, out});
}

void fold_part(FoldPart part, const Reduction& reduction, DType dtype,
               std::span<const std::byte* const> inputs, int64_t count, int64_t parties,
               std::byte* out) {
  fold_job(reduction, {}, dtype,
           {inputs.data(), static_cast<int64_t>(inputs.size()), 0, count, out, part, parties});
}

}  // namespace shardproof
