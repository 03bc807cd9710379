// The partitioner's workings. Internal to the engine.
#pragma once

#include <map>
#include <optional>

#include "shardproof/engine/partition/partition.h"
#include "shardproof/localtensor/plan/planner.h"

namespace shardproof {

// A value while the program is being built.
struct PlacedValue {
  ValueId id = kNoValue;
  TensorMeta meta;           // global
  std::optional<Spec> spec;  // none: a number, or computed on shards as they lie
  std::optional<Number> number;
  std::string name;
  std::optional<Mesh> shards_on{};  // of what was computed on shards as they lie

  const Mesh* mesh() const { return spec ? &spec->mesh() : shards_on ? &*shards_on : nullptr; }
};

// One legal way to run an op: where its inputs must lie and what comes out.
struct PartitionedCall {
  std::vector<std::optional<Spec>> inputs;
  std::vector<Spec> outputs;
  LocalExecution form = LocalExecution::same_op;
  bool sharded = false;  // the kernel needs global indices
  bool per_rank_attrs = false;
};

// The input before `i` that is the same value and goes to the same placements: what brings it there
// is done once.
std::optional<size_t> moved_before(const PartitionedCall& choice,
                                   const std::vector<PlacedValue>& inputs, size_t i);

class Partitioner {
 public:
  Partitioner(const Job& job, const OpRegistry& ops, const PartitionOptions& options)
      : job_(job), ops_(ops), options_(options) {}
  Partitioned run(const GlobalProgram& program);

  // For LowerBuilder too.
  std::vector<PlacedValue> emit_op(const OpRecord& op, const Attrs& attrs,
                                   const std::vector<PlacedValue>& inputs);
  PlacedValue redistribute(const PlacedValue& value, const Spec& to, bool written);
  PlacedValue number(Number value);

 private:
  friend class Lowerer;
  struct Checkpoint {
    size_t values = 0, instrs = 0, unwritten = 0;
    Price spent;
  };
  void run_instr(const GlobalInstr& instr);
  void run_redistribute(const GlobalInstr& instr);
  void run_claim(const GlobalInstr& instr);
  void run_local(const OpRecord& op, const GlobalInstr& instr);
  Spec claimed_spec(const GlobalInstr& instr, const PlacedValue& value);
  void place(ValueId global, PlacedValue placed);
  void free_rebound(const GlobalInstr& instr, size_t index);

  // choose_strategy.cpp
  std::vector<PartitionedCall> choices(const OpRecord& op, const OpCall& call,
                                       const std::vector<TensorMeta>& outputs,
                                       const std::vector<PlacedValue>& inputs, const Mesh& mesh);
  std::optional<PartitionedCall> compose(const OpCall& call, const std::vector<TensorMeta>& outputs,
                                         const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                                         const std::vector<const Strategy*>& picks,
                                         const OpRecord& op);
  void joint_choices(const OpRecord& op, const OpCall& call, const std::vector<TensorMeta>& outputs,
                     const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                     std::vector<PartitionedCall>& into);
  const PlannerResult* plan_within(const Spec& from, const Spec& to,
                                   const std::optional<Price>& at_most);
  // nullopt: more than `at_most`.
  std::optional<Price> price_of_inputs(const PartitionedCall& choice,
                                       const std::vector<PlacedValue>& inputs,
                                       const std::optional<Price>& at_most, int& changed);
  Price price_of_lowering(const OpRecord& op, const OpCall& call,
                          const std::vector<TensorMeta>& outputs,
                          const std::vector<PlacedValue>& inputs, const PartitionedCall& choice);
  const PlannerResult& plan(const Spec& from, const Spec& to);

  // emit_plan.cpp
  std::vector<PlacedValue> emit_choice(const OpRecord& op, const OpCall& call,
                                       const std::vector<TensorMeta>& outputs,
                                       std::vector<PlacedValue> inputs,
                                       const PartitionedCall& choice);
  PlacedValue emit_step(const PlacedValue& value, const PlanStep& step);
  void emit_transfer(const PlacedValue& value, const PlanStep& step, ValueId output);
  ValueId add_value(DType dtype, const Spec& spec, Category category);
  ValueId materialize(const PlacedValue& number);
  Instr& add(Action action, const Lanes& lanes);
  const std::vector<LocalShape>& shapes_of(const Spec& spec);
  const Mesh& mesh_of(const std::vector<PlacedValue>& inputs) const;
  const Mesh& default_mesh() const;
  Checkpoint mark() const;
  void rollback(const Checkpoint& mark);

  const Job& job_;
  const OpRegistry& ops_;
  const PartitionOptions& options_;
  const GlobalProgram* global_ = nullptr;
  Partitioned result_;
  std::vector<PlacedValue> values_;  // by global id
  std::vector<size_t> last_use_;     // by global id: index of the last instruction that reads it
  Origin origin_;
  Price spent_;
  bool quiet_ = false;  // inside a written redistribution or a trial
  std::vector<std::pair<std::pair<Spec, Spec>, PlannerResult>> plans_;
  std::vector<std::pair<Spec, std::vector<LocalShape>>> shapes_;
  std::map<std::string, int> uses_;
  std::map<std::string, ValueId> bound_;
};

}  // namespace shardproof
