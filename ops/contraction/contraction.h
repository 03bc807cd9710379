// Contraction: the one engine behind matmul, bmm, addmm, linear, einsum and convolution: for many
// lanes at once,
//
//     result[..] = alpha * sum over summed letters of a[..] * b[..]  (+ beta * bias[..])
//
// A letter is an index with a size; it walks dims of a, of b and of the result. Letters without a
// result dim are summed, in ascending order, the first letter slowest (see micro_gemm.h for what
// this order promises). Narrow floats are computed in f32 and rounded once, at the end; integers
// wrap modulo 2^bits.
//
// Invariant: the bits of a lane's result depend on that lane's inputs only. Lanes that share a left
// operand are computed as one wide product, lanes that share a right one as one tall product.
#pragma once

#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

struct ContractionLetter {
  int64_t size = 1;
  std::vector<int> a,
      b;  // dims it walks; two of one operand: a diagonal; none: the operand is the same for all
  int result = -1;  // -1: summed
};

// What one step of a letter that walks these dims moves, in elements.
inline int64_t step_over(const std::vector<int>& dims, const Dims& strides) {
  int64_t sum = 0;
  for (const int d : dims) sum += strides[d];
  return sum;
}

struct ContractionBias {
  bool present = false;
  Dims shape;  // right-aligned with the result; sizes 1 are repeated
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

// What a kernel of one contraction does; `a`, `b` and `bias_input` are numbers of its inputs.
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
  // Whether operands may be strided views: when they are read as stored.
  bool accepts_strides() const { return !a_.converts && !b_.converts; }
  double multiply_adds() const;
  const Dims& right_shape() const { return b_shape_; }

  struct Operand {
    DType dtype = DType::f32;
    int64_t elements = 0;
    bool converts = false;  // is first brought to the compute type
    int64_t buffer = 0;     // where, in the workspace
  };
  struct Loops {  // letters that play one part, and how many steps they make together
    std::vector<ContractionLetter> letters;
    int64_t count = 1;
    int64_t table_a = 0, table_b = 0, table_result = 0;  // offsets, in the workspace
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
  int64_t chunk_ = 0;  // lanes converted at once; 0: all, nothing is converted
  int64_t packed_rows_ = 0, packed_columns_ = 0;
  int64_t workspace_bytes_ = 0;
};

// The type a contraction computes in: f32 for narrow floats, i64 for integers, else the dtype
// itself.
DType contraction_dtype(DType dtype);

}  // namespace shardproof
