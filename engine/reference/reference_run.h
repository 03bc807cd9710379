// ReferenceRun: what one device computes, line by line, from the values that the ranks hold.
//
// Values are computed on demand by dependence. After a value has been judged, the caller holds the
// ranks' value in its place (`hold`), so that what follows is computed from what the ranks really
// have: errors do not accumulate, and only a line that is wrong by itself differs. A value is freed
// after its last use.
//
// A *line* is what was computed to get from held values to one wanted value: one instruction of a
// global program, or all instructions between two outputs of a rank program. Its inputs stay until
// the next line is computed, so that the same line can be computed again in other arithmetic
// (`again`).
//
// Not thread-safe; the program and the registry must outlive it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

// A global program made ready to be evaluated by dependence: which instruction makes each value,
// and the values that are numbers.
class EvaluationPlan {
 public:
  EvaluationPlan(const GlobalProgram& program, const OpRegistry& ops);

  const GlobalProgram& program() const { return program_; }
  const OpRegistry& ops() const { return ops_; }
  const GlobalValue& info(ValueId id) const { return program_.values[static_cast<size_t>(id)]; }
  // Index of the instruction that makes a value; -1 for inputs and numbers.
  int maker(ValueId id) const { return makers_[static_cast<size_t>(id)]; }
  // The tensor of a value that is a number of the program; null for all others.
  const Tensor* number(ValueId id) const;

  // A value that is there already, or null. A lookup may convert it to the dtype that this program
  // has it in.
  using Lookup = std::function<const Tensor*(ValueId)>;
  using Store = std::function<void(ValueId, Tensor)>;
  // The instructions that have to run so that all of `targets` are there, in program order.
  std::vector<int> needed(const std::vector<ValueId>& targets,
                          const std::function<bool(ValueId)>& is_there) const;
  // Runs one instruction. Throws Error with line and column for data-dependent errors (an index
  // out of range).
  void run(int instr, const Lookup& held, const Store& store) const;
  // Computes a value from what `held` gives, and nothing else.
  Tensor compute(ValueId target, const Lookup& held) const;

 private:
  const GlobalProgram& program_;
  const OpRegistry& ops_;
  std::vector<int> makers_;
  std::vector<std::optional<Tensor>> numbers_;
};

// How the inputs of a line are changed before it is computed again; null: not at all.
using InputChange = std::function<Tensor(ValueId, const Tensor&)>;

class ReferenceRun {
 public:
  // `inputs`: global tensors in the order of program.inputs. `wanted`: values that will be asked
  // for, by id; they live until they are held. `keeps_all`: nothing is freed, for explanations.
  ReferenceRun(const EvaluationPlan& plan, std::vector<Tensor> inputs,
               const std::vector<bool>& wanted, bool keeps_all = false);

  // The value; computes its line first when it is not there.
  const Tensor& value(ValueId id);
  // From here on this is what the value is. Values that this one merely copies (`w * 1`, a second
  // name) become the same. Returns all of them.
  std::vector<ValueId> hold(ValueId id, const Tensor& value);
  // The value as it is held or computed so far; null when it is not there.
  const Tensor* find(ValueId id) const;
  // Values that the line of the last value() read: held values, inputs of the program, and what an
  // earlier line computed on its way.
  const std::vector<ValueId>& line_inputs() const { return line_inputs_; }
  // The instructions of that line, in program order; none where the value was there.
  const std::vector<int>& line() const { return line_; }
  // The line of the last value(), computed again under `plan`, whose program has the same ids: the
  // same program, or its form in other dtypes. Inputs are converted to the dtypes of that program.
  Tensor again(ValueId id, const EvaluationPlan& plan, const InputChange& change = {}) const;

  const EvaluationPlan& plan() const { return plan_; }

 private:
  void compute_line(ValueId id);
  void release_line();
  std::optional<ValueId> copied_by(ValueId id) const;
  std::optional<Tensor>& entry(ValueId id) { return entries_[static_cast<size_t>(id)]; }

  const EvaluationPlan& plan_;
  bool keeps_all_;
  std::vector<std::optional<Tensor>> entries_;
  std::vector<int> uses_;     // instructions that have yet to read a value
  std::vector<bool> wanted_;  // yet to be held
  std::vector<bool> held_;
  std::vector<int> line_;  // instructions
  std::vector<ValueId> line_inputs_;
};

}  // namespace shardproof
