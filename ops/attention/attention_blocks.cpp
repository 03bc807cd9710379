// Implements ops/attention/attention_blocks.h. Steps of a unit:
//
//   1. Its keys and values are packed once, as the columns of all products with them.
//   2. For each block of rows, the scores are the rows of q times the packed keys. Each row is
//      scaled and exponentiated. Products with the weights write or add each result once.
#include "shardproof/ops/attention/attention_blocks.h"

#include <algorithm>

namespace shardproof {
namespace {

constexpr int64_t kSmallUnit = 256;  // largest number of elements of the keys, or of the values

}  // namespace

template <typename T>
int64_t AttentionBlocks<T>::reserve(int64_t elements) {
  const int64_t place = elements_;
  elements_ += elements;
  return place;
}

template <typename T>
T* AttentionBlocks<T>::buffer(int64_t place, const LaneCall& lane) const {
  return reinterpret_cast<T*>(lane.scratch + a_.queries * int64_t{sizeof(int64_t)}) + place;
}

template <typename T>
void AttentionBlocks<T>::count_seen(int query, int key, const LaneCall& lane) const {
  auto* to = reinterpret_cast<int64_t*>(lane.scratch);
  if (!lane.shard || !a_.causal) {
    for (int64_t s = 0; s < a_.queries; ++s) *to++ = a_.seen_from(s);
    return;
  }
  const Runs keys = lane.owned_input(key, a_.query_dim);
  for (const Run& run : lane.owned_input(query, a_.query_dim))
    for (int64_t place = run.start; place < run.start + run.length; ++place) {
      int64_t seen = 0;
      for (const Run& k : keys) seen += std::clamp<int64_t>(place + 1 - k.start, 0, k.length);
      *to++ = seen;
    }
}

template <typename T>
typename AttentionBlocks<T>::Block AttentionBlocks<T>::block(int64_t unit, int64_t first_row,
                                                             bool may_skip,
                                                             const LaneCall& lane) const {
  Block found{unit, unit * a_.rows() + first_row, std::min(kRows, a_.rows() - first_row), a_.keys};
  if (!may_skip) return found;
  found.seen = 0;
  for (int64_t r = 0; r < found.rows; ++r)
    found.seen = std::max(found.seen, seen_by(found.first + r, lane));
  return found;
}

template <typename T>
bool AttentionBlocks<T>::is_finite(const T* x, int64_t count) {
  struct Zeros {
    const T* x;
    constexpr T operator[](int64_t i) const { return x[i] * T{0}; }
  };
  return fold_run(T{0}, Zeros{x}, count, Plus()) == 0;
}

template <typename T>
void AttentionBlocks<T>::exponentiate(T* row, int64_t seen, int64_t keys, T largest) {
  for (int64_t j = 0; j < seen; ++j) row[j] = AttentionItem<T>::weight(row[j], largest);
  std::fill(row + seen, row + keys, T{0});
}

template <typename T>
void AttentionBlocks<T>::scale_scores(T* row, int64_t seen) const {
  const T scale = static_cast<T>(a_.scale);
  for (int64_t j = 0; j < seen; ++j) row[j] *= scale;
}

template <typename T>
AttentionForward<T>::AttentionForward(const Attention& a)
    : Base(a), is_small_(a.keys * std::max(a.dim, a.value_dim) <= kSmallUnit) {
  const int64_t rows = std::min(kRows, a.rows());
  keys_ = Base::reserve(product_.packed_columns(a.dim, a.keys));
  values_ = Base::reserve(product_.packed_columns(a.keys, a.value_dim));
  rows_ = Base::reserve(product_.packed_rows(rows, std::max(a.dim, a.keys)));
  scores_ = Base::reserve(rows * a.keys);
  sums_ = Base::reserve(rows);
}

template <typename T>
void AttentionForward<T>::run(const LaneCall& lane) const {
  Base::count_seen(Item::kQuery, Item::kKey, lane);
  for (int64_t unit = 0; unit < a_.units(); ++unit) {
    if (!is_small_) pack(unit, lane);
    const T* v = lane.in<T>(Item::kValue) + unit * a_.keys * a_.value_dim;
    const bool may_skip = a_.causal && Base::is_finite(v, a_.keys * a_.value_dim);
    for (int64_t row = 0; row < a_.rows(); row += kRows)
      attend(Base::block(unit, row, may_skip, lane), lane);
  }
}

template <typename T>
void AttentionForward<T>::pack(int64_t unit, const LaneCall& lane) const {
  const T* k = lane.in<T>(Item::kKey) + unit * a_.keys * a_.dim;
  const T* v = lane.in<T>(Item::kValue) + unit * a_.keys * a_.value_dim;
  product_.pack_columns({k, 1, a_.dim}, a_.dim, a_.keys, Base::buffer(keys_, lane));
  product_.pack_columns({v, a_.value_dim, 1}, a_.keys, a_.value_dim, Base::buffer(values_, lane));
}

template <typename T>
void AttentionForward<T>::find_scores(const Block& block, const LaneCall& lane) const {
  T *scores = Base::buffer(scores_, lane), *packed = Base::buffer(rows_, lane);
  const T* q = lane.in<T>(Item::kQuery) + block.first * a_.dim;
  if (!is_small_) {
    product_.pack_rows({q, a_.dim, 1}, block.rows, a_.dim, packed);
    product_.store(packed, Base::buffer(keys_, lane), {block.rows, a_.dim, block.seen, a_.dim},
                   scores, a_.keys);
    return;
  }
  const T* k = lane.in<T>(Item::kKey) + block.unit * a_.keys * a_.dim;
  for (int64_t r = 0; r < block.rows; ++r)
    for (int64_t j = 0; j < block.seen; ++j)
      scores[r * a_.keys + j] = Item::dot(q + r * a_.dim, k + j * a_.dim, a_.dim);
}

template <typename T>
void AttentionForward<T>::mix(const Block& block, const LaneCall& lane) const {
  T *scores = Base::buffer(scores_, lane), *packed = Base::buffer(rows_, lane);
  T* out = lane.out<T>(0) + block.first * a_.value_dim;
  if (!is_small_) {
    product_.pack_rows({scores, a_.keys, 1}, block.rows, block.seen, packed);
    product_.store(packed, Base::buffer(values_, lane),
                   {block.rows, block.seen, a_.value_dim, a_.keys}, out, a_.value_dim);
    return;
  }
  const T* v = lane.in<T>(Item::kValue) + block.unit * a_.keys * a_.value_dim;
  std::fill_n(out, block.rows * a_.value_dim, T{0});
  for (int64_t r = 0; r < block.rows; ++r, out += a_.value_dim)
    for (int64_t j = 0; j < block.seen; ++j)
      for (int64_t i = 0; i < a_.value_dim; ++i)
        out[i] += scores[r * a_.keys + j] * v[j * a_.value_dim + i];
}

template <typename T>
void AttentionForward<T>::attend(const Block& block, const LaneCall& lane) const {
  T *scores = Base::buffer(scores_, lane), *sums = Base::buffer(sums_, lane);
  find_scores(block, lane);
  for (int64_t r = 0; r < block.rows; ++r) {
    T* row = scores + r * a_.keys;
    const int64_t seen = Base::seen_by(block.first + r, lane);
    Base::scale_scores(row, seen);
    const T largest = fold_run(MaxFold::identity<T>(), row, seen, MaxFold());
    Base::exponentiate(row, seen, a_.keys, largest);
    sums[r] = fold_run(T{0}, row, a_.keys, Plus());
    if (a_.has_lse) lane.out<T>(1)[block.first + r] = Item::log_sum(largest, sums[r]);
  }
  mix(block, lane);
  T* out = lane.out<T>(0) + block.first * a_.value_dim;
  for (int64_t r = 0; r < block.rows; ++r, out += a_.value_dim)
    for (int64_t i = 0; i < a_.value_dim && Base::seen_by(block.first + r, lane) > 0; ++i)
      out[i] /= sums[r];
}

template <typename T>
AttentionBackward<T>::AttentionBackward(const Attention& a) : Base(a) {
  const int64_t rows = std::min(kRows, a.rows()), width = std::max(a.dim, a.value_dim);
  keys_across_ = Base::reserve(product_.packed_columns(a.dim, a.keys));
  keys_ = Base::reserve(product_.packed_columns(a.keys, a.dim));
  values_across_ = Base::reserve(product_.packed_columns(a.value_dim, a.keys));
  rows_ = Base::reserve(std::max(product_.packed_rows(rows, std::max(width, a.keys)),
                                 product_.packed_rows(a.keys, rows)));
  columns_ = Base::reserve(product_.packed_columns(rows, width));
  weights_ = Base::reserve(rows * a.keys);
  slopes_ = Base::reserve(rows * a.keys);
}

template <typename T>
void AttentionBackward<T>::run(const LaneCall& lane) const {
  Base::count_seen(Item::kQuery, Item::kKey, lane);
  std::fill_n(lane.out<T>(1), a_.units() * a_.keys * a_.dim, T{0});
  std::fill_n(lane.out<T>(2), a_.units() * a_.keys * a_.value_dim, T{0});
  for (int64_t unit = 0; unit < a_.units(); ++unit) {
    const T* k = lane.in<T>(Item::kKey) + unit * a_.keys * a_.dim;
    const T* v = lane.in<T>(Item::kValue) + unit * a_.keys * a_.value_dim;
    product_.pack_columns({k, 1, a_.dim}, a_.dim, a_.keys, Base::buffer(keys_across_, lane));
    product_.pack_columns({k, a_.dim, 1}, a_.keys, a_.dim, Base::buffer(keys_, lane));
    product_.pack_columns({v, 1, a_.value_dim}, a_.value_dim, a_.keys,
                          Base::buffer(values_across_, lane));
    const bool may_skip = a_.causal && Base::is_finite(k, a_.keys * a_.dim);
    for (int64_t row = 0; row < a_.rows(); row += kRows) {
      Block block = Base::block(unit, row, may_skip, lane);
      if (may_skip && !is_finite_block(block, lane)) block.seen = a_.keys;
      find_weights(block, lane);
      find_slopes(block, lane);
      add_products(block, lane);
    }
  }
}

template <typename T>
bool AttentionBackward<T>::is_finite_block(const Block& block, const LaneCall& lane) const {
  return Base::is_finite(lane.in<T>(Item::kQuery) + block.first * a_.dim, block.rows * a_.dim) &&
         Base::is_finite(lane.in<T>(Item::kGradient) + block.first * a_.value_dim,
                         block.rows * a_.value_dim);
}

template <typename T>
void AttentionBackward<T>::find_weights(const Block& block, const LaneCall& lane) const {
  T *weights = Base::buffer(weights_, lane), *packed = Base::buffer(rows_, lane);
  product_.pack_rows({lane.in<T>(Item::kQuery) + block.first * a_.dim, a_.dim, 1}, block.rows,
                     a_.dim, packed);
  product_.store(packed, Base::buffer(keys_across_, lane), {block.rows, a_.dim, block.seen, a_.dim},
                 weights, a_.keys);
  for (int64_t r = 0; r < block.rows; ++r) {
    T* row = weights + r * a_.keys;
    const int64_t item = block.first + r, seen = Base::seen_by(item, lane);
    Base::scale_scores(row, seen);
    if (lane.inputs[Item::kLogSum]) {
      Base::exponentiate(row, seen, a_.keys, lane.in<T>(Item::kLogSum)[item]);
      continue;
    }
    const T largest = fold_run(MaxFold::identity<T>(), row, seen, MaxFold());
    Base::exponentiate(row, seen, a_.keys, largest);
    const T sum = fold_run(T{0}, row, a_.keys, Plus());
    for (int64_t j = 0; j < seen; ++j) row[j] /= sum;
  }
}

// Finds scale dS.
template <typename T>
void AttentionBackward<T>::find_slopes(const Block& block, const LaneCall& lane) const {
  const Item item{a_};
  T *slopes = Base::buffer(slopes_, lane), *packed = Base::buffer(rows_, lane);
  const T* weights = Base::buffer(weights_, lane);
  product_.pack_rows({lane.in<T>(Item::kGradient) + block.first * a_.value_dim, a_.value_dim, 1},
                     block.rows, a_.value_dim, packed);
  product_.store(packed, Base::buffer(values_across_, lane),
                 {block.rows, a_.value_dim, block.seen, a_.value_dim}, slopes, a_.keys);
  for (int64_t r = 0; r < block.rows; ++r, slopes += a_.keys, weights += a_.keys) {
    const int64_t i = block.first + r, seen = Base::seen_by(i, lane);
    std::fill(slopes + seen, slopes + a_.keys, T{0});
    const T delta = lane.inputs[Item::kResult]
                        ? item.by_result(i, lane)
                        : fold_run(T{0}, typename Item::Products{weights, slopes}, a_.keys, Plus());
    const T shift = item.shift(i, delta, lane);
    for (int64_t j = 0; j < seen; ++j) slopes[j] = item.moved(weights[j], slopes[j], shift);
  }
}

template <typename T>
void AttentionBackward<T>::add_products(const Block& block, const LaneCall& lane) const {
  T *packed = Base::buffer(rows_, lane), *columns = Base::buffer(columns_, lane);
  const T *weights = Base::buffer(weights_, lane), *slopes = Base::buffer(slopes_, lane);
  product_.pack_rows({slopes, a_.keys, 1}, block.rows, block.seen, packed);
  product_.store(packed, Base::buffer(keys_, lane), {block.rows, block.seen, a_.dim, a_.keys},
                 lane.out<T>(0) + block.first * a_.dim, a_.dim);

  const int64_t keys = block.unit * a_.keys;
  const auto add = [&](const T* across, const T* right, int64_t dim, T* to) {
    product_.pack_rows({across, 1, a_.keys}, block.seen, block.rows, packed);
    product_.pack_columns({right + block.first * dim, dim, 1}, block.rows, dim, columns);
    product_.add(packed, columns, {block.seen, block.rows, dim, block.rows}, to + keys * dim, dim);
  };
  add(slopes, lane.in<T>(Item::kQuery), a_.dim, lane.out<T>(1));
  add(weights, lane.in<T>(Item::kGradient), a_.value_dim, lane.out<T>(2));
}

template class AttentionForward<float>;
template class AttentionForward<double>;
template class AttentionBackward<float>;
template class AttentionBackward<double>;

}  // namespace shardproof
