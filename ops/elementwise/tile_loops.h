// Tile loops made from functors. A functor is a struct with `static R apply(C...)`, a template on
// the compute type C, and kTypes, the compute types it has. The loops are plain, so compilers
// vectorize them. Functors use std only, so nvcc compiles them unchanged.
#pragma once

#include <cstdint>
#include <type_traits>
#include <typeinfo>

#include "shardproof/localtensor/dtype/dtype.h"
#include "shardproof/ops/elementwise/elementwise_kernel.h"

namespace shardproof {

inline constexpr unsigned kFloats = 1, kIntegers = 2, kComplexes = 4;
inline constexpr unsigned kReals = kFloats | kIntegers, kAllTypes = kReals | kComplexes;

template <typename T>
inline constexpr bool kIsComplexType = std::is_same_v<T, C64> || std::is_same_v<T, C128>;

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::boolean;
  if constexpr (std::is_same_v<T, C64>) return DType::c64;
  if constexpr (std::is_same_v<T, C128>) return DType::c128;
}

// A tile loop for one compute type; `run` is null if the functor has no such type.
struct TypedLoop {
  TileLoop run = nullptr;
  const std::type_info* type = nullptr;
  DType input = DType::f32, output = DType::f32;
};

template <typename R>
using Stored = std::conditional_t<std::is_same_v<R, bool>, uint8_t, R>;

template <typename T>
constexpr const T* tile_input(const TileCall& call, int i) {
  return reinterpret_cast<const T*>(call.inputs[i]);
}
template <typename T>
constexpr T* tile_output(const TileCall& call, int i) {
  return reinterpret_cast<T*>(call.outputs[i]);
}

template <typename F>
struct Unary {
  static constexpr unsigned kTypes = F::kTypes;
  static constexpr int kInputs = 1, kOutputs = 1;
  template <typename C>
  using Result = Stored<decltype(F::apply(C{}))>;
  template <typename C>
  static constexpr void run(const TileCall& call) {
    const C* __restrict a = tile_input<C>(call, 0);
    auto* __restrict out = tile_output<Result<C>>(call, 0);
    for (int64_t i = 0; i < call.count; ++i) out[i] = F::apply(a[i]);
  }
};

template <typename F>
struct Binary {
  static constexpr unsigned kTypes = F::kTypes;
  static constexpr int kInputs = 2, kOutputs = 1;
  template <typename C>
  using Result = Stored<decltype(F::apply(C{}, C{}))>;
  template <typename C>
  static constexpr void run(const TileCall& call) {
    const C* __restrict a = tile_input<C>(call, 0);
    const C* __restrict b = tile_input<C>(call, 1);
    auto* __restrict out = tile_output<Result<C>>(call, 0);
    for (int64_t i = 0; i < call.count; ++i) out[i] = F::apply(a[i], b[i]);
  }
};

template <typename L, typename C>
TypedLoop typed_loop() {
  return {L::template run<C>, &typeid(L), dtype_of<C>(),
          dtype_of<typename L::template Result<C>>()};
}

// Returns the loop of shape L (Unary, Binary) for a compute dtype; `run` is null if F has no such
// type.
template <template <typename> typename L, typename F>
TypedLoop loop_for(DType compute) {
  if constexpr ((F::kTypes & kFloats) != 0) {
    if (compute == DType::f32) return typed_loop<L<F>, float>();
    if (compute == DType::f64) return typed_loop<L<F>, double>();
  }
  if constexpr ((F::kTypes & kIntegers) != 0)
    if (compute == DType::i64) return typed_loop<L<F>, int64_t>();
  if constexpr ((F::kTypes & kComplexes) != 0) {
    if (compute == DType::c64) return typed_loop<L<F>, C64>();
    if (compute == DType::c128) return typed_loop<L<F>, C128>();
  }
  return {};
}

}  // namespace shardproof
