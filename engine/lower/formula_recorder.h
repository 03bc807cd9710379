// FormulaRecorder: records the ops of a decomposition or of a gradient formula for one class of
// lanes, without emitting them. Formulas of several classes that differ only in attributes and
// numbers are then emitted once for all their lanes. Internal to the engine.
//
// Example: the gradient of sum(x) is expand(dy, size=[4, 8]) on ranks with 4 rows and
// expand(dy, size=[3, 8]) on ranks with 3. One instruction with two sets of attributes does both.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "shardproof/engine/lower/per_rank_number.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/instruction.h"

namespace shardproof {

// One step of a formula: an op, a number, or the first request of a cotangent. Handles are those of
// the builder: inputs and results of the call first, then what the steps add, in order.
struct FormulaStep {
  const OpRecord* op = nullptr;
  Attrs attrs;
  std::vector<int> inputs;
  std::optional<Number> number;
  int cotangent = -1;
  std::vector<std::pair<DType, bool>> results;  // dtype, weak
};

struct RecordedFormula {
  Lanes lanes;
  Attrs attrs;                             // of the call
  const GradientRule* gradient = nullptr;  // of the call, or null
  std::vector<FormulaStep> steps;
  std::vector<int> results;
};

class FormulaRecorder : public GradientBuilder {
 public:
  // `values`: the inputs of the call, for a gradient followed by its results.
  FormulaRecorder(const OpRegistry& ops, const std::vector<TensorMeta>& values, size_t inputs)
      : ops_(ops), metas_(values.begin(), values.end()), inputs_(inputs) {}
  // For a gradient: the cotangents, nullopt where there is none, and the inputs whose gradients are
  // wanted.
  void set_gradient(std::vector<std::optional<TensorMeta>> cotangents, std::vector<bool> wanted);

  int input(int i) override { return metas_[static_cast<size_t>(i)].absent ? kAbsent : i; }
  int output(int o) override { return static_cast<int>(inputs_) + o; }
  int cotangent(int o) override;
  bool wanted(int i) override { return wanted_[static_cast<size_t>(i)]; }
  std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) override;
  int number(Number value) override;
  const TensorMeta& meta(int handle) override { return metas_[static_cast<size_t>(handle)]; }
  const std::vector<FormulaStep>& steps() const { return steps_; }

 private:
  std::vector<TensorMeta> results_of(const OpRecord& op, const OpCall& call) const;
  int add(FormulaStep step, const std::vector<TensorMeta>& results);

  const OpRegistry& ops_;
  std::deque<TensorMeta> metas_;  // a deque, because meta() returns references
  const size_t inputs_;
  std::vector<std::optional<TensorMeta>> cotangents_;
  std::vector<int> handles_;  // of the cotangents that were requested, else -1
  std::vector<bool> wanted_;
  std::vector<FormulaStep> steps_;
};

// Returns the formulas in groups that differ only in attributes and numbers, in their order.
std::vector<std::vector<RecordedFormula>> alike(std::vector<RecordedFormula> formulas);
// Return the attributes (the number) of a step on the lanes of all formulas of a group.
std::vector<LaneAttrs> attrs_of_step(const std::vector<RecordedFormula>& group, size_t step);
PerRankNumber number_of_step(const std::vector<RecordedFormula>& group, size_t step);
std::vector<LaneAttrs> attrs_of_call(const std::vector<RecordedFormula>& group);
Lanes lanes_of_group(const std::vector<RecordedFormula>& group);

// Emits a group of formulas with a builder that has emitted nothing yet. Its current lanes are
// those of the group.
template <typename Builder>
void emit_group(const std::vector<RecordedFormula>& group, Builder& builder) {
  for (size_t i = 0; i < group[0].steps.size(); ++i) {
    const FormulaStep& step = group[0].steps[i];
    if (step.op != nullptr)
      builder.emit_op(*step.op, attrs_of_step(group, i), step.inputs);
    else if (step.number)
      builder.emit_number(number_of_step(group, i));
    else
      builder.cotangent(step.cotangent);
  }
}

}  // namespace shardproof
