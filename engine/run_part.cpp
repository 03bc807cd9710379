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

bool all_shared(std::span<const Block> inputs) {
  for (const Block& block : inputs)
    if (block.tensor.buffer && !block.tensor.buffer->slots.is_shared()) return false;
  return true;
}

bool is_sharded(const Compute& compute) {
  return !compute.input_specs.empty() || !compute.output_specs.empty();
}

// Which copy of each present input a copy of the outputs reads. No sources: there is one copy, and
// it reads the first of each.
SlotJoin join_inputs(const Lanes& lanes, std::span<const Block> inputs, const Compute& compute) {
  const bool tells_apart = is_sharded(compute) && lanes.size() > 1;
  if (!tells_apart && all_shared(inputs)) return {Slots::shared(lanes.size()), {}};
  std::vector<const Block*> keys;
  for (const Block& block : inputs)
    if (block.tensor.buffer) keys.push_back(&block);
  Block classes;
  if (tells_apart) {
    classes = coordinate_classes(lanes, compute);
    keys.push_back(&classes);
  }
  return join_slots(lanes, keys);
}

bool is_rising(const std::vector<int32_t>& sources) {
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources[i] != static_cast<int32_t>(i)) return false;
  return true;
}

void view_inputs(const Kernel& kernel, std::span<const Block> inputs, const SlotJoin& join,
                 std::vector<LaneView>& views, std::vector<Tensor>& dense) {
  // A null base means an absent input, so that an empty tensor points somewhere too.
  static std::byte nothing[16];
  views.resize(inputs.size());
  size_t present = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    LaneView& view = views[i];
    if (!inputs[i].tensor.buffer) {
      view = {};
      continue;
    }
    const Tensor* tensor = &inputs[i].tensor;
    if (!kernel.accepts_strides && !tensor->contiguous())
      tensor = &dense.emplace_back(contiguous_copy(*tensor));
    view.base = tensor->elements() == 0 ? nothing : const_cast<std::byte*>(tensor->data(0));
    view.lane_stride = tensor->buffer->slots.is_shared() ? 0 : tensor->slot_stride_bytes();
    view.slots = nullptr;
    view.dtype = tensor->dtype;
    view.shape = tensor->shape;
    view.strides = tensor->strides;
    const size_t key = present++;
    if (view.lane_stride != 0 && !is_rising(join.sources[key]))
      view.slots = join.sources[key].data();
  }
}

void view_outputs(std::span<const Block> outputs, const Slots& slots,
                  std::vector<LaneView>& views) {
  views.resize(outputs.size());
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Tensor& tensor = outputs[o].tensor;
    Buffer& buffer = *tensor.buffer;
    buffer.slots = slots;
    buffer.bytes = Bytes::uninitialized(buffer.bytes_per_lane * slots.count());
    views[o] = {buffer.bytes.mutate(), buffer.bytes_per_lane, nullptr,
                tensor.dtype,          tensor.shape,          tensor.strides};
  }
}

}  // namespace

void run_part(const PendingOp::Part& part, std::span<const Block> inputs,
              std::span<const Block> outputs, const Compute& compute, KernelViews& views) {
  const Kernel& kernel = part.prepared->kernel;
  for (const Block& block : inputs)
    if (block.tensor.buffer && !has_contents(block.tensor))
      poison(*block.tensor.buffer, block.tensor.dtype);
  const SlotJoin join = join_inputs(part.lanes, inputs, compute);
  std::vector<Tensor> dense;
  view_inputs(kernel, inputs, join, views.inputs, dense);
  view_outputs(outputs, join.slots, views.outputs);
  KernelCall call;
  call.lanes = join.slots.count();
  call.inputs = &views.inputs;
  call.outputs = &views.outputs;
  Bytes workspace;
  if (kernel.workspace_bytes > 0) {
    workspace = Bytes::uninitialized(kernel.workspace_bytes);
    call.workspace = workspace.mutate();
  }
  ShardInfo shard;
  if (is_sharded(compute)) {
    shard.inputs = &compute.input_specs;
    shard.outputs = &compute.output_specs;
    shard.ranks = representatives(part.lanes, join.slots);
    call.shard = &shard;
  }
  kernel.run(call);
}

}  // namespace shardproof
