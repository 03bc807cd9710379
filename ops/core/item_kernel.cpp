// Implements ops/core/item_kernel.h. The workspace holds converted inputs and outputs, each aligned
// to 64 bytes, then the body's scratch.
#include "shardproof/ops/core/item_kernel.h"

#include <array>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int64_t kBufferAlignment = 64;
constexpr size_t kMostTensors = 16;

// One tensor of the kernel and its converted copy in the workspace.
struct Slot {
  bool absent = false;
  bool converts = false;
  DType stored = DType::f32, used = DType::f32;
  int64_t elements = 0;
  int64_t buffer = 0;
};

Slot slot_of(const TensorMeta& meta, DType used, int64_t& workspace) {
  Slot slot{meta.absent, !meta.absent && meta.dtype != used, meta.dtype, used, 0, workspace};
  if (meta.absent) return slot;
  slot.elements = element_count(meta.shape);
  if (slot.converts)
    workspace += (slot.elements * size_of(used) + kBufferAlignment - 1) / kBufferAlignment *
                 kBufferAlignment;
  return slot;
}

}  // namespace

Runs LaneCall::owned_input(int input, int dim) const {
  return (*shard->inputs)[static_cast<size_t>(input)].owned(shard->ranks[static_cast<size_t>(lane)],
                                                            dim);
}

std::optional<Run> single_run(const Runs& runs) {
  if (runs.size() > 1) return std::nullopt;
  return runs.empty() ? Run{0, 0} : runs.front();
}

int64_t local_index(const Runs& runs, int64_t index) {
  int64_t before = 0;
  for (const Run& run : runs) {
    if (index >= run.start && index < run.start + run.length) return before + index - run.start;
    before += run.length;
  }
  return -1;
}

Kernel lane_kernel(LanePlan plan, const OpCall& call, const std::vector<TensorMeta>& outputs) {
  SP_CHECK(plan.inputs.size() == call.inputs.size() && plan.outputs.size() == outputs.size() &&
               call.inputs.size() <= kMostTensors && outputs.size() <= kMostTensors,
           "a lane kernel of {} inputs and {} outputs", call.inputs.size(), outputs.size());
  std::vector<Slot> ins, outs;
  int64_t workspace = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i)
    ins.push_back(slot_of(call.inputs[i], plan.inputs[i], workspace));
  for (size_t i = 0; i < outputs.size(); ++i)
    outs.push_back(slot_of(outputs[i], plan.outputs[i], workspace));
  Kernel kernel;
  kernel.workspace_bytes = workspace + plan.scratch_bytes;
  if (runs_on_devices(plan.item)) kernel.plan = share_plan(plan);
  kernel.run = [=, body = std::move(plan.body)](const KernelCall& k) {
    std::array<const std::byte*, kMostTensors> sources{};
    std::array<std::byte*, kMostTensors> targets{};
    for (int64_t lane = 0; lane < k.lanes; ++lane) {
      for (size_t i = 0; i < ins.size(); ++i) {
        const LaneView& view = (*k.inputs)[i];
        if (ins[i].absent) continue;
        sources[i] = ins[i].converts ? k.workspace + ins[i].buffer : view.at(lane);
        if (ins[i].converts && (lane == 0 || view.lane_stride != 0))
          convert(view.at(lane), ins[i].stored, k.workspace + ins[i].buffer, ins[i].used,
                  ins[i].elements);
      }
      for (size_t i = 0; i < outs.size(); ++i)
        targets[i] = outs[i].converts ? k.workspace + outs[i].buffer : (*k.outputs)[i].at(lane);
      body({lane, k.shard, sources.data(), targets.data(), k.workspace + workspace});
      for (size_t i = 0; i < outs.size(); ++i)
        if (outs[i].converts)
          convert(targets[i], outs[i].used, (*k.outputs)[i].at(lane), outs[i].stored,
                  outs[i].elements);
    }
  };
  return kernel;
}

}  // namespace shardproof
