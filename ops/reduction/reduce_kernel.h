// The engine of reductions: folds of one op's states over some dims of a dense tensor. Type-erased,
// so that it is compiled once; a reducer brings loops for a compute type (reducers.h).
//
// Order of folding, the same on every machine: elements of a state in row-major order of the
// reduced dims, where a contiguous run of sums goes to 16 interleaved partial sums per block of
// 2048 (added in halves: 8, 4, 2, 1) and block sums are added in order. Sharding changes the order.
#pragma once

#include <optional>
#include <typeinfo>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

struct ReduceNumbers {
  double real = 0;     // identity of max and min, exponent of a norm, correction of a variance
  int64_t whole = 0;   // identity for integers
  double divisor = 0;  // elements a mean or variance divides by
};

struct Reducer {
  const std::type_info* type = nullptr;          // of the state
  DType tile = DType::f32, result = DType::f32;  // what rows/columns read and finish writes
  int64_t state_bytes = 0;                       // at most 32
  int passes = 1;
  void (*begin)(std::byte* states, int64_t count, const ReduceNumbers&) = nullptr;
  // Folds `count` elements into one state; the first is number `index` of the reduced elements.
  void (*row)(std::byte* state, const std::byte* x, int64_t count, int64_t index,
              int pass) = nullptr;
  // Folds element i into state i.
  void (*column)(std::byte* states, const std::byte* x, int64_t count, int64_t index,
                 int pass) = nullptr;
  void (*between)(std::byte* states, int64_t count, int pass, const ReduceNumbers&) = nullptr;
  void (*finish)(const std::byte* states, std::byte* out, int64_t count,
                 const ReduceNumbers&) = nullptr;
};

struct ReduceAxis {
  int64_t size = 1, stride = 1;  // elements
};
// What a kernel does: loops over `kept`, each over `reduced`, each over the inner run.
struct ReducePlan {
  Reducer reducer;
  ReduceNumbers numbers;
  std::vector<ReduceAxis> kept, reduced;  // outer to inner, without the inner run
  ReduceAxis inner;
  bool rows = false;  // the inner run is reduced into one state
  bool empty_fold = false;
};
// Elements that are converted at once.
inline constexpr int64_t kReduceTile = 256;

// Which dims a call reduces: attribute `dim` absent, one integer, or a list; as in torch an empty
// list means all.
using DimMask = std::vector<bool>;
DimMask reduced_dims(std::string_view name, const OpCall& call);
bool keeps_dims(const OpCall& call);
Dims reduced_shape(const Dims& shape, const DimMask& mask, bool keepdim);
int64_t reduced_count(const Dims& shape, const DimMask& mask);
// "abc->ac", or "abc->a1c" with keepdim.
std::string reduction_notation(const OpCall& call, const DimMask& mask);

Kernel reduce_kernel(const Reducer& reducer, const ReduceNumbers& numbers, const Dims& shape,
                     const DimMask& mask);

// The params every reduction has: x, dim, keepdim.
std::vector<Param> reduction_params();
// An extreme of no elements has no value.
void refuse_no_elements(std::string_view name, const OpCall& call);
// Of a variance: torch's older word for correction 1 or 0.
void take_unbiased(OpRecord& record);

}  // namespace shardproof
