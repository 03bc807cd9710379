// Implements run_kernel.h.
//
// 1. Blocks that were never written get poison (buffer_contents.h).
// 2. The stored copies ("slots") of the inputs are joined: lanes that read the same copies of all
//    inputs share one copy of the output.
// 3. The kernel runs once for each joined copy, on the device if it has a form for it.
//
// Example of 2: 4 lanes, x with slots 0 0 1 1 and y with slots 0 1 0 1. The outputs have 4 slots,
// with sources (x, y) = (0, 0), (0, 1), (1, 0), (1, 1). If y is shared (one slot for all lanes),
// the outputs have the 2 slots of x.
#include "shardproof/engine/execute/run_kernel.h"

#include <algorithm>
#include <map>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns a block with one slot for each shard position. A kernel that needs the index of its shard
// must compute lanes at different positions separately, even if they read the same copies.
Block coordinate_classes(const Lanes& lanes, const Compute& compute) {
  std::map<std::vector<int64_t>, int32_t> known;
  std::vector<int32_t> table;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    std::vector<int64_t> key;
    for (const std::vector<Spec>* specs : {&compute.input_specs(), &compute.output_specs()})
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

// Returns the first rank of each slot.
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

// True if each input has one copy for all lanes or one copy of its own for each lane, in order.
bool each_or_shared(const Lanes& lanes, std::span<const Block> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [&](const Block& block) {
    if (!block.tensor.buffer) return true;
    const Buffer& buffer = *block.tensor.buffer;
    return buffer.slots.is_shared() ||
           (buffer.slots.is_each() && buffer.lanes.size() == lanes.size());
  });
}

bool is_sharded(const Compute& compute) { return static_cast<bool>(compute.specs); }

// Returns which copy of each present input each copy of the outputs reads. If there are no sources,
// each copy of the outputs reads the copy of the same number, or the only copy of an input.
SlotJoin join_inputs(const Lanes& lanes, std::span<const Block> inputs, const Compute& compute) {
  const bool tells_apart = is_sharded(compute) && lanes.size() > 1;
  if (!tells_apart && all_shared(inputs)) return {Slots::shared(lanes.size()), {}};
  if (!tells_apart && each_or_shared(lanes, inputs)) return {Slots::each(lanes.size()), {}};
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

// The memory in which a kernel reads its tensors and writes its results: host or device.
struct KernelMemory {
  const Kernel& kernel;
  std::shared_ptr<Device> device;  // null: the host

  const std::byte* read(const Tensor& tensor) const {
    // A null base means an absent input, so an empty tensor gets an address that is not null.
    static std::byte nothing[16];
    if (tensor.elements() == 0) return nothing;
    if (!device) return tensor.data(0);
    return tensor.buffer->bytes.device_data(device) + tensor.offset * size_of(tensor.dtype);
  }
  Bytes make(int64_t size) const {
    return device ? Bytes::on_device(device, size) : Bytes::uninitialized(size);
  }
  std::byte* write(Bytes& bytes) const {
    return device ? bytes.device_mutate(device) : bytes.mutate();
  }
};

void view_inputs(const KernelMemory& place, std::span<const Block> inputs, const SlotJoin& join,
                 std::vector<LaneView>& views, std::vector<Tensor>& dense) {
  views.resize(inputs.size());
  size_t present = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    LaneView& view = views[i];
    if (!inputs[i].tensor.buffer) {
      view = {};
      continue;
    }
    const Tensor* tensor = &inputs[i].tensor;
    if (!place.kernel.accepts_strides && !tensor->contiguous())
      tensor = &dense.emplace_back(contiguous_copy(*tensor));
    view.base = const_cast<std::byte*>(place.read(*tensor));
    view.lane_stride = tensor->buffer->slots.is_shared() ? 0 : tensor->slot_stride_bytes();
    view.slots = nullptr;
    view.dtype = tensor->dtype;
    view.shape = tensor->shape;
    view.strides = tensor->strides;
    const size_t key = present++;
    if (view.lane_stride != 0 && !join.sources.empty() && !is_rising(join.sources[key]))
      view.slots = join.sources[key].data();
  }
}

void view_outputs(const KernelMemory& place, std::span<const Block> outputs, const Slots& slots,
                  std::vector<LaneView>& views) {
  views.resize(outputs.size());
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Tensor& tensor = outputs[o].tensor;
    Buffer& buffer = *tensor.buffer;
    buffer.slots = slots;
    buffer.bytes = place.make(buffer.bytes_per_lane * slots.count());
    LaneView& view = views[o];
    view.base = place.write(buffer.bytes);
    view.lane_stride = buffer.bytes_per_lane;
    view.slots = nullptr;
    view.dtype = tensor.dtype;
    view.shape = tensor.shape;
    view.strides = tensor.strides;
  }
}

// True if the device kernel exists and can run on these shards. Most device kernels do not use the
// index of their shard.
bool runs_on(const Kernel& device_kernel, const ShardInfo* shard) {
  if (!device_kernel.run) return false;
  return shard == nullptr || (device_kernel.can_run_shards && device_kernel.can_run_shards(*shard));
}

void run_at(const KernelMemory& place, KernelCall& call) {
  Bytes workspace = place.make(place.kernel.workspace_bytes);
  if (workspace.size() > 0) call.workspace = place.write(workspace);
  if (!place.device) return place.kernel.run(call);
  call.memory = place.device.get();
  call.stream = place.device->native_stream();
  call.gemm = place.device->gemm();
  place.kernel.run(call);
  place.device->check_launch();
}

}  // namespace

RanOn run_part(const PendingOp::Part& part, std::span<const Block> inputs,
               std::span<const Block> outputs, const Compute& compute, KernelViews& views,
               const std::shared_ptr<Device>& device) {
  const Prepared& prepared = *part.prepared;
  for (const Block& block : inputs)
    if (block.tensor.buffer && !has_contents(block.tensor))
      poison(*block.tensor.buffer, block.tensor.dtype);
  const SlotJoin join = join_inputs(part.lanes, inputs, compute);
  ShardInfo shard;
  if (is_sharded(compute)) {
    shard.inputs = &compute.input_specs();
    shard.outputs = &compute.output_specs();
    shard.ranks = representatives(part.lanes, join.slots);
  }
  const bool on_device =
      device && runs_on(prepared.device_kernel, is_sharded(compute) ? &shard : nullptr);
  const KernelMemory place = on_device ? KernelMemory{prepared.device_kernel, device}
                                       : KernelMemory{prepared.kernel, nullptr};
  std::vector<Tensor> dense;
  view_inputs(place, inputs, join, views.inputs, dense);
  view_outputs(place, outputs, join.slots, views.outputs);
  KernelCall call;
  call.lanes = join.slots.count();
  call.inputs = &views.inputs;
  call.outputs = &views.outputs;
  if (is_sharded(compute)) call.shard = &shard;
  run_at(place, call);
  return on_device ? RanOn::device : RanOn::host;
}

}  // namespace shardproof
