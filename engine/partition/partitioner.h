// The partitioner's workings. Internal to the engine.
#pragma once

#include <map>
#include <optional>

#include "shardproof/engine/partition/partition.h"
#include "shardproof/localtensor/plan/planner.h"

namespace shardproof {

// A value while the program is being built.
struct Placed {
  ValueId id = kNoValue;
  TensorMeta meta;           // global
  std::optional<Spec> spec;  // none: a number, or computed on shards as they lie
  std::optional<Number> number;
  std::string name;
  std::optional<Mesh> shards_on{};  // of what was computed on shards as they lie

  const Mesh* mesh() const { return spec ? &spec->mesh() : shards_on ? &*shards_on : nullptr; }
};

// One legal way to run an op: where its inputs must lie and what comes out.
struct Choice {
  std::vector<std::optional<Spec>> inputs;
  std::vector<Spec> outputs;
  LocalForm form = LocalForm::same;
  bool sharded = false;  // the kernel needs global indices
  bool per_rank_attrs = false;
};

// The input before `i` that is the same value and goes to the same placements: what brings it there
// is done once.
std::optional<size_t> moved_before(const Choice& choice, const std::vector<Placed>& inputs,
                                   size_t i);

class Partitioner {
 public:
  Partitioner(const Job& job, const OpRegistry& ops, const PartitionOptions& options)
      : job_(job), ops_(ops), options_(options) {}
  Partitioned run(const GlobalProgram& program);

  // For LowerBuilder too.
  std::vector<Placed> emit_op(const OpRecord& op, const Attrs& attrs,
                              const std::vector<Placed>& inputs);
  Placed redistribute(const Placed& value, const Spec& to, bool written);
  Placed number(Number value);

 private:
  friend class Lowerer;
  struct Mark {
    size_t values = 0, instrs = 0, unwritten = 0;
    Price spent;
  };
  void run_instr(const GlobalInstr& instr);
  void run_redistribute(const GlobalInstr& instr);
  void run_claim(const GlobalInstr& instr);
  void run_local(const OpRecord& op, const GlobalInstr& instr);
  Spec claimed_spec(const GlobalInstr& instr, const Placed& value);
  void place(ValueId global, Placed placed);
  void free_rebound(const GlobalInstr& instr, size_t index);

  // choose_strategy.cpp
  std::vector<Choice> choices(const OpRecord& op, const OpCall& call,
                              const std::vector<TensorMeta>& outputs,
                              const std::vector<Placed>& inputs, const Mesh& mesh);
  std::optional<Choice> compose(const OpCall& call, const std::vector<TensorMeta>& outputs,
                                const std::vector<Placed>& inputs, const Mesh& mesh,
                                const std::vector<const Strategy*>& picks, const OpRecord& op);
  void joint_choices(const OpRecord& op, const OpCall& call, const std::vector<TensorMeta>& outputs,
                     const std::vector<Placed>& inputs, const Mesh& mesh,
                     std::vector<Choice>& into);
  const PlannerResult* plan_within(const Spec& from, const Spec& to,
                                   const std::optional<Price>& at_most);
  // nullopt: more than `at_most`.
  std::optional<Price> price_of_inputs(const Choice& choice, const std::vector<Placed>& inputs,
                                       const std::optional<Price>& at_most, int& changed);
  Price price_of_lowering(const OpRecord& op, const OpCall& call,
                          const std::vector<TensorMeta>& outputs, const std::vector<Placed>& inputs,
                          const Choice& choice);
  const PlannerResult& plan(const Spec& from, const Spec& to);

  // emit_plan.cpp
  std::vector<Placed> emit_choice(const OpRecord& op, const OpCall& call,
                                  const std::vector<TensorMeta>& outputs,
                                  std::vector<Placed> inputs, const Choice& choice);
  Placed emit_step(const Placed& value, const PlanStep& step);
  void emit_transfer(const Placed& value, const PlanStep& step, ValueId output);
  ValueId add_value(DType dtype, const Spec& spec, Category category);
  ValueId materialize(const Placed& number);
  Instr& add(Action action, const Lanes& lanes);
  const std::vector<LocalShape>& shapes_of(const Spec& spec);
  const Mesh& mesh_of(const std::vector<Placed>& inputs) const;
  const Mesh& default_mesh() const;
  Mark mark() const;
  void rollback(const Mark& mark);

  const Job& job_;
  const OpRegistry& ops_;
  const PartitionOptions& options_;
  const GlobalProgram* global_ = nullptr;
  Partitioned result_;
  std::vector<Placed> values_;    // by global id
  std::vector<size_t> last_use_;  // by global id: index of the last instruction that reads it
  Origin origin_;
  Price spent_;
  bool quiet_ = false;  // inside a written redistribution or a trial
  std::vector<std::pair<std::pair<Spec, Spec>, PlannerResult>> plans_;
  std::vector<std::pair<Spec, std::vector<LocalShape>>> shapes_;
  std::map<std::string, int> uses_;
  std::map<std::string, ValueId> bound_;
};

}  // namespace shardproof
