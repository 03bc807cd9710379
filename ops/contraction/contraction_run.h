// One run of a Contraction in compute type T. Private to the two sources of
// ops/contraction/contraction.h.
//
// Every (lane, batch) pair is an instance: one plain product. Neighbouring instances with one left
// operand are joined by columns; those with one right operand are joined by rows.
#pragma once

#include <algorithm>

#include "shardproof/ops/contraction/contraction.h"
#include "shardproof/ops/contraction/micro_gemm.h"

namespace shardproof {

inline constexpr int kPackedPanels = 16;
inline constexpr int64_t kPackedDepth = 64;  // terms transposed at once, to stay in cache
inline constexpr int64_t kRowsAhead = 8;     // rows of a matrix that are fetched ahead
// Neighbouring columns are not packed if their terms are at most kUnpackedStep bytes apart. Terms
// at a distance of 4 KiB would share one set of a cache. Each tile of rows reads them again: if
// there are several tiles, all rows together span at most kUnpackedSpan bytes of the matrix.
inline constexpr int64_t kUnpackedStep = 2048, kUnpackedSpan = int64_t{8} << 20;
// Sums of at most kThinDepth terms need no packing if rows have at least kThinColumns elements.
inline constexpr int64_t kThinDepth = 8, kThinColumns = 16;

// Returns the number of rows packed at once, a multiple of kMicroRows. Columns are packed again for
// each of these blocks of rows.
inline int64_t rows_at_once(int64_t depth) {
  constexpr int64_t kLeast = 64, kMost = 512, kElements = 8192;
  return std::clamp(kElements / std::max<int64_t>(depth, 1), kLeast, kMost) / kMicroRows *
         kMicroRows;
}

// Returns the number of panels of columns packed at once. Each tile of rows reads all of them, so
// they should stay in a cache of 512 KiB.
inline int panels_at_once(int64_t panel_bytes) {
  constexpr int64_t kPackedBytes = int64_t{1} << 18;
  return static_cast<int>(
      std::clamp<int64_t>(kPackedBytes / std::max<int64_t>(panel_bytes, 1), 1, kPackedPanels));
}

template <typename T>
class ContractionRun {
 public:
  ContractionRun(const Contraction& plan, const ContractionCall& call);
  void run();

 private:
  // `count` instances from `first` on, computed as one product.
  struct Joined {
    int64_t first = 0, count = 1;
    bool stacked = false;  // true: rows are joined; false: columns
    int64_t rows = 0, columns = 0;
  };
  struct Stretch {     // columns of a panel that are neighbours in the result
    int first, count;  // in the panel
    int64_t target;    // offset of the first in a row of the result
  };
  struct Panel {  // the columns of one packed panel
    int count = 0, stretches = 0;
    bool adjacent = true;  // full, and its columns are neighbours in the operand
    bool follows = true;   // columns of a stretch are neighbours in the operand
    const T* source[kMaxMicroColumns];
    Stretch stretch[kMaxMicroColumns];

    // Adds columns that are neighbours in the result. Requires their sources in `source`.
    void add(int columns, int64_t target, bool are_adjacent);
  };

  void fill_tables();
  void fill(const Contraction::Loops& loops, const Dims& strides_a, const Dims& strides_b);
  void convert_operand(const Contraction::Operand& operand, const LaneView& view, int64_t first,
                       int64_t count);
  void run_chunk(int64_t first, int64_t count);
  void finish_chunk(int64_t first, int64_t count);
  void add_bias(int64_t lane, T* result);
  const T* lane_data(const Contraction::Operand& operand, const LaneView& view, int64_t lane) const;
  struct Place {  // of an instance
    int64_t lane, batch;
  };
  Place place(int64_t instance) const;
  const T* left(int64_t instance) const;
  const T* right(int64_t instance) const;
  int64_t result_offset(int64_t instance) const;
  Joined join(int64_t first, int64_t end) const;
  void multiply(const Joined& joined);
  void describe_rows(const Joined& joined, int64_t first, int64_t count);
  void pack_rows(int64_t count);
  void describe_panel(const Joined& joined, int64_t first, Panel& panel) const;
  bool pack_columns(const Panel* panels, int count, int64_t rows);
  void pack_panel(const Panel& panel, T* target);
  void multiply_panels(const Joined& joined, int64_t rows, int64_t first_column, int64_t end);
  bool is_thin() const;
  void multiply_thin(int64_t instance);
  void store(const int64_t* row_targets, int64_t rows, const Panel& panel, const T* tile);
  const int64_t* table(int64_t offset) const {
    return reinterpret_cast<const int64_t*>(call_.workspace + offset);
  }
  T* buffer(int64_t offset) const { return reinterpret_cast<T*>(call_.workspace + offset); }
  // Tables of a block of rows: addresses in the left operand and offsets in the result.
  const T** row_sources() const {
    return reinterpret_cast<const T**>(call_.workspace + plan_.row_sources_);
  }
  int64_t* row_targets() const {
    return reinterpret_cast<int64_t*>(call_.workspace + plan_.row_targets_);
  }

  const Contraction& plan_;
  const ContractionCall& call_;
  MicroKernel<T> micro_;
  // Distances of the terms of a sum; 0: they differ.
  int64_t depth_step_a_ = 0, depth_step_b_ = 0;
  // Columns are neighbours in the right operand, and in the result.
  bool adjacent_columns_ = false, contiguous_columns_ = false;
  int64_t chunk_first_ = 0;
  T* result_base_ = nullptr;
  const int64_t *batch_a_, *batch_b_, *batch_result_, *row_a_, *row_result_, *column_b_,
      *column_result_, *depth_a_, *depth_b_;
};

}  // namespace shardproof
