// Partitioner: the state of one partitioning: values with their placements, the emitted program,
// computed plans, and the price spent so far. Internal to the engine.
//
// Sources: partition.cpp runs the instructions of the global program.
// partitioner_choose_strategy.cpp chooses the placements of an op among its choices (op_choices.h).
// partitioner_emit_plan.cpp emits instructions. partitioner_unwritten.cpp reports calls that the
// author did not write.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "shardproof/engine/partition/choice_memory.h"
#include "shardproof/engine/partition/op_choices.h"
#include "shardproof/engine/partition/partition.h"
#include "shardproof/engine/partition/plan_cache.h"

namespace shardproof {

class Partitioner {
 public:
  Partitioner(const Job& job, const OpRegistry& ops, const PartitionOptions& options)
      : job_(job), ops_(ops), options_(options), plans_(options) {}
  // `meshes`: the mesh of each instruction, for those whose inputs have none; empty: the first mesh
  // of the job.
  Partitioned run(const GlobalProgram& program, const std::vector<const Mesh*>& meshes);

  // Emits an op with the cheapest legal placements, and the redistributions that they need. A
  // result with a target is redistributed to it, and the price of that counts; `targets` may be
  // shorter than the results. Throws Error(bad_input) if there are no legal placements.
  using Targets = std::vector<std::optional<Spec>>;
  std::vector<PlacedValue> emit_op(const OpRecord& op, const Attrs& attrs,
                                   const std::vector<PlacedValue>& inputs,
                                   const Targets& targets = {});
  // Emits the plan to a spec. `written`: the author wrote it, so it is never a finding.
  // `peak_limit` replaces that of the options.
  PlacedValue redistribute(const PlacedValue& value, const Spec& to, bool written,
                           std::optional<int64_t> peak_limit = std::nullopt);
  PlacedValue number(Number value);

 private:
  friend class Lowerer;
  // A point of the emitted program to return to after a trial.
  struct Checkpoint {
    size_t values = 0, instrs = 0, unwritten = 0;
    Price spent;
  };
  // The placements that a text last had, for lines that repeat it.
  struct ParsedTarget {
    Spec from, to;
  };
  void run_instr(const GlobalInstr& instr);
  void run_redistribute(const GlobalInstr& instr);
  // Returns the spec of the written placements on a mesh. It stays valid until the next call.
  const Spec& written_target(const GlobalInstr& instr, const Spec& from, const Mesh& mesh);
  void run_claim(const GlobalInstr& instr);
  // Emits an op on the shards as they are; the local shapes of its outputs follow from those of its
  // inputs.
  void run_local(const OpRecord& op, const GlobalInstr& instr);
  // Returns the declared specs of results that are states of the scenario; empty if none is.
  Targets state_specs(const GlobalInstr& instr) const;
  Spec spec_like(const GlobalInstr& instr, const PlacedValue& value) const;
  void place_gradient(const GlobalInstr& instr, const PlacedValue& moved);
  PlacedValue scale_parts(const PlacedValue& value, const GlobalInstr& instr, bool multiplied);
  Spec claimed_spec(const GlobalInstr& instr, const PlacedValue& value);
  void place(ValueId global, PlacedValue placed);
  // Frees the values that lost their names to this instruction or an earlier one, each after the
  // last instruction that reads it.
  void free_rebound(const GlobalInstr& instr, size_t index);

  // partitioner_choose_strategy.cpp
  // Returns the choice with the least price. Throws Error(bad_input) if there is none.
  PartitionedCall choose(const OpRecord& op, const OpCall& call,
                         const std::vector<TensorMeta>& outputs,
                         const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                         const Targets& targets);
  // Returns a lower bound of the primary price of the plans of the inputs and of the plans to the
  // targets.
  double least_primary(const PartitionedCall& choice, const std::vector<PlacedValue>& inputs,
                       const Targets& targets);
  // Returns the price of redistributing the inputs for a choice; nullopt if it is more than
  // `at_most`. Stores in `changed` how many inputs move.
  std::optional<Price> price_of_inputs(const PartitionedCall& choice,
                                       const std::vector<PlacedValue>& inputs,
                                       const std::optional<Price>& at_most, int& changed);
  // Adds the price of redistributing the results of a choice to their targets; false if it is more
  // than `at_most`.
  bool add_price_of_targets(const PartitionedCall& choice, const Targets& targets,
                            const std::optional<Price>& at_most, Price& price, int& changed);
  // Returns the price of an op that is lowered to other ops.
  Price price_of_lowering(const OpRecord& op, const OpCall& call,
                          const std::vector<TensorMeta>& outputs,
                          const std::vector<PlacedValue>& inputs, const PartitionedCall& choice);

  // partitioner_unwritten.cpp
  // Reports a plan with calls that the author did not write, if the program is `explicit`. Inside
  // the rule of an op the plan counts as a call of that op.
  void note_unwritten(const PlacedValue& value, const Spec& to, const Plan& plan);
  // Emits what the rule of an op lowers to, and reports all calls of the rule as one finding.
  std::vector<PlacedValue> apply_rule(const OpRecord& op, const OpCall& call,
                                      const std::vector<Spec>& specs,
                                      const std::vector<PlacedValue>& inputs);

  // partitioner_emit_plan.cpp
  std::vector<PlacedValue> emit_choice(const OpRecord& op, const OpCall& call,
                                       const std::vector<TensorMeta>& outputs,
                                       std::vector<PlacedValue> inputs,
                                       const PartitionedCall& choice);
  PlacedValue emit_step(PlacedValue value, const PlannedStep& planned);
  void emit_transfer(const PlacedValue& value, const PlannedStep& planned, ValueId output);
  ValueId add_value(DType dtype, const Spec& spec, Category category);
  ValueId materialize(const PlacedValue& number);
  Instr& add(Action action, const Lanes& lanes);
  const LocalShapes& shapes_of(const Spec& spec);
  const Mesh& mesh_of(const std::vector<PlacedValue>& inputs) const;
  Checkpoint mark() const;
  void rollback(const Checkpoint& mark);

  const Job& job_;
  const OpRegistry& ops_;
  const PartitionOptions& options_;
  const GlobalProgram* global_ = nullptr;
  const Mesh* mesh_ = nullptr;  // of constants of the present instruction
  Partitioned result_;
  std::vector<PlacedValue> values_;  // by global id
  std::vector<size_t> last_use_;     // by global id: index of the last instruction that reads it
  Origin origin_;
  Price spent_;                                  // price of all emitted steps
  bool quiet_ = false;                           // inside a trial: no findings
  std::vector<PlanStep>* rule_calls_ = nullptr;  // calls of the rule that is applied; null: none is
  PlanCache plans_;
  ChoiceMemory choices_;
  std::unordered_multimap<uint64_t, std::pair<Spec, LocalShapes>> shapes_;  // by hash of the spec
  std::unordered_map<std::string, ParsedTarget> targets_;                   // by placements text
  std::unordered_map<std::string, int> uses_;       // bindings of each name, for unique value names
  std::unordered_map<std::string, ValueId> bound_;  // the global value that each name has
  std::map<size_t, std::vector<ValueId>> free_after_;  // by instruction: values that it frees
};

}  // namespace shardproof
