// Products of blocks of two dense matrices, for ops that multiply some rows at a time and choose
// the sizes while they run (attention). Operands are packed first; many products read the packed
// columns.
//
// Adds in the order of ops/contraction/micro_gemm.h: an element is the sum of its terms in
// ascending order, starting at zero. It depends on its own row and column only.
#pragma once

#include "shardproof/ops/contraction/micro_gemm.h"

namespace shardproof {

// Element (i, j) is data[i * row_step + j * column_step]. One of the steps must be 1.
template <typename T>
struct MatrixView {
  const T* data;
  int64_t row_step, column_step;
};

// T: float or double.
template <typename T>
class BlockProduct {
 public:
  BlockProduct() : micro_(micro_gemm<T>()) {}

  // Return the elements that packed operands take.
  static constexpr int64_t packed_rows(int64_t rows, int64_t depth) {
    return (rows + kMicroRows - 1) / kMicroRows * kMicroRows * depth;
  }
  int64_t packed_columns(int64_t depth, int64_t columns) const {
    return (columns + micro_.columns - 1) / micro_.columns * micro_.columns * depth;
  }
  // Packs the left operand, [rows, depth], in groups of kMicroRows rows.
  void pack_rows(const MatrixView<T>& a, int64_t rows, int64_t depth, T* to) const;
  // Packs the right operand, [depth, columns], in panels of as many columns as the micro kernel
  // has.
  void pack_columns(const MatrixView<T>& b, int64_t depth, int64_t columns, T* to) const;

  struct Sizes {
    int64_t rows, depth, columns;
    int64_t packed_depth;  // of the panels of columns, which may have more terms than are summed
  };
  // Stores row i of the product, or adds it to the old contents, from result + i * step on.
  void store(const T* rows, const T* columns, const Sizes& sizes, T* result, int64_t step) const {
    multiply<false>(rows, columns, sizes, result, step);
  }
  void add(const T* rows, const T* columns, const Sizes& sizes, T* result, int64_t step) const {
    multiply<true>(rows, columns, sizes, result, step);
  }

 private:
  template <bool kAdds>
  void multiply(const T* rows, const T* columns, const Sizes& sizes, T* result, int64_t step) const;

  MicroKernel<T> micro_;
};

}  // namespace shardproof
