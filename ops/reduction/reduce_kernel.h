// Kernels of reductions: folds of one op's states over some dims of a dense tensor. The kernel is
// type-erased and compiled once; a reducer provides the loops of a compute type
// (ops/reduction/reducers.h).
//
// Order of folding, the same on every machine: the elements of a state are taken in row-major order
// of the reduced dims. A contiguous run of sums is folded as ops/reduction/fold_order.h states.
// Sharding changes the order.
#pragma once

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
  const std::type_info* type = nullptr;  // type of the state; identifies it to device kernels
  DType tile = DType::f32,
        result = DType::f32;  // dtypes that row and column read, and finish writes
  int64_t state_bytes = 0;    // 32 at most
  int passes = 1;
  void (*begin)(std::byte* states, int64_t count, const ReduceNumbers&) = nullptr;
  // Folds `count` elements into one state; `index` is the first one's number among the reduced
  // elements.
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
  int64_t size = 1, stride = 1;  // both in elements
};
// The loops of a kernel: over `kept`, in each over `reduced`, in each over the inner run.
struct ReducePlan {
  Reducer reducer;
  ReduceNumbers numbers;
  std::vector<ReduceAxis> kept, reduced;  // outer to inner, without the inner run
  ReduceAxis inner;
  bool rows = false;        // true: the inner run is reduced into one state
  bool empty_fold = false;  // true: a reduced dim has size 0
};
// Number of elements that are converted at once.
inline constexpr int64_t kReduceTile = 256;

// Returns a mask of the dims that a call reduces. The attribute `dim` is absent, one integer, or a
// list; as in torch an absent or empty list means all. Throws Error(bad_input) for a dim that is
// out of range or listed twice.
using DimMask = std::vector<bool>;
DimMask reduced_dims(std::string_view name, const OpCall& call);
// Returns the attribute keepdim, false if absent.
bool has_keepdim(const OpCall& call);
// Returns the attributes dim and keepdim of a reduction over these dims.
Attrs reduction_attrs(const DimMask& mask, bool keepdim);
// Returns the shape after the reduction; reduced dims get size 1 with keepdim.
Dims reduced_shape(const Dims& shape, const DimMask& mask, bool keepdim);
// Returns the number of elements that one result reduces.
int64_t reduced_count(const Dims& shape, const DimMask& mask);
// Returns factor notation of the call: "abc->ac", or "abc->a1c" with keepdim.
std::string reduction_notation(const OpCall& call, const DimMask& mask);

// Returns the kernel of a reduction. SP_CHECK: the reducer has loops and states of 32 bytes at
// most.
Kernel reduce_kernel(const Reducer& reducer, const ReduceNumbers& numbers, const Dims& shape,
                     const DimMask& mask);

// Returns the params that every reduction has: x, dim, keepdim.
std::vector<Param> reduction_params();
// Throws Error(bad_input) if a reduced dim is empty: an extreme of no elements has no value.
void require_elements(std::string_view name, const OpCall& call);
// Adds `unbiased` to a variance: torch's older name for correction 1 (true) or 0 (false).
void add_unbiased_parameter(OpRecord& record);

}  // namespace shardproof
