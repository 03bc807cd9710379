// LocalTensor: one value on many ranks at once, as blocks of lanes. Ranks of equal local shape are
// in one block, unless a masked write made a new value for some of them. Then a block has fewer
// lanes than its buffer. Invariants: lanes of different blocks are disjoint, and blocks are in
// order of their first rank. All blocks have the same dtype, and no two are the same view of one
// buffer.
//
// Example: 4 ranks hold f32[5] cut by the chunk rule, 2, 2, 1 and 0 elements. There are three
// blocks: lanes 0-1 of shape [2], lane 2 of shape [1], lane 3 of shape [0].
#pragma once

#include <vector>

#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

struct Block {
  Lanes lanes;  // subset of tensor.buffer->lanes; one lane may view any one-lane buffer
  Tensor tensor;
  // Returns the stored copy that lane `i` of this block reads.
  int64_t slot(int64_t i) const;
};

class LocalTensor {
 public:
  LocalTensor() = default;
  explicit LocalTensor(Tensor tensor);  // one block, all lanes of its buffer
  explicit LocalTensor(Block block);
  explicit LocalTensor(std::vector<Block> blocks);  // sorts and merges blocks as needed

  bool empty() const { return blocks_.empty(); }
  const std::vector<Block>& blocks() const { return blocks_; }
  std::vector<Block>& blocks() { return blocks_; }
  DType dtype() const { return blocks_.front().tensor.dtype; }  // requires !empty()
  Lanes lanes() const;                                          // all lanes of all blocks
  // Returns the block that holds a rank, or nullptr.
  const Block* find(int64_t rank) const;
  // Returns a view of the lanes that are also in `lanes`; data is shared.
  LocalTensor restrict_to(const Lanes& lanes) const;
  // Returns a view in which the lanes of `newer` replace those of this value; data is shared.
  LocalTensor merged_with(const LocalTensor& newer) const;
  // Returns one rank's tensor as a contiguous copy with one lane. Requires that a block holds it.
  Tensor of_rank(int64_t rank) const;

 private:
  std::vector<Block> blocks_;
};

// The common refinement of several blocks' slots over the same lanes. `slots` has one copy for each
// distinct tuple of input copies; `sources[k][s]` is the copy of input k that output copy s reads.
// The result is Slots::each or Slots::shared wherever possible, so that chains of ops stay
// O(lanes).
//
// Example: on 4 lanes, input 0 has the slots 0 0 1 1 and input 1 the slots 0 1 0 1. All four tuples
// differ: slots is `each`, sources are {0, 0, 1, 1} and {0, 1, 0, 1}.
struct SlotJoin {
  Slots slots;
  std::vector<std::vector<int32_t>> sources;
};
// Requires that the lanes of each input block are `lanes`.
SlotJoin join_slots(const Lanes& lanes, const std::vector<const Block*>& inputs);

// A set of lanes on which every input has one block: the unit that a kernel runs on.
struct LanePart {
  Lanes lanes;
  std::vector<Block> inputs;  // each restricted to `lanes`
};
// Returns the parts that `lanes` falls into, in order of first rank. Requires that every input
// holds all of `lanes`.
std::vector<LanePart> common_parts(const Lanes& lanes,
                                   const std::vector<const LocalTensor*>& inputs);

}  // namespace shardproof
