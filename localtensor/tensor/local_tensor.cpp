// Implements local_tensor.h, except join_slots (local_tensor_slots.cpp).
#include "shardproof/localtensor/tensor/local_tensor.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/copy_strided.h"

namespace shardproof {
namespace {

bool same_view(const Tensor& a, const Tensor& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.shape == b.shape &&
         a.strides == b.strides;
}

// Returns the lanes of all blocks. Blocks of single ranks may be as many as the ranks: a union of
// two sets at a time would be quadratic in them.
Lanes lanes_of_blocks(const std::vector<Block>& blocks) {
  Lanes all;
  size_t at = 0;
  for (; at < blocks.size() && (at < 4 || all.is_range()); ++at) all = all.unite(blocks[at].lanes);
  if (at == blocks.size()) return all;
  std::vector<int32_t> ranks;
  for (const Block& block : blocks)
    for (int64_t i = 0; i < block.lanes.size(); ++i) ranks.push_back(block.lanes[i]);
  return Lanes::of(std::move(ranks));
}

// Checks by sizes, in time linear in the lanes: after masked writes there are many blocks.
void check_disjoint(const std::vector<Block>& blocks) {
  int64_t total = 0;
  for (const Block& block : blocks) total += block.lanes.size();
  SP_CHECK(lanes_of_blocks(blocks).size() == total, "a rank lies in two blocks of a value");
}

// Finds blocks that are the same view, among many by their buffers.
class ViewIndex {
 public:
  explicit ViewIndex(const std::vector<Block>& blocks) : blocks_(blocks) {}

  // Returns the place of a block with this view; -1: there is none.
  int64_t find(const Tensor& view) const {
    if (by_buffer_.empty()) {
      for (size_t i = 0; i < blocks_.size(); ++i)
        if (same_view(blocks_[i].tensor, view)) return static_cast<int64_t>(i);
      return -1;
    }
    const auto [first, last] = by_buffer_.equal_range(view.buffer.get());
    for (auto at = first; at != last; ++at)
      if (same_view(blocks_[at->second].tensor, view)) return static_cast<int64_t>(at->second);
    return -1;
  }
  // Called after a block was added.
  void add() {
    constexpr size_t kFew = 8;
    if (blocks_.size() < kFew) return;
    for (size_t i = by_buffer_.size(); i < blocks_.size(); ++i)
      by_buffer_.emplace(blocks_[i].tensor.buffer.get(), i);
  }

 private:
  const std::vector<Block>& blocks_;
  std::unordered_multimap<const Buffer*, size_t> by_buffer_;  // empty for few blocks
};

Block restricted(const Block& block, Lanes lanes) { return {std::move(lanes), block.tensor}; }

}  // namespace

int64_t Block::slot(int64_t i) const {
  const Buffer& buffer = *tensor.buffer;
  if (lanes.size() == buffer.lanes.size()) return buffer.slots[i];
  return buffer.slots[buffer.lanes.index_of(lanes[i])];
}

LocalTensor::LocalTensor(Tensor tensor) {
  if (tensor.buffer->lanes.empty()) return;
  Block& block = blocks_.emplace_back();
  block.lanes = tensor.buffer->lanes;
  block.tensor = std::move(tensor);
}

LocalTensor::LocalTensor(Block block) {
  if (!block.lanes.empty()) blocks_.push_back(std::move(block));
}

LocalTensor::LocalTensor(std::vector<Block> blocks) {
  ViewIndex views(blocks_);
  for (Block& block : blocks) {
    if (block.lanes.empty()) continue;
    SP_CHECK(blocks_.empty() || block.tensor.dtype == dtype(), "blocks of {} and {}", name(dtype()),
             name(block.tensor.dtype));
    if (const int64_t place = views.find(block.tensor); place >= 0) {
      Block& twin = blocks_[static_cast<size_t>(place)];
      SP_CHECK(twin.lanes.intersect(block.lanes).empty(), "ranks {} lie in two blocks of a value",
               to_string(block.lanes));
      twin.lanes = twin.lanes.unite(block.lanes);
    } else {
      blocks_.push_back(std::move(block));
      views.add();
    }
  }
  if (blocks_.size() < 2) return;
  const auto earlier = [](const Block& a, const Block& b) { return a.lanes[0] < b.lanes[0]; };
  if (!std::is_sorted(blocks_.begin(), blocks_.end(), earlier))
    std::sort(blocks_.begin(), blocks_.end(), earlier);
  check_disjoint(blocks_);
}

Lanes LocalTensor::lanes() const { return lanes_of_blocks(blocks_); }

const Block* LocalTensor::find(int64_t rank) const {
  auto at =
      std::upper_bound(blocks_.begin(), blocks_.end(), rank,
                       [](int64_t wanted, const Block& block) { return wanted < block.lanes[0]; });
  while (at != blocks_.begin())
    if ((--at)->lanes.contains(rank)) return &*at;
  return nullptr;
}

LocalTensor LocalTensor::restrict_to(const Lanes& lanes) const {
  if (lanes.empty()) return {};
  const Block* const whole = find(lanes[0]);
  if (whole != nullptr && whole->lanes.contains(lanes))
    return LocalTensor(restricted(*whole, lanes));
  std::vector<Block> kept;
  for (const Block& block : blocks_)
    kept.push_back(restricted(block, block.lanes.intersect(lanes)));
  return LocalTensor(std::move(kept));
}

LocalTensor LocalTensor::merged_with(const LocalTensor& newer) const {
  const Lanes replaced = newer.lanes();
  std::vector<Block> all;
  for (const Block& block : blocks_) all.push_back(restricted(block, block.lanes.minus(replaced)));
  all.insert(all.end(), newer.blocks_.begin(), newer.blocks_.end());
  return LocalTensor(std::move(all));
}

Tensor LocalTensor::of_rank(int64_t rank) const {
  const Block* block = find(rank);
  SP_CHECK(block != nullptr, "rank {} has no part of a value on {}", rank, to_string(lanes()));
  const Tensor& whole = block->tensor;
  const Buffer& buffer = *whole.buffer;
  if (buffer.slots.is_shared()) {
    // The new tensor may share the contents of the one copy until either is written.
    Tensor copy = contiguous_copy(whole);
    copy.buffer->lanes = Lanes::one(rank);
    copy.buffer->slots = Slots::shared(1);
    return copy;
  }
  Tensor copy = Tensor::empty(whole.dtype, whole.shape, Lanes::one(rank), Slots::shared(1));
  const int64_t slot = buffer.slots[buffer.lanes.index_of(rank)];
  copy_strided(whole.data(slot), whole.strides, copy.mutate(), copy.strides, whole.shape,
               size_of(whole.dtype));
  return copy;
}

std::vector<LanePart> common_parts(const Lanes& lanes,
                                   const std::vector<const LocalTensor*>& inputs) {
  std::vector<LanePart> parts;
  if (lanes.empty()) return parts;
  parts.push_back({lanes, {}});
  for (const LocalTensor* input : inputs) {
    std::vector<LanePart> finer;
    for (LanePart& part : parts) {
      const Block* const whole = input->find(part.lanes[0]);
      if (whole != nullptr && whole->lanes.contains(part.lanes)) {
        part.inputs.push_back(restricted(*whole, part.lanes));
        finer.push_back(std::move(part));
        continue;
      }
      int64_t covered = 0;
      for (const Block& block : input->blocks()) {
        if (covered == part.lanes.size()) break;
        Lanes both = part.lanes.intersect(block.lanes);
        if (both.empty()) continue;
        covered += both.size();
        finer.push_back({both, part.inputs});
        finer.back().inputs.push_back(restricted(block, std::move(both)));
      }
      SP_CHECK(covered == part.lanes.size(), "a value on ranks {} is used on {}",
               to_string(input->lanes()), to_string(part.lanes));
    }
    parts = std::move(finer);
  }
  for (LanePart& part : parts)
    for (Block& block : part.inputs)
      if (block.lanes.size() != part.lanes.size()) block.lanes = part.lanes;
  std::sort(parts.begin(), parts.end(),
            [](const LanePart& a, const LanePart& b) { return a.lanes[0] < b.lanes[0]; });
  return parts;
}

}  // namespace shardproof
