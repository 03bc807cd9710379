// Reducers made from state structs. A state has a compute type, kPasses passes over the data
// (ops/reduction/reduction_pass.h), and `between`, which runs after each pass.
#pragma once

#include "shardproof/ops/elementwise/float_math.h"
#include "shardproof/ops/elementwise/tile_loops.h"
#include "shardproof/ops/reduction/fold_functors.h"
#include "shardproof/ops/reduction/reduce_kernel.h"
#include "shardproof/ops/reduction/reduction_pass.h"

namespace shardproof {

// The loops that ops/reduction/reduce_kernel.h expects, from a state struct S with `start`,
// `in_pass`, `between`, `finish`.
template <typename S>
struct ReducerOf {
  using C = typename S::Element;
  using Out = typename S::Result;
  static void begin(std::byte* states, int64_t count, const ReduceNumbers& numbers) {
    auto* s = reinterpret_cast<S*>(states);
    for (int64_t i = 0; i < count; ++i) s[i] = S::start(numbers);
  }
  static void row(std::byte* state, const std::byte* x, int64_t count, int64_t index, int pass) {
    fold_row(*reinterpret_cast<S*>(state), reinterpret_cast<const C*>(x), count, index, pass);
  }
  static void column(std::byte* states, const std::byte* x, int64_t count, int64_t index,
                     int pass) {
    auto* __restrict s = reinterpret_cast<S*>(states);
    const auto* __restrict from = reinterpret_cast<const C*>(x);
    for (int64_t i = 0; i < count; ++i) fold_element(s[i], from[i], index, pass);
  }
  static void between(std::byte* states, int64_t count, int pass, const ReduceNumbers& numbers) {
    auto* s = reinterpret_cast<S*>(states);
    for (int64_t i = 0; i < count; ++i) s[i].between(pass, numbers);
  }
  static void finish(const std::byte* states, std::byte* out, int64_t count,
                     const ReduceNumbers& numbers) {
    const auto* s = reinterpret_cast<const S*>(states);
    auto* to = reinterpret_cast<Out*>(out);
    for (int64_t i = 0; i < count; ++i) to[i] = s[i].finish(numbers);
  }
  static Reducer make() {
    Reducer reducer;
    reducer.type = &typeid(S);
    reducer.tile = dtype_of<C>();
    reducer.result = dtype_of<Out>();
    reducer.state_bytes = sizeof(S);
    reducer.passes = S::kPasses;
    reducer.begin = begin;
    reducer.row = row;
    reducer.column = column;
    reducer.between = S::kPasses > 1 ? between : nullptr;
    reducer.finish = finish;
    return reducer;
  }
};

// Base of states that hold one value and combine elements by a functor.
template <typename F, typename T>
struct FoldState {
  using Element = T;
  using Result = T;
  static constexpr int kPasses = 1;
  T value;
  template <typename Use>
  constexpr void in_pass(int, const Use& use) {
    use(value, F(), IdentityTerm());
  }
  static constexpr FoldState start(const ReduceNumbers& numbers) {
    return {start_of<F, T>(numbers)};
  }
  constexpr void between(int, const ReduceNumbers&) {}
  constexpr T finish(const ReduceNumbers&) const { return value; }
};

template <typename F>
Reducer fold_reducer(DType compute) {
  if (compute == DType::f32) return ReducerOf<FoldState<F, float>>::make();
  if (compute == DType::f64) return ReducerOf<FoldState<F, double>>::make();
  if (compute == DType::i64) return ReducerOf<FoldState<F, int64_t>>::make();
  if constexpr ((F::kTypes & kComplexes) != 0) {
    if (compute == DType::c64) return ReducerOf<FoldState<F, C64>>::make();
    if (compute == DType::c128) return ReducerOf<FoldState<F, C128>>::make();
  }
  return {};
}

}  // namespace shardproof
