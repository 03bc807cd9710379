// Implements local_tensor.h, except join_slots (local_tensor_slots.cpp).
#include "shardproof/localtensor/tensor/local_tensor.h"

#include <algorithm>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/copy_strided.h"

namespace shardproof {
namespace {

bool same_view(const Tensor& a, const Tensor& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.shape == b.shape &&
         a.strides == b.strides;
}

// Checks by sizes, in time linear in the lanes: after masked writes there are many blocks.
void check_disjoint(const std::vector<Block>& blocks) {
  int64_t total = 0;
  Lanes all;
  for (const Block& block : blocks) {
    total += block.lanes.size();
    all = all.unite(block.lanes);
  }
  SP_CHECK(all.size() == total, "a rank lies in two blocks of a value");
}

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
  for (Block& block : blocks) {
    if (block.lanes.empty()) continue;
    SP_CHECK(blocks_.empty() || block.tensor.dtype == dtype(), "blocks of {} and {}", name(dtype()),
             name(block.tensor.dtype));
    const auto twin = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& other) {
      return same_view(other.tensor, block.tensor);
    });
    if (twin == blocks_.end()) {
      blocks_.push_back(std::move(block));
    } else {
      SP_CHECK(twin->lanes.intersect(block.lanes).empty(), "ranks {} lie in two blocks of a value",
               to_string(block.lanes));
      twin->lanes = twin->lanes.unite(block.lanes);
    }
  }
  if (blocks_.size() < 2) return;
  check_disjoint(blocks_);
  std::sort(blocks_.begin(), blocks_.end(),
            [](const Block& a, const Block& b) { return a.lanes[0] < b.lanes[0]; });
}

Lanes LocalTensor::lanes() const {
  Lanes all;
  for (const Block& block : blocks_) all = all.unite(block.lanes);
  return all;
}

const Block* LocalTensor::find(int64_t rank) const {
  for (const Block& block : blocks_)
    if (block.lanes.contains(rank)) return &block;
  return nullptr;
}

LocalTensor LocalTensor::restrict_to(const Lanes& lanes) const {
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
