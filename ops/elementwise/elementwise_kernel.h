// The family engine of elementwise ops. A functor is compiled for five compute types (f32 f64 i64
// c64 c128) and no more; storage dtypes are converted to and from them in tiles that stay in the
// first cache. Operands that already lie as the functor wants them are used in place, and lanes
// that lie one after the other make one flat loop, so that `relu` of a cohort of f32 is a single
// pass.
#pragma once

#include <array>
#include <cstddef>
#include <typeinfo>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Attributes of an op as its functor sees them.
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
  const std::type_info* type = nullptr;  // names the loop on other machines; null: it has no name
  std::vector<DType> inputs, outputs;    // the dtypes the loop reads and writes
  TileNumbers numbers = {};
};

// Inputs broadcast to the outputs' shape (all of one shape) and may be strided. At most 8 operands.
Kernel elementwise_kernel(const ElementwisePlan& plan);

}  // namespace shardproof
