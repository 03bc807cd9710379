// PendingOp: an op between its issue and its execution. KnownOp: an instruction's prepared kernels,
// which all frames of a listing share. Internal to the engine.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// A kernel prepared for one instruction and one set of input shapes.
struct Prepared {
  const Attrs* attrs = nullptr;
  std::vector<TensorMeta> inputs, outputs;
  Kernel kernel;
  Kernel device_kernel;  // `run` is null if there is none
  OpCost cost;
  // True if it was prepared for these attributes, dtypes and shapes.
  bool fits(const Attrs& wanted, std::span<const Block> blocks) const;
};

// An instruction that computes; empty until a frame issues it for the first time.
struct KnownOp {
  const OpRecord* op = nullptr;
  std::vector<std::unique_ptr<Prepared>> prepared;
};

// A frame uses each PendingOp again for later instructions, so its vectors keep their memory.
struct PendingOp {
  // Lanes on which each input is one block.
  struct Part {
    const Prepared* prepared = nullptr;
    Lanes lanes;
  };
  const Instr* instr = nullptr;
  std::vector<Part> parts;
  std::vector<Block> inputs, outputs;  // of the first part, then of the second, ...
  std::vector<Block> aliases;          // blocks of the output that are views of the input
  std::vector<LocalTensor> results;    // each output, for the probe and for a write in place
  LocalTensor target;                  // written in place; its value may be released before the run

  const Compute& compute() const { return std::get<Compute>(instr->action); }
  // Returns an output: the views and the blocks of all parts.
  LocalTensor result(size_t output) const;
  void clear();
};

}  // namespace shardproof
