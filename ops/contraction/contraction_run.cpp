// Implements ops/contraction/contraction_run.h. Steps of a run:
//
//   1. fill_tables() stores the offset of every step of each role's letters.
//   2. For each chunk of lanes, convert_operand() converts the operands, join() groups instances
//      and multiply() packs rows and columns into panels. micro_gemm multiplies panels by tiles.
//      Columns that few rows read, and short sums (multiply_thin()), are not packed.
//   3. finish_chunk() adds the bias and converts the result.
#include <algorithm>
#include <complex>
#include <cstring>

#include "shardproof/ops/contraction/contraction_run.h"
#include "shardproof/ops/contraction/pack_lines.h"

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
bool are_neighbours(const T* const* rows) {
  for (int i = 1; i < kMicroRows; ++i)
    if (rows[i] != rows[0] + i) return false;
  return true;
}

// Returns the distance of neighbours if it is the same for all of them, else 0.
int64_t common_step(const int64_t* offsets, int64_t count) {
  const int64_t step = count > 1 ? offsets[1] : 1;
  for (int64_t k = 0; k < count; ++k)
    if (offsets[k] != k * step) return 0;
  return step;
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
  depth_step_a_ = common_step(depth_a_, plan_.depth_.count);
  depth_step_b_ = common_step(depth_b_, plan_.depth_.count);
  adjacent_columns_ = common_step(column_b_, plan_.columns_.count) == 1;
  contiguous_columns_ = common_step(column_result_, plan_.columns_.count) == 1;
}

// Converts an operand of these lanes; converts one copy if all lanes read the same.
template <typename T>
void ContractionRun<T>::convert_operand(const Contraction::Operand& operand, const LaneView& view,
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

// Most calls have one batch, for which a division is a good part of their time.
template <typename T>
typename ContractionRun<T>::Place ContractionRun<T>::place(int64_t instance) const {
  const int64_t batches = plan_.batch_.count;
  return batches == 1 ? Place{instance, 0} : Place{instance / batches, instance % batches};
}

template <typename T>
const T* ContractionRun<T>::left(int64_t instance) const {
  const Place at = place(instance);
  return lane_data(plan_.a_, *call_.a, at.lane) + batch_a_[at.batch];
}

template <typename T>
const T* ContractionRun<T>::right(int64_t instance) const {
  const Place at = place(instance);
  return lane_data(plan_.b_, *call_.b, at.lane) + batch_b_[at.batch];
}

// Returns the offset from result_base_, in elements.
template <typename T>
int64_t ContractionRun<T>::result_offset(int64_t instance) const {
  const Place at = place(instance);
  const int64_t within = batch_result_[at.batch];
  if (plan_.result_.converts) return (at.lane - chunk_first_) * plan_.result_.elements + within;
  return reinterpret_cast<T*>(call_.result->at(at.lane)) - result_base_ + within;
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
void ContractionRun<T>::describe_rows(const Joined& joined, int64_t first, int64_t count) {
  const T** sources = row_sources();
  int64_t* targets = row_targets();
  const int64_t rows = plan_.rows_.count;
  int64_t instance = joined.first + first / rows, row = first % rows;
  for (int64_t i = 0; i < count; ++instance, row = 0) {
    const T* base = left(instance);
    const int64_t target = joined.stacked ? result_offset(instance) : 0;
    for (; row < rows && i < count; ++row, ++i) {
      sources[i] = base + row_a_[row];
      targets[i] = target + row_result_[row];
    }
  }
}

template <typename T>
void ContractionRun<T>::pack_rows(int64_t count) {
  const T** sources = row_sources();
  T* target = buffer(plan_.packed_rows_);
  const int64_t depth = plan_.depth_.count;
  for (int64_t row = 0; row < count; row += kMicroRows, target += depth * kMicroRows) {
    const T* const* panel = sources + row;
    const bool full = row + kMicroRows <= count;
    if (full && depth_step_a_ == 1) {
      pack_four_lines(panel, 0, depth, target, kMicroRows);
    } else if (full && are_neighbours(panel)) {
      for (int64_t k = 0; k < depth; ++k)
        std::memcpy(target + k * kMicroRows, panel[0] + depth_a_[k], sizeof(T) * kMicroRows);
    } else {
      for (int i = 0; i < kMicroRows; ++i)
        for (int64_t k = 0; k < depth; ++k)
          target[k * kMicroRows + i] = row + i < count ? panel[i][depth_a_[k]] : T(0);
    }
  }
}

template <typename T>
void ContractionRun<T>::Panel::add(int columns, int64_t target, bool are_adjacent) {
  const bool neighbour = count == 0 || source[count] == source[count - 1] + 1;
  const bool all_adjacent = are_adjacent || columns == 1;
  adjacent = adjacent && neighbour && all_adjacent;
  if (count == 0 || target != stretch[stretches - 1].target + stretch[stretches - 1].count)
    stretch[stretches++] = {count, 0, target};
  else
    follows = follows && neighbour;
  follows = follows && all_adjacent;
  stretch[stretches - 1].count += columns;
  count += columns;
}

template <typename T>
void ContractionRun<T>::describe_panel(const Joined& joined, int64_t first, Panel& panel) const {
  const int64_t count = std::min<int64_t>(micro_.columns, joined.columns - first);
  const int64_t columns = plan_.columns_.count;
  int64_t instance = joined.first + first / columns, column = first % columns;
  for (; panel.count < count; ++instance, column = 0) {
    const T* base = right(instance);
    const int64_t target = joined.stacked ? 0 : result_offset(instance);
    const auto more = static_cast<int>(std::min(columns - column, count - panel.count));
    for (int j = 0; j < more; ++j) panel.source[panel.count + j] = base + column_b_[column + j];
    // Columns that lie apart in the result are added one by one.
    const int at_once = contiguous_columns_ ? more : 1;
    for (int j = 0; j < more; j += at_once)
      panel.add(at_once, target + column_result_[column + j], adjacent_columns_);
  }
  panel.adjacent = panel.adjacent && panel.count == micro_.columns;
}

template <typename T>
void ContractionRun<T>::pack_panel(const Panel& panel, T* target) {
  const int64_t depth = plan_.depth_.count;
  const int width = micro_.columns;
  for (int j = panel.count; j < width; ++j)
    for (int64_t k = 0; k < depth; ++k) target[k * width + j] = T(0);
  if (panel.follows && panel.stretches < panel.count) {
    for (int s = 0; s < panel.stretches; ++s) {
      const Stretch& stretch = panel.stretch[s];
      for (int64_t k = 0; k < depth; ++k)
        copy_few(target + k * width + stretch.first, panel.source[stretch.first] + depth_b_[k],
                 stretch.count);
    }
    return;
  }
  const int lines = depth_step_b_ == 1 ? panel.count / 4 * 4 : 0;
  for (int64_t k = 0; k < depth; k += kPackedDepth)
    for (int j = 0; j < lines; j += 4)
      pack_four_lines(panel.source + j, k, std::min(depth, k + kPackedDepth), target + j, width);
  for (int j = lines; j < panel.count; ++j)
    for (int64_t k = 0; k < depth; ++k) target[k * width + j] = panel.source[j][depth_b_[k]];
}

// Packs several panels at once, because their neighbouring columns share cache lines and pages.
// Rows of a matrix are far apart, so each is fetched some rows ahead.
// Returns false if few rows read the columns, which then stay where they are.
template <typename T>
bool ContractionRun<T>::pack_columns(const Panel* panels, int count, int64_t rows) {
  const int64_t depth = plan_.depth_.count;
  const int width = micro_.columns;
  T* target = buffer(plan_.packed_columns_);
  bool adjacent = true;
  for (int p = 0; p < count; ++p) adjacent = adjacent && panels[p].adjacent;
  const int64_t step = depth_step_b_ * int64_t{sizeof(T)};
  const bool is_near = step > 0 && step <= kUnpackedStep;
  const bool are_few = rows <= kMicroRows || rows * depth * step <= kUnpackedSpan;
  if (adjacent && is_near && are_few) return false;
  if (adjacent) {
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t ahead = depth_b_[std::min(k + kRowsAhead, depth - 1)];
      for (int p = 0; p < count; ++p) {
        __builtin_prefetch(panels[p].source[0] + ahead);
        copy_few(target + (p * depth + k) * width, panels[p].source[0] + depth_b_[k], width);
      }
    }
    return true;
  }
  for (int p = 0; p < count; ++p, target += depth * width) pack_panel(panels[p], target);
  return true;
}

// Stores the first `rows` rows of a tile.
template <typename T>
void ContractionRun<T>::store(const int64_t* row_targets, int64_t rows, const Panel& panel,
                              const T* tile) {
  for (int64_t i = 0; i < rows; ++i, tile += micro_.columns)
    for (int s = 0; s < panel.stretches; ++s) {
      const Stretch& stretch = panel.stretch[s];
      copy_few(result_base_ + row_targets[i] + stretch.target, tile + stretch.first, stretch.count);
    }
}

template <typename T>
void ContractionRun<T>::multiply_panels(const Joined& joined, int64_t rows, int64_t first_column,
                                        int64_t end) {
  T tile[kMicroRows * kMaxMicroColumns];
  T *tile_rows[kMicroRows], *result_rows[kMicroRows];
  for (int i = 0; i < kMicroRows; ++i) tile_rows[i] = tile + i * micro_.columns;
  const int64_t depth = plan_.depth_.count;
  Panel panels[kPackedPanels];
  int count = 0;
  for (int64_t column = first_column; column < end; column += micro_.columns)
    describe_panel(joined, column, panels[count++]);
  const bool is_packed = pack_columns(panels, count, rows);
  for (int p = 0; p < count; ++p) {
    const T* columns = is_packed ? buffer(plan_.packed_columns_) + p * depth * micro_.columns
                                 : panels[p].source[0];
    const int64_t step = is_packed ? micro_.columns : depth_step_b_;
    const T* packed_rows = buffer(plan_.packed_rows_);
    const bool whole = panels[p].stretches == 1 && panels[p].count == micro_.columns;
    const int64_t* targets = row_targets();
    for (int64_t row = 0; row < rows; row += kMicroRows, targets += kMicroRows) {
      const bool in_place = whole && row + kMicroRows <= rows;
      for (int i = 0; i < kMicroRows && in_place; ++i)
        result_rows[i] = result_base_ + targets[i] + panels[p].stretch[0].target;
      micro_.run(packed_rows, columns, step, depth, in_place ? result_rows : tile_rows);
      if (!in_place) store(targets, std::min<int64_t>(kMicroRows, rows - row), panels[p], tile);
      packed_rows += depth * kMicroRows;
    }
  }
}

template <typename T>
void ContractionRun<T>::multiply(const Joined& joined) {
  const int64_t depth = plan_.depth_.count, block = rows_at_once(depth);
  const int64_t columns =
      micro_.columns * panels_at_once(depth * micro_.columns * int64_t{sizeof(T)});
  for (int64_t first_row = 0; first_row < joined.rows; first_row += block) {
    const int64_t rows = std::min(block, joined.rows - first_row);
    describe_rows(joined, first_row, rows);
    pack_rows(rows);
    for (int64_t column = 0; column < joined.columns; column += columns)
      multiply_panels(joined, rows, column, std::min(joined.columns, column + columns));
  }
}

// True if rows of the right operand and of the result are dense; a short sum then needs no packing.
template <typename T>
bool ContractionRun<T>::is_thin() const {
  return plan_.depth_.count <= kThinDepth && adjacent_columns_ && contiguous_columns_;
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
  convert_operand(plan_.a_, *call_.a, first, count);
  convert_operand(plan_.b_, *call_.b, first, count);
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
