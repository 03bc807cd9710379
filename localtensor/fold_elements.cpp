#include <cmath>
#include <limits>
#include <type_traits>

#include "shardproof/localtensor/detail/fold.h"
#include "shardproof/localtensor/detail/round_float.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {

namespace {

constexpr int64_t kTileBytes =
    16384;  // of accumulators: with one input tile it stays in the first cache

// How a storage type is computed with. `Narrow` types round to storage after each step.
template <typename T>
struct Plain {
  using Storage = T;
  using Value = T;
  static constexpr bool kNarrow = false;
  static Value load(T x) { return x; }
  static T store(Value x) { return x; }
};
template <typename T>
struct Small {
  using Storage = T;
  using Value = float;
  static constexpr bool kNarrow = true;
  static Value load(T x) { return detail::widen(x); }
  static T store(Value x) { return detail::round_to<T>(x); }
};
template <typename T>
struct SmallWide : Small<T> {
  static constexpr bool kNarrow = false;
};
template <typename T, typename V>
struct Wide {
  using Storage = T;
  using Value = V;
  static constexpr bool kNarrow = false;
  static Value load(T x) { return static_cast<V>(x); }
  static T store(Value x) { return static_cast<T>(x); }
};
struct Truth {
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
struct Min {
  template <typename V>
  V operator()(V a, V b) const {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <typename V>
  V operator()(V a, V b) const {
    return a < b || b != b ? b : a;
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

struct Job {
  const std::byte* const* inputs;
  int64_t members, first, count;
  std::byte* out;
};

template <typename A>
typename A::Value rounded(typename A::Value x) {
  if constexpr (A::kNarrow) return A::load(A::store(x));
  return x;
}

template <typename A, typename Op, typename Before, typename After>
void fold_as(const Job& job, Op op, Before before, After after) {
  using Storage = typename A::Storage;
  using Value = typename A::Value;
  constexpr int64_t kTile = kTileBytes / static_cast<int64_t>(sizeof(Value));
  alignas(64) Value sum[static_cast<size_t>(kTile)];
  auto* out = reinterpret_cast<Storage*>(job.out);
  for (int64_t at = 0; at < job.count; at += kTile) {
    const int64_t length = std::min(kTile, job.count - at);
    const auto* in = reinterpret_cast<const Storage*>(job.inputs[0]) + job.first + at;
    for (int64_t j = 0; j < length; ++j) sum[j] = rounded<A>(before(A::load(in[j])));
    for (int64_t i = 1; i < job.members; ++i) {
      in = reinterpret_cast<const Storage*>(job.inputs[i]) + job.first + at;
      for (int64_t j = 0; j < length; ++j)
        sum[j] = rounded<A>(op(sum[j], rounded<A>(before(A::load(in[j])))));
    }
    for (int64_t j = 0; j < length; ++j) out[at + j] = A::store(after(sum[j]));
  }
}

template <typename A>
void fold_arithmetic(const Job& job, const Reduction& reduction) {
  switch (reduction.op) {
    case ReduceOp::sum: return fold_as<A>(job, Sum(), Same(), Same());
    case ReduceOp::avg: return fold_as<A>(job, Sum(), Same(), Divide{job.members});
    case ReduceOp::prod: return fold_as<A>(job, Prod(), Same(), Same());
    case ReduceOp::premul_sum: return fold_as<A>(job, Sum(), Scale{reduction.scalar}, Same());
    case ReduceOp::norm:
      return fold_as<A>(job, Sum(), Power{reduction.scalar}, Power{1 / reduction.scalar});
    default: break;
  }
  if constexpr (!is_complex_value<typename A::Value>) {
    if (reduction.op == ReduceOp::min) return fold_as<A>(job, Min(), Same(), Same());
    if (reduction.op == ReduceOp::max) return fold_as<A>(job, Max(), Same(), Same());
  }
  SP_UNREACHABLE("{} on a dtype that cannot do it", to_string(reduction));
}

template <typename A>
void fold_bits(const Job& job, const Reduction& reduction) {
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
void fold_integers(const Job& job, const Reduction& reduction) {
  const bool bitwise = reduction.op == ReduceOp::band || reduction.op == ReduceOp::bor ||
                       reduction.op == ReduceOp::bxor;
  if (bitwise) return fold_bits<Plain<T>>(job, reduction);
  fold_arithmetic<Plain<T>>(job, reduction);
}

template <typename Each, typename Wider>
void fold_floats(const Job& job, const Reduction& reduction, ReductionSchedule schedule) {
  if (schedule.accumulate_wide) return fold_arithmetic<Wider>(job, reduction);
  fold_arithmetic<Each>(job, reduction);
}

}  // namespace

void fold(const Reduction& reduction, ReductionSchedule schedule, DType dtype,
          const std::byte* const* inputs, int64_t members, int64_t first, int64_t count,
          std::byte* out) {
  const Job job{inputs, members, first, count, out};
  switch (dtype) {
    case DType::f64: return fold_arithmetic<Plain<double>>(job, reduction);
    case DType::f32:
      return fold_floats<Plain<float>, Wide<float, double>>(job, reduction, schedule);
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
    case DType::boolean: return fold_bits<Truth>(job, reduction);
    case DType::c64: return fold_floats<Plain<C64>, Wide<C64, C128>>(job, reduction, schedule);
    case DType::c128: return fold_arithmetic<Plain<C128>>(job, reduction);
  }
}

}  // namespace shardproof
