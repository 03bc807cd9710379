// PendingOp: an op between its issue and its execution. KnownOp: an instruction's prepared kernels,
// which all frames of a listing share. Internal to the engine.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// A kernel prepared for one op, its attributes and one set of input shapes.
struct Prepared {
  const OpRecord* op = nullptr;
  const Attrs* attrs = nullptr;  // of the first instruction that needs it
  std::string attrs_text;        // tells -0.0 from 0.0
  std::vector<TensorMeta> inputs, outputs;
  Kernel kernel;
  Kernel device_kernel;  // `run` is null if there is none
  OpCost cost;
  // True if it was prepared for these dtypes and shapes, in an instruction that uses it.
  bool fits(std::span<const Block> blocks) const;
};

// Kernels of a run, shared by the instructions that need the same: those of an unrolled loop.
class PreparedOps {
 public:
  // Returns null if no instruction has needed it.
  const Prepared* find(const Prepared& wanted) const;
  const Prepared& add(std::unique_ptr<Prepared> prepared);

 private:
  static size_t hash_of(const Prepared& wanted);
  std::unordered_map<size_t, std::vector<std::unique_ptr<Prepared>>> by_hash_;  // looked up only
};

// An instruction that computes; empty until a frame issues it for the first time.
struct KnownOp {
  const OpRecord* op = nullptr;
  std::vector<std::pair<const Attrs*, const Prepared*>> prepared;  // by attributes of its lanes
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
