// One run of a Contraction in compute type T. Private to the two sources of
// ops/contraction/contraction.h.
//
// Every (lane, batch) pair is an instance: one plain product. Neighbouring instances that read the
// same left operand are joined side by side (their columns), those that read the same right operand
// are stacked (their rows).
#pragma once

#include "shardproof/ops/contraction/contraction.h"
#include "shardproof/ops/contraction/micro_gemm.h"

namespace shardproof {

inline constexpr int kPackedPanels = 8;
inline constexpr int64_t kThinDepth = 8;     // sums up to this length need no packing ..
inline constexpr int64_t kThinColumns = 16;  // .. if rows are at least this long
inline constexpr int64_t kPackedRows = 64;   // rows packed at once; a multiple of kMicroRows

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
  struct Panel {  // the columns of one packed panel
    int count = 0;
    // A full panel consists of pieces of this many columns that are neighbours in the operand: all
    // of them if one instance has the panel, as in a whole matrix. Otherwise 1.
    int piece = 1;
    bool contiguous = false;  // its columns are neighbours in the result
    const T* source[kMaxMicroColumns] = {};
    int64_t target[kMaxMicroColumns] = {};
  };

  void fill_tables();
  void fill(const Contraction::Loops& loops, const Dims& strides_a, const Dims& strides_b);
  void bring_in(const Contraction::Operand& operand, const LaneView& view, int64_t first,
                int64_t count);
  void run_chunk(int64_t first, int64_t count);
  void finish_chunk(int64_t first, int64_t count);
  void add_bias(int64_t lane, T* result);
  const T* lane_data(const Contraction::Operand& operand, const LaneView& view, int64_t lane) const;
  const T* left(int64_t instance) const;
  const T* right(int64_t instance) const;
  int64_t result_offset(int64_t instance) const;
  Joined join(int64_t first, int64_t end) const;
  void multiply(const Joined& joined);
  void pack_rows(const Joined& joined, int64_t first, int64_t count);
  Panel describe_panel(const Joined& joined, int64_t first) const;
  void pack_columns(const Panel* panels, int count);
  void pack_whole_rows(const Panel* panels, int count);
  void pack_pieces(const Panel& panel, T* target) const;
  void multiply_panels(const Joined& joined, int64_t first_row, int64_t rows, int64_t first_column);
  bool is_thin() const;
  void multiply_thin(int64_t instance);
  void store(const Joined& joined, int64_t row, const Panel& panel, const T* tile);
  const int64_t* table(int64_t offset) const {
    return reinterpret_cast<const int64_t*>(call_.workspace + offset);
  }
  T* buffer(int64_t offset) const { return reinterpret_cast<T*>(call_.workspace + offset); }

  const Contraction& plan_;
  const ContractionCall& call_;
  MicroKernel<T> micro_;
  int64_t chunk_first_ = 0;
  T* result_base_ = nullptr;
  const int64_t *batch_a_, *batch_b_, *batch_result_, *row_a_, *row_result_, *column_b_,
      *column_result_, *depth_a_, *depth_b_;
};

}  // namespace shardproof
