// A reference LowerBuilder: every value is global, with a spec and its parts. Ops run by their own
// rules on inputs as they are placed; redistributions assemble the whole.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/check_ops/run_local.h"
#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/ops/core/op.h"

namespace shardproof {

// The execution of an op on a mesh: the specs of its results, and the data that each rank needs.
struct Placed {
  std::vector<Spec> outputs;
  bool rank_attrs = false, shard_info = false, lower = false;
};
// Places the outputs by one strategy per axis (null: all-R). Returns nullopt if a shard is not of
// the layout that its strategy accepts.
std::optional<Placed> place(const std::vector<TensorMeta>& outputs, const std::vector<Spec>& inputs,
                            const std::vector<const Strategy*>& per_axis);
// Places the outputs by the first strategies of the op's rule that accept the inputs as they are
// placed.
std::optional<Placed> place_without_redistribution(const OpRecord& record, const OpCall& call,
                                                   const std::vector<TensorMeta>& outputs,
                                                   const std::vector<Spec>& inputs);

class LowerByRules : public LowerBuilder {
 public:
  struct Value {
    TensorMeta meta;
    Spec spec;
    LocalTensor parts;
  };
  LowerByRules(const OpRegistry& ops, Mesh mesh, std::vector<Value> inputs);

  int input(int i) override { return at(i).meta.absent ? kAbsent : i; }
  std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) override;
  int number(Number value) override;
  int redistribute(int value, const std::vector<Placement>& placements) override;
  int replicate_partials(int value) override;
  const Spec& spec(int value) override { return at(value).spec; }
  const TensorMeta& meta(int value) override { return at(value).meta; }
  const LocalTensor& parts(int value) { return at(value).parts; }
  // True if inputs of an op had to be replicated because no strategy takes them with their
  // placements. Then results may have other placements than the strategy states, as in the
  // partitioner.
  bool has_replicated() const { return replicated_; }

 private:
  Value& at(int value) { return values_[static_cast<size_t>(value)]; }
  int add(Value value);
  bool is_replicated(const std::vector<int>& inputs);

  const OpRegistry& ops_;
  Mesh mesh_;
  bool replicated_ = false;
  std::deque<Value> values_;  // a deque, because lowerings hold references to specs and metas
};

}  // namespace shardproof
