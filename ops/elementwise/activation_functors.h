// Activation functors, templates on the compute type: sigmoid, relu, gelu, silu, softplus. gelu has
// two forms: by erf, and by the tanh approximation of Hendrycks and Gimpel (arXiv 1606.08415). All
// functors return NaN for NaN.
#pragma once

#include <cmath>
#include <complex>

#include "shardproof/ops/elementwise/float_math.h"
#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof::functor {

struct Sigmoid {
  static constexpr unsigned kTypes = kFloats | kComplexes;
  template <typename C>
  static constexpr C apply(C x) {
    if constexpr (kIsComplexType<C>)
      return C{1} / (C{1} + std::exp(-x));
    else
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
  static constexpr unsigned kTypes = kFloats | kComplexes;
  template <typename C>
  static constexpr C apply(C x) {
    if constexpr (kIsComplexType<C>)
      return x / (C{1} + std::exp(-x));
    else
      return x / (C{1} + exp_of(-x));
  }
};
// Derivatives times dy: one pass instead of the eight of a formula.
struct GeluGrad {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C dy, C x) {
    const C below = C(0.5) * (C{1} + erf_of(x * C(0.70710678118654752440)));
    const C density = C(0.39894228040143267794) * exp_of(C(-0.5) * x * x);
    return dy * (below + x * density);
  }
};
struct GeluTanhGrad {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C dy, C x) {
    const C scale = C(0.79788456080286535588), cubic = C(0.044715);
    const C t = tanh_of(scale * (x + cubic * x * x * x));
    const C slope = scale * (C{1} + C{3} * cubic * x * x);
    return dy * C(0.5) * (C{1} + t + x * (C{1} - t * t) * slope);
  }
};
struct SiluGrad {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static constexpr C apply(C dy, C x) {
    const C s = C{1} / (C{1} + exp_of(-x));
    return dy * (s * (C{1} + x * (C{1} - s)));
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
