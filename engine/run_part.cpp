#include <map>

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/frame.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

// Lanes that a kernel of form `shard` must tell apart: those at different coordinates of the
// cutting axes.
Block coordinate_classes(const Lanes& lanes, const Compute& compute) {
  std::map<std::vector<int64_t>, int32_t> known;
  std::vector<int32_t> table;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    std::vector<int64_t> key;
    for (const std::vector<Spec>* specs : {&compute.input_specs, &compute.output_specs})
      for (const Spec& spec : *specs) {
        if (spec.mesh().axis_count() == 0) continue;
        const Dims coordinate = *spec.mesh().coordinate_of(lanes[i]);
        for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
          key.push_back(spec.placement(axis).is_replicate() ? 0 : coordinate[axis]);
      }
    table.push_back(
        known.emplace(std::move(key), static_cast<int32_t>(known.size())).first->second);
  }
  Tensor tensor = Tensor::empty(DType::u8, Dims{}, lanes, Slots::table(std::move(table)));
  return {lanes, std::move(tensor)};
}

std::vector<int32_t> representatives(const Lanes& lanes, const Slots& slots) {
  std::vector<int32_t> ranks(static_cast<size_t>(slots.count()), -1);
  for (int64_t i = 0; i < lanes.size(); ++i) {
    int32_t& rank = ranks[static_cast<size_t>(slots[i])];
    if (rank < 0) rank = lanes[i];
  }
  return ranks;
}

LaneView view_of(const Tensor& tensor, const std::vector<int32_t>& sources, int64_t copies) {
  LaneView view;
  view.dtype = tensor.dtype;
  view.shape = tensor.shape;
  view.strides = tensor.strides;
  // A null base means an absent input, so that an empty tensor points somewhere too.
  static std::byte nothing[16];
  view.base = tensor.elements() == 0 ? nothing : const_cast<std::byte*>(tensor.data(0));
  view.lane_stride = tensor.slot_stride_bytes();
  if (tensor.buffer->slots.is_shared()) {
    view.lane_stride = 0;
    return view;
  }
  bool identity = true;
  for (int64_t s = 0; s < copies; ++s) identity = identity && sources[static_cast<size_t>(s)] == s;
  if (!identity) view.slots = sources.data();
  return view;
}

}  // namespace

void run_part(const Prepared& prepared, const Lanes& lanes, const std::vector<Block>& inputs,
              std::vector<Block>& outputs, const Compute& compute) {
  std::vector<Block> dense = inputs;
  std::vector<const Block*> joined;
  for (Block& block : dense) {
    if (!block.tensor.buffer) {
      joined.push_back(nullptr);
      continue;
    }
    if (!has_contents(block.tensor)) poison(*block.tensor.buffer, block.tensor.dtype);
    if (!prepared.kernel.accepts_strides && !block.tensor.contiguous())
      block.tensor = contiguous_copy(block.tensor);
    joined.push_back(&block);
  }
  std::vector<const Block*> keys;
  for (const Block* block : joined)
    if (block) keys.push_back(block);
  const bool sharded = !compute.input_specs.empty() || !compute.output_specs.empty();
  Block classes;
  if (sharded) {
    classes = coordinate_classes(lanes, compute);
    keys.push_back(&classes);
  }
  SlotJoin join;
  if (keys.empty())
    join.slots = Slots::shared(lanes.size());
  else
    join = join_slots(lanes, keys);
  std::vector<LaneView> ins, outs;
  size_t k = 0;
  for (size_t i = 0; i < joined.size(); ++i) {
    if (!joined[i]) {
      ins.emplace_back();
      continue;
    }
    ins.push_back(view_of(joined[i]->tensor, join.sources[k++], join.slots.count()));
  }
  for (Block& block : outputs) {
    Buffer& buffer = *block.tensor.buffer;
    buffer.slots = join.slots;
    buffer.bytes = Bytes::uninitialized(buffer.bytes_per_lane * join.slots.count());
    LaneView view;
    view.base = buffer.bytes.mutate();
    view.lane_stride = buffer.bytes_per_lane;
    view.dtype = block.tensor.dtype;
    view.shape = block.tensor.shape;
    view.strides = block.tensor.strides;
    outs.push_back(std::move(view));
  }
  Bytes workspace;
  KernelCall call;
  call.lanes = join.slots.count();
  call.inputs = &ins;
  call.outputs = &outs;
  if (prepared.kernel.workspace_bytes > 0) {
    workspace = Bytes::uninitialized(prepared.kernel.workspace_bytes);
    call.workspace = workspace.mutate();
  }
  ShardInfo shard;
  if (sharded) {
    shard.inputs = &compute.input_specs;
    shard.outputs = &compute.output_specs;
    shard.ranks = representatives(lanes, join.slots);
    call.shard = &shard;
  }
  prepared.kernel.run(call);
}

}  // namespace shardproof
