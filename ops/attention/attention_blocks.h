// Host kernels of sdpa and sdpa_grad: blocks of rows of a unit, whose products with the keys and
// values run in the micro kernel. A block holds the scores of all its keys, so scratch memory grows
// with the number of keys, not with its product with the queries.
//
// A row of o, lse and dq depends only on its query, and on the keys and values to which the query
// attends. It does not depend on the row's block. The numbers of dk and dv are sums over the blocks
// of the unit.
#pragma once

#include "shardproof/ops/attention/attention_item.h"
#include "shardproof/ops/contraction/block_product.h"

namespace shardproof {

// Parts that both kernels share. Scratch begins with the number of keys that each query attends to.
template <typename T>
class AttentionBlocks {
 public:
  int64_t scratch_bytes() const {
    return a_.queries * int64_t{sizeof(int64_t)} + elements_ * int64_t{sizeof(T)};
  }

 protected:
  static constexpr int64_t kRows = AttentionGradItem<T>::kRowsAtOnce;
  struct Block {
    int64_t unit, first, rows;  // first: an item
    int64_t seen;               // keys that a row of the block attends to, or all
  };
  explicit AttentionBlocks(const Attention& a) : a_(a) {}

  // Reserves scratch memory; returns its place for `buffer`.
  int64_t reserve(int64_t elements);
  T* buffer(int64_t place, const LaneCall& lane) const;
  const int64_t* seen(const LaneCall& lane) const {
    return reinterpret_cast<const int64_t*>(lane.scratch);
  }
  int64_t seen_by(int64_t item, const LaneCall& lane) const {
    return seen(lane)[item % a_.queries];
  }
  // Stores the number of keys that each query attends to; `query` and `key` are the inputs.
  void count_seen(int query, int key, const LaneCall& lane) const;
  // Returns block `number` of a unit. A block skips hidden keys only if `may_skip`: a weight of 0
  // times a number that is not finite is NaN.
  Block block(int64_t unit, int64_t first_row, bool may_skip, const LaneCall& lane) const;
  static bool is_finite(const T* x, int64_t count);
  // Replaces the scores of a row by exp(score - largest), and the masked ones after them by 0.
  static void exponentiate(T* row, int64_t seen, int64_t keys, T largest);
  void scale_scores(T* row, int64_t seen) const;

  Attention a_;
  BlockProduct<T> product_;

 private:
  int64_t elements_ = 0;
};

template <typename T>
class AttentionForward : AttentionBlocks<T> {
 public:
  explicit AttentionForward(const Attention& a);
  using AttentionBlocks<T>::scratch_bytes;
  void run(const LaneCall& lane) const;

 private:
  using Base = AttentionBlocks<T>;
  using Item = AttentionItem<T>;
  using Base::a_, Base::product_, Base::kRows;
  using typename Base::Block;
  void pack(int64_t unit, const LaneCall& lane) const;
  void attend(const Block& block, const LaneCall& lane) const;
  void find_scores(const Block& block, const LaneCall& lane) const;
  void mix(const Block& block, const LaneCall& lane) const;

  // Units with few keys are multiplied without packing, which would cost more. No bit differs.
  bool is_small_;
  int64_t keys_, values_, rows_, scores_, sums_;
};

template <typename T>
class AttentionBackward : AttentionBlocks<T> {
 public:
  explicit AttentionBackward(const Attention& a);
  using AttentionBlocks<T>::scratch_bytes;
  void run(const LaneCall& lane) const;

 private:
  using Base = AttentionBlocks<T>;
  using Item = AttentionGradItem<T>;
  using Base::a_, Base::product_, Base::kRows;
  using typename Base::Block;
  bool is_finite_block(const Block& block, const LaneCall& lane) const;
  void find_weights(const Block& block, const LaneCall& lane) const;
  void find_slopes(const Block& block, const LaneCall& lane) const;
  void add_products(const Block& block, const LaneCall& lane) const;

  int64_t keys_across_, keys_, values_across_, rows_, columns_, weights_, slopes_;
};

}  // namespace shardproof
