// Functors of one operand, templates on the compute type. All return NaN for NaN, as in torch.
#pragma once

#include <cmath>
#include <cstdint>

#include "shardproof/ops/elementwise/float_math.h"
#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof::functor {

struct Neg {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr C apply(C x) {
    if constexpr (std::is_same_v<C, int64_t>)
      return static_cast<C>(0 - static_cast<uint64_t>(x));
    else
      return -x;
  }
};
struct Identity {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr C apply(C x) {
    return x;
  }
};
struct Conj {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr C apply(C x) {
    if constexpr (kIsComplexType<C>)
      return C{x.real(), -x.imag()};
    else
      return x;
  }
};
struct Abs {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr auto apply(C x) {
    if constexpr (std::is_same_v<C, int64_t>)
      return x < 0 ? Neg::apply(x) : x;
    else
      return std::abs(x);
  }
};
struct Exp {
  static constexpr unsigned kTypes = kFloats | kComplexes;
  template <typename C>
  static constexpr C apply(C x) {
    if constexpr (kIsComplexType<C>)
      return std::exp(x);
    else
      return exp_of(x);
  }
};
struct Log {
  static constexpr unsigned kTypes = kFloats | kComplexes;
  template <typename C>
  static constexpr C apply(C x) {
    if constexpr (kIsComplexType<C>)
      return std::log(x);
    else
      return log_of(x);
  }
};
struct Sqrt {
  static constexpr unsigned kTypes = kFloats | kComplexes;
  template <typename C>
  static constexpr C apply(C x) {
    return std::sqrt(x);
  }
};
struct Rsqrt {
  static constexpr unsigned kTypes = kFloats | kComplexes;
  template <typename C>
  static constexpr C apply(C x) {
    return C{1} / std::sqrt(x);
  }
};
struct Square {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr C apply(C x) {
    if constexpr (std::is_same_v<C, int64_t>)
      return static_cast<C>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
    else
      return x * x;
  }
};
struct Reciprocal {
  static constexpr unsigned kTypes = kFloats | kComplexes;
  template <typename C>
  static constexpr C apply(C x) {
    return C{1} / x;
  }
};
struct Tanh {
  static constexpr unsigned kTypes = kFloats | kComplexes;
  template <typename C>
  static constexpr C apply(C x) {
    if constexpr (kIsComplexType<C>)
      return static_cast<C>(std::tanh(C128(x)));
    else
      return tanh_of(x);
  }
};
struct Erf {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C x) {
    return erf_of(x);
  }
};

}  // namespace shardproof::functor
