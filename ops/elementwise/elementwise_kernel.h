// Kernels of elementwise ops. A functor is compiled for five compute types (f32 f64 i64 c64 c128)
// and no more. Other storage dtypes are converted to and from them in tiles that fit the L1 cache.
// Operands that already have the functor's layout and dtype are used in place. Lanes that are
// adjacent in memory form one flat loop, so `relu` of a cohort of f32 is a single pass.
#pragma once

#include <array>
#include <cstddef>
#include <typeinfo>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Numbers that an op's loop takes in addition to its tensors.
struct TileNumbers {
  std::array<double, 8> real{};
  std::array<int64_t, 2> whole{};
};

struct TileCall {
  const std::byte* const* inputs;
  std::byte* const* outputs;
  int64_t count;
  const TileNumbers* numbers;
};
using TileLoop = void (*)(const TileCall&);

struct ElementwisePlan {
  TileLoop loop = nullptr;
  const std::type_info* type = nullptr;  // identifies the loop to device kernels; null: host only
  std::vector<DType> inputs, outputs;    // dtypes that the loop reads and writes
  TileNumbers numbers = {};
  // Functions of the C library, which round to nearest in every direction. If this thread rounds in
  // another direction, f64 results move by one unit in it.
  bool by_library = false;
};

// Returns the kernel of a plan. Inputs broadcast to the shape of the outputs (all of one shape) and
// may be strided. SP_CHECK: the plan has a loop and 8 operands at most.
Kernel elementwise_kernel(const ElementwisePlan& plan);

}  // namespace shardproof
