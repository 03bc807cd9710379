// What a thread of an elementwise kernel does: finds its element of each operand, loads it as the
// compute type, runs the loop of the host's kernel for this one element, stores the results.
#pragma once

#include "shardproof/ops/cuda/elements.h"
#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/ops/cuda/places.h"
#include "shardproof/ops/loops.h"

namespace shardproof {

template <typename Target, typename L, typename C>
struct ElementwiseBody {
  using R = typename L::template Result<C>;
  static constexpr int kOperands = L::kInputs + L::kOutputs;
  Places<kOperands> places;
  TileNumbers numbers;

  constexpr void operator()(int64_t index) const {
    std::byte* at[kOperands];
    places.find(index, at);
    C in[L::kInputs];
    R out[L::kOutputs];
    const std::byte* ins[L::kInputs];
    std::byte* outs[L::kOutputs];
    for (int k = 0; k < L::kInputs; ++k) {
      in[k] = load_as<C>(at[k], places.dtypes[k]);
      ins[k] = reinterpret_cast<const std::byte*>(&in[k]);
    }
    for (int k = 0; k < L::kOutputs; ++k) outs[k] = reinterpret_cast<std::byte*>(&out[k]);
    L::template run<C>(TileCall{ins, outs, 1, &numbers});
    for (int k = 0; k < L::kOutputs; ++k)
      store_as(at[L::kInputs + k], places.dtypes[L::kInputs + k], out[k]);
  }
};

template <typename L, typename C>
Kernel elementwise_on_device(const ElementwisePlan& plan) {
  Kernel kernel;
  kernel.accepts_strides = true;
  kernel.run = [numbers = plan.numbers](const KernelCall& call) {
    for_places<L::kInputs + L::kOutputs>(call, [&](const auto& places) {
      launch(call.stream, places.count, ElementwiseBody<Target, L, C>{places, numbers});
    });
  };
  return kernel;
}

// A loop's kernels for the compute types it has.
template <typename L>
void add_loop(ElementwiseTable& table) {
  table[typeid(L)] = [](const ElementwisePlan& plan) {
    const DType compute = plan.inputs.front();
    if constexpr ((L::kTypes & kFloats) != 0) {
      if (compute == DType::f32) return elementwise_on_device<L, float>(plan);
      if (compute == DType::f64) return elementwise_on_device<L, double>(plan);
    }
    if constexpr ((L::kTypes & kIntegers) != 0)
      if (compute == DType::i64) return elementwise_on_device<L, int64_t>(plan);
    return Kernel();
  };
}

}  // namespace shardproof
