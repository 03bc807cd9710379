// Computation: the work of a rank on its shards, independent of their shapes. It is one op with
// attributes, or lines of a global program. compile() prepares the kernels for local shapes; the
// result runs on many lanes side by side.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/global_program.h"
#include "shardproof/program/syntax/ast.h"

namespace shardproof {

// Memory of a run, which the next run of any program reuses.
struct RunMemory {
  std::vector<LaneView> views, inputs, outputs;  // of all values; of one step
  std::vector<std::vector<std::byte>> storage;   // by value
  std::vector<std::byte> workspace;
};

// A straight line of kernels for fixed shapes.
class LocalProgram {
 public:
  const std::vector<TensorMeta>& outputs() const { return outputs_; }
  // Runs `lanes` lanes. `inputs` are dense; an absent input has no base. Returns the dense contents
  // of each output, lane after lane. Throws what kernels throw for their data.
  std::vector<std::vector<std::byte>> run(int64_t lanes, const std::vector<LaneView>& inputs,
                                          const ShardInfo* shard = nullptr) const;
  // The same in memory that many runs share.
  std::vector<std::vector<std::byte>> run(int64_t lanes, const std::vector<LaneView>& inputs,
                                          RunMemory& memory,
                                          const ShardInfo* shard = nullptr) const;

 private:
  friend class Computation;
  struct Step {
    Kernel kernel;
    std::vector<int> inputs, outputs;  // values; -1: absent
  };
  int add_value(TensorMeta meta);
  void add_step(const OpRecord& record, const Attrs& attrs, std::vector<int> inputs,
                std::vector<int> outputs, size_t wanted);

  std::vector<TensorMeta> values_;  // inputs first
  std::vector<Tensor> constants_;   // by value; without a buffer: not a constant
  std::vector<Step> steps_;
  std::vector<int> results_;  // values
  std::vector<TensorMeta> outputs_;
};

// Returns the lines of a call for inputs of these sizes.
using LinesBySizes = std::function<std::vector<std::string>(const std::vector<Dims>& inputs)>;

class Computation {
 public:
  // Requires a call that no decomposition applies to.
  static Computation of_op(const OpRecord& record, Attrs attrs);
  // Returns the computation of lines over the tensors x0, x1, .. that bind the names `outputs`.
  // Throws Error(bad_input) with line and column if the text does not parse.
  static Computation of_lines(const OpRegistry& ops, const std::vector<std::string>& lines,
                              std::vector<std::string> outputs);
  // Returns the same for lines that depend on the sizes of the inputs. compile() then throws the
  // errors of the text.
  static Computation of_sizes(const OpRegistry& ops, LinesBySizes lines,
                              std::vector<std::string> outputs);

  // Throws Error(bad_input) if the shapes or dtypes do not fit.
  LocalProgram compile(const std::vector<TensorMeta>& inputs) const;
  // Returns what compile() returns, compiled once for these inputs, or null where it throws. Not
  // thread-safe.
  const LocalProgram* program(const std::vector<TensorMeta>& inputs) const;
  // Returns why the call of the only line gives fewer results than the line binds: "the call gives
  // 1 result there, not 2 as on one device"; "" if it does not. Example: split into chunks of 4
  // gives two results for 8 rows, one for 4.
  std::string why_other_results(const std::vector<TensorMeta>& inputs) const;
  // Returns the value of each output on one device. Throws what compile() and run() throw.
  std::vector<Tensor> run_whole(const std::vector<TensorMeta>& inputs,
                                const std::vector<Tensor>& tensors) const;
  // The same with what compile() returned for these inputs.
  static std::vector<Tensor> run_whole(const LocalProgram& program,
                                       const std::vector<TensorMeta>& inputs,
                                       const std::vector<Tensor>& tensors);

 private:
  Listing listing_for(const std::vector<TensorMeta>& inputs) const;
  GlobalProgram lowered(const Listing& listing, const std::vector<TensorMeta>& inputs) const;
  void compile_lines(LocalProgram& program, const std::vector<TensorMeta>& inputs) const;

  const OpRecord* record_ = nullptr;  // null: lines
  Attrs attrs_;
  const OpRegistry* ops_ = nullptr;
  Listing listing_;
  LinesBySizes lines_by_sizes_;  // null: the listing
  std::vector<std::string> output_names_;
  struct Compiled {
    std::vector<TensorMeta> inputs;
    std::optional<LocalProgram> program;  // nullopt: the inputs do not fit
  };
  mutable std::deque<Compiled> compiled_;  // by program()
};

}  // namespace shardproof
