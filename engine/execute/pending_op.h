// An op between its issue and its run, and what all frames of a listing know of the instruction.
// Internal to the engine.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// A kernel made ready for one instruction and one set of input shapes.
struct Prepared {
  const Attrs* attrs = nullptr;
  std::vector<TensorMeta> inputs, outputs;
  Kernel kernel;
  Kernel device_kernel;  // without `run`: there is none
  OpCost cost;
  bool fits(const Attrs& wanted, std::span<const Block> blocks) const;
};

// An instruction that computes; empty until the first frame has come to it.
struct KnownOp {
  const OpRecord* op = nullptr;
  std::vector<std::unique_ptr<Prepared>> prepared;
};

// Used again for the next instruction, so that its lists keep their memory.
struct PendingOp {
  // Lanes on which each input lies in one block.
  struct Part {
    const Prepared* prepared = nullptr;
    Lanes lanes;
  };
  const Instr* instr = nullptr;
  std::vector<Part> parts;
  std::vector<Block> inputs, outputs;  // of the first part, then of the second, ...
  std::vector<Block> aliases;          // where a view op gives views; of its one output
  std::vector<LocalTensor> results;    // of each output, for those who look at them after the run
  LocalTensor target;                  // written in place; its value may be gone when the op runs

  const Compute& compute() const { return std::get<Compute>(instr->action); }
  LocalTensor result(size_t output) const;
  void clear();
};

// What a kernel is called with; used again like the above.
struct KernelViews {
  std::vector<LaneView> inputs, outputs;
};

// Runs a prepared kernel on one part of the lanes and gives the promised output blocks their
// contents, on the device when there is one and the kernel has a form for it. An input without a
// buffer is absent.
enum class RanOn : uint8_t { host, device };
RanOn run_part(const PendingOp::Part& part, std::span<const Block> inputs,
               std::span<const Block> outputs, const Compute& compute, KernelViews& views,
               const std::shared_ptr<Device>& device);

}  // namespace shardproof
