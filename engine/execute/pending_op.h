// PendingOp: an op between its issue and its execution. KnownOp: the prepared kernels of
// instructions with one op and the same attributes. Internal to the engine.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
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
  std::string attrs_text;        // distinguishes -0.0 from 0.0
  std::vector<TensorMeta> inputs, outputs;
  Kernel kernel;
  Kernel device_kernel;  // `run` is null if there is none
  OpCost cost;
  // True if it was prepared for inputs like these blocks of the inputs of `compute`.
  bool fits(std::span<const Block> blocks, const Compute& compute,
            const SpmdProgram& program) const;
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

struct KnownOp {
  const OpRecord* op = nullptr;
  std::vector<const Prepared*> prepared;  // the last few shapes that were needed
};

// The known ops of a program. The instructions of an unrolled loop share op and attributes.
class KnownOps {
 public:
  KnownOp& of(const SharedText& op, const Attrs& attrs, const OpRegistry& ops);

 private:
  struct Key {
    const std::string* op;  // the shared text
    const void* attrs;      // identity
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return std::hash<const void*>()(key.op) * 31 + std::hash<const void*>()(key.attrs);
    }
  };
  std::unordered_map<Key, KnownOp, KeyHash> known_;  // looked up only
  Key last_key_{nullptr, nullptr};
  KnownOp* last_ = nullptr;
};

// An input of a part that is copied from several blocks before the kernel runs.
struct JoinedInput {
  LocalTensor parts;
  Block whole;  // without contents until then
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
  std::vector<JoinedInput> joins;
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
