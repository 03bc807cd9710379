// Implements ops/contraction/block_product.h. Lines of an operand that lie along the summed index
// are transposed while they are packed; lines across it are copied. Missing rows and columns of the
// last group and panel are zeros, and their sums are not stored.
#include "shardproof/ops/contraction/block_product.h"

#include <algorithm>

#include "shardproof/ops/contraction/pack_lines.h"

namespace shardproof {
namespace {

// Packs `count` lines of `depth` terms: to[k * width + i] is term k of line i. Line i begins at
// data + i * line_step.
template <typename T>
void pack_lines(const T* data, int64_t line_step, int64_t term_step, int count, int64_t depth,
                T* to, int width) {
  if (line_step == 1) {
    for (int64_t k = 0; k < depth; ++k) copy_few(to + k * width, data + k * term_step, count);
  } else {
    int i = 0;
    for (; i + 4 <= count; i += 4) {
      const T* lines[4];
      for (int j = 0; j < 4; ++j) lines[j] = data + (i + j) * line_step;
      pack_four_lines(lines, 0, depth, to + i, width);
    }
    for (; i < count; ++i)
      for (int64_t k = 0; k < depth; ++k) to[k * width + i] = data[i * line_step + k * term_step];
  }
  for (int i = count; i < width; ++i)
    for (int64_t k = 0; k < depth; ++k) to[k * width + i] = T{0};
}

}  // namespace

template <typename T>
void BlockProduct<T>::pack_rows(const MatrixView<T>& a, int64_t rows, int64_t depth, T* to) const {
  for (int64_t row = 0; row < rows; row += kMicroRows, to += depth * kMicroRows)
    pack_lines(a.data + row * a.row_step, a.row_step, a.column_step,
               static_cast<int>(std::min<int64_t>(kMicroRows, rows - row)), depth, to, kMicroRows);
}

template <typename T>
void BlockProduct<T>::pack_columns(const MatrixView<T>& b, int64_t depth, int64_t columns,
                                   T* to) const {
  for (int64_t j = 0; j < columns; j += micro_.columns, to += depth * micro_.columns)
    pack_lines(b.data + j * b.column_step, b.column_step, b.row_step,
               static_cast<int>(std::min<int64_t>(micro_.columns, columns - j)), depth, to,
               micro_.columns);
}

template <typename T>
template <bool kAdds>
void BlockProduct<T>::multiply(const T* rows, const T* columns, const Sizes& sizes, T* result,
                               int64_t step) const {
  T tile[kMicroRows * kMaxMicroColumns];
  T *tile_rows[kMicroRows], *in_place[kMicroRows];
  for (int i = 0; i < kMicroRows; ++i) tile_rows[i] = tile + i * micro_.columns;
  for (int64_t j = 0; j < sizes.columns; j += micro_.columns) {
    const int64_t width = std::min<int64_t>(micro_.columns, sizes.columns - j);
    const T* packed = rows;
    for (int64_t i = 0; i < sizes.rows; i += kMicroRows, packed += sizes.depth * kMicroRows) {
      const int64_t height = std::min<int64_t>(kMicroRows, sizes.rows - i);
      T* const target = result + i * step + j;
      const bool fits = !kAdds && width == micro_.columns && height == kMicroRows;
      for (int r = 0; r < kMicroRows && fits; ++r) in_place[r] = target + r * step;
      micro_.run(packed, columns, micro_.columns, sizes.depth, fits ? in_place : tile_rows);
      for (int64_t r = 0; r < height && !fits; ++r)
        for (int64_t c = 0; c < width; ++c) {
          T& to = target[r * step + c];
          to = kAdds ? to + tile_rows[r][c] : tile_rows[r][c];
        }
    }
    columns += sizes.packed_depth * micro_.columns;
  }
}

template class BlockProduct<float>;
template class BlockProduct<double>;

}  // namespace shardproof
