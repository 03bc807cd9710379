// Implements ops/contraction/contraction_run.h. Steps of a run:
//
//   1. fill_tables() stores the offset of every step of each role's letters.
//   2. For each chunk of lanes, bring_in() converts the operands, join() groups instances, and
//   multiply() runs them: rows and columns are packed into panels, which micro_gemm multiplies tile
//   by tile. Short sums run without packing (multiply_thin()).
//   3. finish_chunk() adds the bias and converts the result.
#include <algorithm>
#include <complex>
#include <cstring>

#include "shardproof/ops/contraction/contraction_run.h"

namespace shardproof {
namespace {

// Fills the offsets of every step of nested loops, the last letter fastest.
template <typename Stride>
void fill_offsets(const std::vector<ContractionLetter>& letters, int64_t* offsets,
                  const Stride& stride) {
  offsets[0] = 0;
  int64_t filled = 1;
  for (const ContractionLetter& letter : letters) {
    int64_t by = stride(letter);
    for (int64_t i = filled - 1; i >= 0; --i)
      for (int64_t j = letter.size - 1; j >= 0; --j)
        offsets[i * letter.size + j] = offsets[i] + j * by;
    filled *= letter.size;
  }
}

template <typename T>
T scalar_of(double value) {
  if constexpr (std::is_same_v<T, uint64_t>)
    return static_cast<T>(static_cast<int64_t>(value));
  else
    return T(static_cast<double>(value));
}

}  // namespace

template <typename T>
ContractionRun<T>::ContractionRun(const Contraction& plan, const ContractionCall& call)
    : plan_(plan),
      call_(call),
      micro_(micro_gemm<T>()),
      batch_a_(table(plan.batch_.table_a)),
      batch_b_(table(plan.batch_.table_b)),
      batch_result_(table(plan.batch_.table_result)),
      row_a_(table(plan.rows_.table_a)),
      row_result_(table(plan.rows_.table_result)),
      column_b_(table(plan.columns_.table_b)),
      column_result_(table(plan.columns_.table_result)),
      depth_a_(table(plan.depth_.table_a)),
      depth_b_(table(plan.depth_.table_b)) {}

template <typename T>
void ContractionRun<T>::fill(const Contraction::Loops& loops, const Dims& strides_a,
                             const Dims& strides_b) {
  if (loops.count == 0) return;
  Dims strides = contiguous_strides(plan_.result_shape_);
  auto writable = [&](int64_t offset) {
    return reinterpret_cast<int64_t*>(call_.workspace + offset);
  };
  fill_offsets(loops.letters, writable(loops.table_a),
               [&](const auto& letter) { return step_over(letter.a, strides_a); });
  fill_offsets(loops.letters, writable(loops.table_b),
               [&](const auto& letter) { return step_over(letter.b, strides_b); });
  fill_offsets(loops.letters, writable(loops.table_result),
               [&](const auto& letter) { return letter.result < 0 ? 0 : strides[letter.result]; });
}

template <typename T>
void ContractionRun<T>::fill_tables() {
  Dims a = plan_.a_.converts ? contiguous_strides(plan_.a_shape_) : call_.a->strides;
  Dims b = plan_.b_.converts ? contiguous_strides(plan_.b_shape_) : call_.b->strides;
  for (const auto* loops : {&plan_.batch_, &plan_.rows_, &plan_.columns_, &plan_.depth_})
    fill(*loops, a, b);
}

// Converts an operand of these lanes; converts one copy if all lanes read the same.
template <typename T>
void ContractionRun<T>::bring_in(const Contraction::Operand& operand, const LaneView& view,
                                 int64_t first, int64_t count) {
  if (!operand.converts) return;
  if (view.lane_stride == 0) {
    if (first > 0) return;
    count = 1;
  }
  for (int64_t i = 0; i < count; ++i)
    convert(view.at(first + i), operand.dtype,
            reinterpret_cast<std::byte*>(buffer(operand.buffer) + i * operand.elements),
            plan_.compute_, operand.elements);
}

template <typename T>
const T* ContractionRun<T>::lane_data(const Contraction::Operand& operand, const LaneView& view,
                                      int64_t lane) const {
  if (!operand.converts) return reinterpret_cast<const T*>(view.at(lane));
  int64_t copy = view.lane_stride == 0 ? 0 : lane - chunk_first_;
  return buffer(operand.buffer) + copy * operand.elements;
}

template <typename T>
const T* ContractionRun<T>::left(int64_t instance) const {
  int64_t batches = plan_.batch_.count;
  return lane_data(plan_.a_, *call_.a, instance / batches) + batch_a_[instance % batches];
}

template <typename T>
const T* ContractionRun<T>::right(int64_t instance) const {
  int64_t batches = plan_.batch_.count;
  return lane_data(plan_.b_, *call_.b, instance / batches) + batch_b_[instance % batches];
}

// Returns the offset from result_base_, in elements.
template <typename T>
int64_t ContractionRun<T>::result_offset(int64_t instance) const {
  int64_t batches = plan_.batch_.count;
  int64_t lane = instance / batches;
  int64_t within = batch_result_[instance % batches];
  if (plan_.result_.converts) return (lane - chunk_first_) * plan_.result_.elements + within;
  return reinterpret_cast<T*>(call_.result->at(lane)) - result_base_ + within;
}

template <typename T>
typename ContractionRun<T>::Joined ContractionRun<T>::join(int64_t first, int64_t end) const {
  int64_t same_left = 1, same_right = 1;
  const T *a = left(first), *b = right(first);
  while (first + same_left < end && left(first + same_left) == a) ++same_left;
  while (first + same_right < end && right(first + same_right) == b) ++same_right;
  Joined joined{first, std::max(same_left, same_right), same_right > same_left, plan_.rows_.count,
                plan_.columns_.count};
  (joined.stacked ? joined.rows : joined.columns) *= joined.count;
  return joined;
}

template <typename T>
void ContractionRun<T>::pack_rows(const Joined& joined, int64_t first, int64_t count) {
  T* target = buffer(plan_.packed_rows_);
  int64_t depth = plan_.depth_.count, rows = plan_.rows_.count;
  for (int64_t panel = 0; panel < count; panel += kMicroRows, target += depth * kMicroRows) {
    for (int i = 0; i < kMicroRows; ++i) {
      if (panel + i >= count) {
        for (int64_t k = 0; k < depth; ++k) target[k * kMicroRows + i] = T(0);
        continue;
      }
      int64_t row = first + panel + i;
      const T* source = left(joined.first + (joined.stacked ? row / rows : 0)) + row_a_[row % rows];
      for (int64_t k = 0; k < depth; ++k) target[k * kMicroRows + i] = source[depth_a_[k]];
    }
  }
}

template <typename T>
typename ContractionRun<T>::Panel ContractionRun<T>::describe_panel(const Joined& joined,
                                                                    int64_t first) const {
  Panel panel;
  panel.count = static_cast<int>(std::min<int64_t>(micro_.columns, joined.columns - first));
  int64_t columns = plan_.columns_.count;
  panel.contiguous = true;
  int piece = panel.count;
  for (int j = 0; j < panel.count; ++j) {
    int64_t instance = joined.stacked ? joined.first : joined.first + (first + j) / columns;
    int64_t column = (first + j) % columns;
    panel.source[j] = right(instance) + column_b_[column];
    panel.target[j] = column_result_[column] + (joined.stacked ? 0 : result_offset(instance));
    if (j > 0 && j % piece != 0 && panel.source[j] != panel.source[j - 1] + 1)
      piece = piece == panel.count ? j : 1;
    panel.contiguous = panel.contiguous && panel.target[j] == panel.target[0] + j;
  }
  if (panel.count == micro_.columns && panel.count % piece == 0) panel.piece = piece;
  return panel;
}

// Copies a few neighbouring columns of one row. A call of memcpy for so few costs more than the
// copy, so usual sizes have a copy of their own.
template <typename T>
static void copy_columns(T* to, const T* from, int columns) {
  const size_t bytes = sizeof(T) * static_cast<size_t>(columns);
  switch (bytes) {
    case 16: std::memcpy(to, from, 16); return;
    case 32: std::memcpy(to, from, 32); return;
    case 64: std::memcpy(to, from, 64); return;
    default: std::memcpy(to, from, bytes);
  }
}

// Packs several panels at once, because their neighbouring columns share cache lines and pages.
// Rows of a matrix are far apart, so each is fetched some rows ahead.
template <typename T>
void ContractionRun<T>::pack_whole_rows(const Panel* panels, int count) {
  constexpr int64_t kAhead = 8;  // rows
  const int64_t depth = plan_.depth_.count;
  const int width = micro_.columns;
  T* target = buffer(plan_.packed_columns_);
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t ahead = depth_b_[std::min(k + kAhead, depth - 1)];
    for (int p = 0; p < count; ++p) {
      __builtin_prefetch(panels[p].source[0] + ahead);
      copy_columns(target + (p * depth + k) * width, panels[p].source[0] + depth_b_[k], width);
    }
  }
}

// Packs a panel whose columns are neighbours in pieces, as those of several ranks' shards are.
template <typename T>
void ContractionRun<T>::pack_pieces(const Panel& panel, T* target) const {
  const int width = micro_.columns, piece = panel.piece;
  for (int64_t k = 0; k < plan_.depth_.count; ++k, target += width)
    for (int j = 0; j < width; j += piece)
      copy_columns(target + j, panel.source[j] + depth_b_[k], piece);
}

template <typename T>
void ContractionRun<T>::pack_columns(const Panel* panels, int count) {
  const int64_t depth = plan_.depth_.count;
  const int width = micro_.columns;
  if (std::all_of(panels, panels + count, [&](const Panel& p) { return p.piece == width; }))
    return pack_whole_rows(panels, count);
  T* target = buffer(plan_.packed_columns_);
  for (int p = 0; p < count; ++p, target += depth * width) {
    if (panels[p].piece > 1) {
      pack_pieces(panels[p], target);
      continue;
    }
    for (int j = 0; j < width; ++j)
      for (int64_t k = 0; k < depth; ++k)
        target[k * width + j] = j < panels[p].count ? panels[p].source[j][depth_b_[k]] : T(0);
  }
}

template <typename T>
void ContractionRun<T>::store(const Joined& joined, int64_t row, const Panel& panel,
                              const T* tile) {
  int64_t rows = plan_.rows_.count;
  for (int i = 0; i < kMicroRows && row + i < joined.rows; ++i, tile += micro_.columns) {
    int64_t at = row_result_[(row + i) % rows];
    at += joined.stacked ? result_offset(joined.first + (row + i) / rows) : 0;
    if (panel.contiguous) {
      std::memcpy(result_base_ + at + panel.target[0], tile, sizeof(T) * panel.count);
      continue;
    }
    for (int j = 0; j < panel.count; ++j) result_base_[at + panel.target[j]] = tile[j];
  }
}

template <typename T>
void ContractionRun<T>::multiply_panels(const Joined& joined, int64_t first_row, int64_t rows,
                                        int64_t first_column) {
  T tile[kMicroRows * kMaxMicroColumns];
  Panel panels[kPackedPanels];
  int64_t depth = plan_.depth_.count;
  int count = 0;
  for (int64_t column = first_column; count < kPackedPanels && column < joined.columns;
       column += micro_.columns)
    panels[count++] = describe_panel(joined, column);
  pack_columns(panels, count);
  const T* packed_columns = buffer(plan_.packed_columns_);
  for (int p = 0; p < count; ++p, packed_columns += depth * micro_.columns) {
    const T* packed_rows = buffer(plan_.packed_rows_);
    for (int64_t row = 0; row < rows; row += kMicroRows, packed_rows += depth * kMicroRows) {
      micro_.run(packed_rows, packed_columns, depth, tile);
      store(joined, first_row + row, panels[p], tile);
    }
  }
}

template <typename T>
void ContractionRun<T>::multiply(const Joined& joined) {
  for (int64_t first_row = 0; first_row < joined.rows; first_row += kPackedRows) {
    int64_t rows = std::min(kPackedRows, joined.rows - first_row);
    pack_rows(joined, first_row, rows);
    for (int64_t column = 0; column < joined.columns; column += kPackedPanels * micro_.columns)
      multiply_panels(joined, first_row, rows, column);
  }
}

// True if rows of the right operand and of the result are dense; a short sum then needs no packing.
template <typename T>
bool ContractionRun<T>::is_thin() const {
  if (plan_.depth_.count > kThinDepth) return false;
  for (int64_t n = 0; n < plan_.columns_.count; ++n)
    if (column_b_[n] != n || column_result_[n] != n) return false;
  return true;
}

// Computes one instance whose sums are so short that packing would cost more than the products. The
// terms of an element are added in the same order, from the same zero.
template <typename T>
void ContractionRun<T>::multiply_thin(int64_t instance) {
  const T *a = left(instance), *b = right(instance);
  T* result = result_base_ + result_offset(instance);
  T factors[kThinDepth] = {};
  const T* rows[kThinDepth] = {};
  for (int64_t k = 0; k < plan_.depth_.count; ++k) rows[k] = b + depth_b_[k];
  for (int64_t m = 0; m < plan_.rows_.count; ++m) {
    for (int64_t k = 0; k < plan_.depth_.count; ++k) factors[k] = a[row_a_[m] + depth_a_[k]];
    micro_.run_row(factors, rows, plan_.depth_.count, plan_.columns_.count,
                   result + row_result_[m]);
  }
}

template <typename T>
void ContractionRun<T>::add_bias(int64_t lane, T* result) {
  const ContractionBias& bias = plan_.bias_;
  const Contraction::Operand& operand = plan_.bias_operand_;
  T* values = buffer(operand.buffer);
  if (lane == 0 || call_.bias->lane_stride != 0)
    convert(call_.bias->at(lane), operand.dtype, reinterpret_cast<std::byte*>(values),
            plan_.compute_, operand.elements);
  const Dims& shape = plan_.result_shape_;
  Dims strides = contiguous_strides(bias.shape), step = Dims::filled(shape.size(), 0);
  int lead = shape.size() - bias.shape.size();
  for (int d = 0; d < bias.shape.size(); ++d) step[lead + d] = bias.shape[d] == 1 ? 0 : strides[d];
  T alpha = scalar_of<T>(bias.alpha), beta = scalar_of<T>(bias.beta);
  Dims at = Dims::filled(shape.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < plan_.result_.elements; ++i) {
    result[i] = alpha * result[i];
    if (bias.beta != 0) result[i] += beta * values[offset];
    for (int d = shape.size() - 1; d >= 0; --d) {
      offset += step[d];
      if (++at[d] < shape[d]) break;
      offset -= at[d] * step[d];
      at[d] = 0;
    }
  }
}

template <typename T>
void ContractionRun<T>::finish_chunk(int64_t first, int64_t count) {
  for (int64_t lane = first; lane < first + count; ++lane) {
    T* result = result_base_ + result_offset(lane * plan_.batch_.count) - batch_result_[0];
    if (plan_.bias_.present) add_bias(lane, result);
    if (plan_.result_.converts)
      convert(reinterpret_cast<const std::byte*>(result), plan_.compute_, call_.result->at(lane),
              plan_.result_.dtype, plan_.result_.elements);
  }
}

template <typename T>
void ContractionRun<T>::run_chunk(int64_t first, int64_t count) {
  chunk_first_ = first;
  bring_in(plan_.a_, *call_.a, first, count);
  bring_in(plan_.b_, *call_.b, first, count);
  result_base_ = plan_.result_.converts ? buffer(plan_.result_.buffer)
                                        : reinterpret_cast<T*>(call_.result->at(first));
  int64_t instance = first * plan_.batch_.count, end = (first + count) * plan_.batch_.count;
  bool thin = is_thin();
  while (instance < end) {
    Joined joined = join(instance, end);
    if (thin && joined.columns >= kThinColumns && joined.count == 1)
      multiply_thin(instance);
    else
      multiply(joined);
    instance += joined.count;
  }
  finish_chunk(first, count);
}

template <typename T>
void ContractionRun<T>::run() {
  fill_tables();
  int64_t chunk = plan_.chunk_ > 0 ? plan_.chunk_ : call_.lanes;
  for (int64_t first = 0; first < call_.lanes; first += chunk)
    run_chunk(first, std::min(chunk, call_.lanes - first));
}

template class ContractionRun<float>;
template class ContractionRun<double>;
template class ContractionRun<uint64_t>;
template class ContractionRun<std::complex<float>>;
template class ContractionRun<std::complex<double>>;

}  // namespace shardproof
