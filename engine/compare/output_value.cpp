// Implements output_value.h.
//
// Example of replicas that differ: y is R on ranks 0-2, with 1 on rank 0, 1 on rank 1, 2 on rank 2.
// Rank 2 differs from the first replica. The copies are {ranks 0-1: 1} and {rank 2: 2}.
#include "shardproof/engine/compare/output_value.h"

#include <algorithm>

#include "shardproof/engine/compare/compare.h"
#include "shardproof/engine/compare/record_value.h"
#include "shardproof/engine/execute/buffer_contents.h"

namespace shardproof {
namespace {

LocalTensor made_part(const LocalTensor& value) {
  std::vector<Block> blocks;
  for (const Block& block : value.blocks())
    if (has_contents(block.tensor)) blocks.push_back(block);
  return LocalTensor(std::move(blocks));
}

// Returns the ranks that should hold the same shard and part as this one.
Lanes ranks_of_same_part(int32_t rank, const Spec& spec) {
  std::vector<int> copies;
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (spec.placement(axis).is_replicate()) copies.push_back(axis);
  const Group group = Group::of_axes(spec.mesh(), copies);
  return Lanes::of(group.members(group.sibling_of(rank)));
}

void keep_parts(const LocalTensor& value, ValueInfo& info) {
  for (RecordedShard& copy : stored_parts(value)) info.copies.push_back(std::move(copy));
  std::sort(info.copies.begin(), info.copies.end(),
            [](const RecordedShard& a, const RecordedShard& b) { return a.lanes[0] < b.lanes[0]; });
}

void keep_wholes(const LocalTensor& value, const Spec& spec, ValueInfo& info) {
  const std::optional<ReplicaDifference> difference = compare_replicas(value, spec);
  std::optional<Tensor> whole = assemble_if_complete(value, spec);
  if (!whole) return;
  if (!difference) {
    info.value = std::move(whole);
    if (spec.has_partial()) keep_parts(value, info);
    return;
  }
  info.copies.push_back({value.lanes().minus(difference->ranks), std::move(*whole)});
  for (int64_t i = 0; i < difference->ranks.size(); ++i) {
    const Lanes own = Lanes::one(difference->ranks[i]);
    const Lanes others = ranks_of_same_part(own[0], spec).minus(own);
    if (std::optional<Tensor> with =
            assemble_if_complete(value.restrict_to(value.lanes().minus(others)), spec))
      info.copies.push_back({own, std::move(*with)});
  }
}

}  // namespace

void store_output(const LocalTensor& value, const std::optional<Spec>& spec, ValueInfo& info) {
  const LocalTensor made = made_part(value);
  if (made.empty()) return;
  if (spec) return keep_wholes(made, *spec, info);
  keep_parts(made, info);
}

}  // namespace shardproof
