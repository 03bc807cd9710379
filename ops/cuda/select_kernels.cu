// Device kernels of cast, copies and where: they copy, convert or select elements and compute
// nothing.
#include "shardproof/ops/cuda/elementwise_body.h"
#include "shardproof/ops/elementwise/select_loops.h"

namespace shardproof {
namespace {

constexpr void convert_one(const std::byte* from, DType source, std::byte* to, DType target,
                           int64_t bytes) {
  if (source == target) return copy_word(from, to, bytes);
  with_compute(source, [&](auto compute) {
    store_as(to, target, load_as<decltype(compute)>(from, source));
  });
}

struct CopyBody {
  OperandOffsets<2> places;
  int64_t bytes;
  constexpr void operator()(int64_t index) const {
    std::byte* at[2];
    places.find(index, at);
    convert_one(at[0], places.dtypes[0], at[1], places.dtypes[1], bytes);
  }
};

struct WhereBody {
  OperandOffsets<4> places;
  int64_t bytes;
  constexpr void operator()(int64_t index) const {
    std::byte* at[4];
    places.find(index, at);
    const int chosen = *at[0] != std::byte{0} ? 1 : 2;
    convert_one(at[chosen], places.dtypes[chosen], at[3], places.dtypes[3], bytes);
  }
};

template <typename Body, int kOperands>
Kernel choice_on_device() {
  Kernel kernel;
  kernel.accepts_strides = true;
  kernel.run = [](const KernelCall& call) {
    const int64_t bytes = size_of(call.outputs->front().dtype);
    for_places<kOperands>(call, [&](const auto& places) {
      launch(call.stream, places.count, Body{places, bytes});
    });
  };
  return kernel;
}

}  // namespace

template <>
void KernelFamilies<Target>::add_choices(ElementwiseTable& table) {
  table[typeid(CopyLoop)] = [](const ElementwisePlan&) { return choice_on_device<CopyBody, 2>(); };
  table[typeid(WhereLoop)] = [](const ElementwisePlan&) {
    return choice_on_device<WhereBody, 4>();
  };
}

}  // namespace shardproof
