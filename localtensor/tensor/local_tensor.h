// LocalTensor: one value on many ranks at once, as blocks of lanes. Ranks of equal local shape lie
// in one block; lanes of a block may be fewer than its buffer's (a masked write made a new value
// for the others).
// Invariants: blocks' lanes are disjoint, in order of their first rank; every block has the same
// dtype; two blocks never are the same view of one buffer.
#pragma once

#include <vector>

#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

struct Block {
  Lanes lanes;  // subset of tensor.buffer->lanes; one lane may view any one-lane buffer
  Tensor tensor;
  // Copy of the buffer that lane `i` of this block reads.
  int64_t slot(int64_t i) const;
};

class LocalTensor {
 public:
  LocalTensor() = default;
  explicit LocalTensor(Tensor tensor);  // one block, all lanes of its buffer
  explicit LocalTensor(Block block);
  explicit LocalTensor(std::vector<Block> blocks);  // sorted and merged as the invariant says

  bool empty() const { return blocks_.empty(); }
  const std::vector<Block>& blocks() const { return blocks_; }
  std::vector<Block>& blocks() { return blocks_; }
  DType dtype() const { return blocks_.front().tensor.dtype; }
  Lanes lanes() const;  // union over blocks
  // The block that holds a rank, or nullptr.
  const Block* find(int64_t rank) const;
  // Views; data is shared. restrict: only these lanes. merge: lanes of `newer` replace those here.
  LocalTensor restrict_to(const Lanes& lanes) const;
  LocalTensor merged_with(const LocalTensor& newer) const;
  // One rank's tensor as a one-lane copy (contiguous).
  Tensor of_rank(int64_t rank) const;

 private:
  std::vector<Block> blocks_;
};

// The common refinement of several blocks' slots over the same lanes: `slots` has one copy per
// distinct tuple of input copies; `sources[k][s]` is the copy of input k that output copy s reads.
// A tuple equal to the identity or to a shared copy gives Slots::each / Slots::shared, so that
// repeated ops stay O(lanes).
struct SlotJoin {
  Slots slots;
  std::vector<std::vector<int32_t>> sources;
};
SlotJoin join_slots(const Lanes& lanes, const std::vector<const Block*>& inputs);

// Cuts the lanes so that in each part every input has one block: the unit a kernel runs on.
struct LanePart {
  Lanes lanes;
  std::vector<Block> inputs;  // each restricted to `lanes`
};
std::vector<LanePart> common_parts(const Lanes& lanes,
                                   const std::vector<const LocalTensor*>& inputs);

}  // namespace shardproof
