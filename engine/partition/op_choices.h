// The legal ways to partition one op. Each has a strategy of the op's rule for each axis of the
// mesh, combined to one spec for each input and output. The choices depend only on the op and its
// inputs; prices and emission are the Partitioner's. Internal to the engine.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/ops/core/sharding_rule.h"
#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/program/value/number.h"

namespace shardproof {

// A value of the global program with its placements.
struct PlacedValue {
  ValueId id = kNoValue;
  TensorMeta meta;           // global
  std::optional<Spec> spec;  // none: a number, or computed on shards as they are
  std::optional<Number> number;
  std::string name;
  std::optional<Mesh> shards_on{};  // the mesh of a value computed on shards as they are

  const Mesh* mesh() const { return spec ? &spec->mesh() : shards_on ? &*shards_on : nullptr; }
};

// One legal way to run an op: the specs that its inputs need and the specs of its outputs.
struct PartitionedCall {
  std::vector<std::optional<Spec>> inputs;
  std::vector<Spec> outputs;
  LocalExecution form = LocalExecution::same_op;
  bool sharded = false;  // the kernel needs the index of its shard
  bool per_rank_attrs = false;
};

// Returns an input before `i` that is the same value and needs the same placements. Both share one
// redistribution.
std::optional<size_t> earlier_equal_input(const PartitionedCall& choice,
                                          const std::vector<PlacedValue>& inputs, size_t i);

// Calls visit(choice) for each legal choice on a mesh, nearest to the inputs' placements first,
// until it returns false. It leaves out choices that turn a cut input into a partial one, or make
// partials on an axis where no input has any. Such a choice may save bytes here, but a later line
// must reduce the result, so it is made only if the author writes it. `outputs` are the inferred
// metas of the results. On an axis of one rank, placements cut and add up nothing. There one
// strategy is tried: that which moves the fewest inputs, or R if `single` is whole.
enum class SingleAxes { nearest, whole };
void visit_choices(const OpRecord& op, const OpCall& call, const std::vector<TensorMeta>& outputs,
                   const std::vector<PlacedValue>& inputs, const Mesh& mesh, SingleAxes single,
                   const std::function<bool(PartitionedCall)>& visit);

}  // namespace shardproof
