// Activation functors, templates on the compute type: sigmoid, relu, gelu (by erf, and by the tanh
// approximation of Hendrycks and Gimpel, arXiv 1606.08415), silu, softplus. All pass NaN on.
#pragma once

#include <cmath>

#include "shardproof/ops/elementwise/float_math.h"
#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof::functor {

struct Sigmoid {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C x) {
    return C{1} / (C{1} + exp_of(-x));
  }
};
struct Relu {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr C apply(C x) {
    return x < C{0} ? C{0} : x;
  }
};
struct Gelu {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C x) {
    return C(0.5) * x * (C{1} + erf_of(x * C(0.70710678118654752440)));
  }
};
struct GeluTanh {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C x) {
    const C inner = C(0.79788456080286535588) * (x + C(0.044715) * x * x * x);
    return C(0.5) * x * (C{1} + tanh_of(inner));
  }
};
struct Silu {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C x) {
    return x / (C{1} + exp_of(-x));
  }
};
struct Softplus {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C x) {
    const auto wide = static_cast<double>(x);
    return static_cast<C>(wide > 20 ? wide : std::log1p(std::exp(wide)));
  }
};

}  // namespace shardproof::functor
