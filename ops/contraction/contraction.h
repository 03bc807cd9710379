// Contraction: the kernel of matmul, bmm, addmm, linear, einsum and convolution, for many lanes at
// once:
//
//     result[..] = alpha * sum over summed letters of a[..] * b[..]  (+ beta * bias[..])
//
// A letter is an index with a size; it steps through dims of a, of b and of the result. Letters
// without a result dim are summed in ascending order, the first letter slowest;
// ops/contraction/micro_gemm.h states the order of additions. Narrow floats are computed in f32 and
// rounded once, at the end. Integers wrap modulo 2^bits.
//
// Invariant: the bits of a lane's result depend on that lane's inputs only. Lanes that share a left
// operand are computed as one wide product; lanes that share a right operand, as one tall product.
//
// Example, [m, k] @ [k, n]: letters m {a: 0, result: 0}, k {a: 1, b: 0}, n {b: 1, result: 1}.
#pragma once

#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

struct ContractionLetter {
  int64_t size = 1;
  // Dims of a and of b over which the letter iterates. Two dims of one operand give a diagonal;
  // without a dim all steps read the same elements.
  std::vector<int> a, b;
  int result = -1;  // dim of the result; -1: the letter is summed
};

// Returns the distance, in elements, of one step of a letter that steps through `dims`.
inline int64_t step_over(const std::vector<int>& dims, const Dims& strides) {
  int64_t sum = 0;
  for (const int d : dims) sum += strides[d];
  return sum;
}

struct ContractionBias {
  bool present = false;
  Dims shape;  // right-aligned with the result; dims of size 1 are repeated
  DType dtype = DType::f32;
  double alpha = 1, beta = 1;
};

struct ContractionCall {
  int64_t lanes = 1;
  const LaneView* a = nullptr;
  const LaneView* b = nullptr;
  const LaneView* bias = nullptr;
  const LaneView* result = nullptr;  // dense
  std::byte* workspace = nullptr;    // workspace_bytes(), 64-byte aligned
};

// Plan of a contraction's kernel; `a`, `b` and `bias_input` are indices of its inputs.
struct ContractionPlan {
  std::vector<ContractionLetter> letters;
  DType compute = DType::f32;
  ContractionBias bias = {};
  int a = 0, b = 1, bias_input = -1;
};

class Contraction {
 public:
  Contraction(std::vector<ContractionLetter> letters, const TensorMeta& a, const TensorMeta& b,
              const TensorMeta& result, ContractionBias bias = {});

  void run(const ContractionCall& call) const;
  int64_t workspace_bytes() const { return workspace_bytes_; }
  // True if operands may be strided views: they are read as stored.
  bool accepts_strides() const { return !a_.converts && !b_.converts; }
  const Dims& right_shape() const { return b_shape_; }

  struct Operand {
    DType dtype = DType::f32;
    int64_t elements = 0;
    bool converts = false;  // true: is converted to the compute type first
    int64_t buffer = 0;     // offset in the workspace
  };
  struct Loops {  // the letters of one role (batch, rows, columns, depth), and their number of
                  // steps
    std::vector<ContractionLetter> letters;
    int64_t count = 1;
    int64_t table_a = 0, table_b = 0, table_result = 0;  // offsets of step tables in the workspace
  };

 private:
  template <typename T>
  friend class ContractionRun;
  void lay_out_workspace(int64_t compute_bytes, int columns);

  DType compute_ = DType::f32;
  Operand a_, b_, result_, bias_operand_;
  Dims result_shape_, a_shape_, b_shape_;
  ContractionBias bias_;
  Loops batch_, rows_, columns_, depth_;
  int64_t chunk_ = 0;  // lanes converted at once; 0: nothing is converted, all lanes run at once
  int64_t row_sources_ = 0, row_targets_ = 0;  // offsets in the workspace, as the next two
  int64_t packed_rows_ = 0, packed_columns_ = 0;
  int64_t workspace_bytes_ = 0;
};

// Returns the dtype that a contraction computes in: f32 for narrow floats, i64 for integers, else
// the dtype itself.
DType contraction_dtype(DType dtype);

}  // namespace shardproof
