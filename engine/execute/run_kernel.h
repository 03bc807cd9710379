// Runs the kernel of one part of an op. Joins the stored copies of its inputs, makes those of its
// outputs, and calls the kernel on host or device. Internal to the engine.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shardproof/engine/execute/pending_op.h"

namespace shardproof {

// The views that a kernel is called with; used again for every call.
struct KernelViews {
  std::vector<LaneView> inputs, outputs;
};

enum class RanOn : uint8_t { host, device };

// Runs a prepared kernel on one part of the lanes and fills its output blocks. Runs on the device
// if `device` is set and the kernel has a device form. An input without a buffer is absent. Throws
// Error if the data does not fit the kernel, such as an index out of range.
RanOn run_part(const PendingOp::Part& part, std::span<const Block> inputs,
               std::span<const Block> outputs, const Compute& compute, KernelViews& views,
               const std::shared_ptr<Device>& device);

}  // namespace shardproof
