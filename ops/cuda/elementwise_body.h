// The body of an elementwise kernel. A thread computes the place of its element in each operand and
// loads it as the compute type. It runs the host kernel's loop for this one element, and stores the
// results. Loops with equal numbers of operands share one kernel and select the loop by a number.
// Most code of a kernel finds, loads and stores elements; one kernel for each of some 150 loops
// would take minutes to compile.
#pragma once

#include "shardproof/ops/core/load_store_element.h"
#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/ops/cuda/operand_offsets.h"
#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof {

template <typename L, typename C>
inline constexpr bool kHasType = (L::kTypes & (std::is_same_v<C, int64_t> ? kIntegers : kFloats)) !=
                                 0;

// `which` is the index of the loop; all loops have the same numbers of operands.
template <typename Target, typename C, typename L, typename... Others>
struct ElementwiseBody {
  static constexpr int kInputs = L::kInputs, kOutputs = L::kOutputs;
  static constexpr int kOperands = kInputs + kOutputs;
  OperandOffsets<kOperands> places;
  TileNumbers numbers;
  int which;

  // Results of a loop: values of the compute type, or truth values for comparisons.
  struct Results {
    C values[kOutputs];
    uint8_t truths[kOutputs];
    bool are_truths;
  };

  constexpr void operator()(int64_t index) const {
    std::byte* at[kOperands];
    places.find(index, at);
    C in[kInputs];
    for (int k = 0; k < kInputs; ++k) in[k] = load_as<C>(at[k], places.dtypes[k]);
    Results results{};
    run_chosen<0, L, Others...>(in, results);
    for (int k = 0; k < kOutputs; ++k) {
      const DType dtype = places.dtypes[kInputs + k];
      if (results.are_truths)
        store_as(at[kInputs + k], dtype, results.truths[k]);
      else
        store_as(at[kInputs + k], dtype, results.values[k]);
    }
  }

  template <int kNumber, typename First, typename... Rest>
  constexpr void run_chosen(const C (&in)[kInputs], Results& results) const {
    if (which == kNumber) return run<First>(in, results);
    if constexpr (sizeof...(Rest) > 0) run_chosen<kNumber + 1, Rest...>(in, results);
  }

  template <typename Loop>
  constexpr void run(const C (&in)[kInputs], Results& results) const {
    if constexpr (kHasType<Loop, C>) {
      constexpr bool kTruths = !std::is_same_v<typename Loop::template Result<C>, C>;
      const std::byte* ins[kInputs];
      std::byte* outs[kOutputs];
      for (int k = 0; k < kInputs; ++k) ins[k] = reinterpret_cast<const std::byte*>(&in[k]);
      for (int k = 0; k < kOutputs; ++k)
        outs[k] = reinterpret_cast<std::byte*>(kTruths ? static_cast<void*>(&results.truths[k])
                                                       : &results.values[k]);
      Loop::template run<C>(TileCall{ins, outs, 1, &numbers});
      results.are_truths = kTruths;
    }
  }
};

template <typename C, typename... L>
Kernel elementwise_on_device(const ElementwisePlan& plan, int which) {
  Kernel kernel;
  kernel.accepts_strides = true;
  kernel.run = [numbers = plan.numbers, which](const KernelCall& call) {
    using Body = ElementwiseBody<Target, C, L...>;
    for_places<Body::kOperands>(call, [&](const auto& places) {
      launch(call.stream, places.count, Body{places, numbers, which});
    });
  };
  return kernel;
}

// Adds the loops L as one kernel for each compute type that any of them has.
template <typename... L>
void add_loops(ElementwiseTable& table) {
  constexpr unsigned kTypes = (L::kTypes | ...);
  const auto make = [](const ElementwisePlan& plan, int which, unsigned types) {
    const DType compute = plan.inputs.front();
    if constexpr ((kTypes & kFloats) != 0)
      if ((types & kFloats) != 0) {
        if (compute == DType::f32) return elementwise_on_device<float, L...>(plan, which);
        if (compute == DType::f64) return elementwise_on_device<double, L...>(plan, which);
      }
    if constexpr ((kTypes & kIntegers) != 0)
      if ((types & kIntegers) != 0 && compute == DType::i64)
        return elementwise_on_device<int64_t, L...>(plan, which);
    return Kernel();
  };
  int count = 0;
  const auto add = [&](const std::type_info& type, unsigned types) {
    table[type] = [make, which = count++, types](const ElementwisePlan& plan) {
      return make(plan, which, types);
    };
  };
  (add(typeid(L), L::kTypes), ...);
}

}  // namespace shardproof
