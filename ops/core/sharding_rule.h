// Sharding rules. A rule states which placements of inputs and outputs are legal on one mesh axis,
// and what each rank then runs. On N axes the partitioner picks one strategy per axis, outer axes
// first. Every tensor that has the sharded factor gets the *same cut* of it. Ownership therefore
// agrees on every coordinate, also for uneven shards and for two axes on one dim. Ops whose dims do
// not map one to one (reshape) give `joint`.
//
// Factor notation builds most rules: "mk,kn->mn" names each dim of each tensor by a letter (a
// factor). Sharding a factor shards every dim of that letter. A factor missing from the outputs is
// reduced, and its outputs become P(reduction). Dims of size 1 that broadcast are written "1".
// Factors are those of Shardy's sharding rules (openxla.org/shardy).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/program/value/attrs.h"
#include "shardproof/program/value/number.h"

namespace shardproof {

struct TensorMeta {
  DType dtype = DType::f32;
  Dims shape;
  bool weak = false;    // a number of the program; does not raise dtypes
  bool absent = false;  // an optional input that the call leaves out
  bool operator==(const TensorMeta&) const = default;
};

struct OpCall {
  const Attrs* attrs = nullptr;
  std::vector<TensorMeta> inputs;
  size_t wanted = 1;  // number of results that the statement binds
  // The number that input i is in the program, for rules that depend on its sign. Null or absent:
  // none, or not known.
  std::vector<const Number*> numbers = {};
};

// The work of a rank under a strategy (PyTorch: the local op of DTensor's sharding propagation).
enum class LocalExecution {
  same_op,      // the op itself on the shards
  local_attrs,  // the op with attributes of this rank (Rule::local_attrs): reshape, expand, mean by
                // global count
  needs_shard_index,  // the op's kernel with ShardInfo: random, embedding, one_hot, argmax, causal
                      // mask
  lower_to_ops,       // Rule::lower replaces the op by other ops and redistributions
};

// Layouts of a shard that a strategy accepts: any (strided, uneven, explicit); one contiguous run
// per rank; equal local sizes; or the chunk rule on one axis.
enum class ShardLayout { any, contiguous, even, chunks };

// Placements of all tensors on one axis. Shard entries name dims only; the partitioner gives all
// tensors the same cut (split, sizes, order).
struct Strategy {
  std::vector<Placement> inputs, outputs;
  LocalExecution form = LocalExecution::same_op;
  ShardLayout cut = ShardLayout::any;
  // The sharded dims consist of this many equal blocks, and no cut may split a block (groups of a
  // convolution).
  int64_t blocks = 0;  // 0: cuts may be anywhere
};
// True if every run of `dim` that a rank owns under `spec` consists of whole blocks. `blocks` is
// the number of equal blocks in the dim.
bool has_cuts_between_blocks(const Spec& spec, int dim, int64_t blocks);

class LowerBuilder;  // ops/core/op_builder.h

struct Rule {
  // Returns all strategies for one axis of `axis_size` ranks. All-R is always legal and need not be
  // listed.
  std::function<std::vector<Strategy>(const OpCall&, const std::vector<TensorMeta>& outputs,
                                      int64_t axis_size)>
      strategies;
  // For ops whose dims map many to one: returns the output specs that make running `joint_form`
  // legal for exactly these input specs, or nullopt. The partitioner checks them by exact
  // ownership. When set, it replaces `strategies` for S placements.
  std::function<std::optional<std::vector<Spec>>(
      const OpCall&, const std::vector<TensorMeta>& outputs, const std::vector<Spec>& inputs)>
      joint;
  LocalExecution joint_form = LocalExecution::local_attrs;
  // The inputs whose placements give the shard indices that the kernel reads (needs_shard_index),
  // if others need no placement. Inside `as` the others are placed as the strategies have them in
  // addition to these. Empty: all inputs must have placements, or the op counts from 0.
  std::vector<int> indexed_inputs;
  // Form `local_attrs`: returns the attributes that `rank` runs with.
  std::function<Attrs(const OpCall&, const std::vector<Spec>& inputs,
                      const std::vector<Spec>& outputs, int64_t rank)>
      local_attrs;
  // Form `lower_to_ops`: emits the replacement for inputs placed as `inputs` and returns the
  // handles of the outputs. Throws Error to reject a sharding by other axes; the partitioner then
  // drops this strategy.
  std::function<std::vector<int>(const OpCall&, const std::vector<Spec>& inputs, LowerBuilder&)>
      lower;
};

// One rule for partial values: the reduction that each input carries (none, or beyond the list: R),
// and that of every output. Example: {{sum, none}, sum} for x * w, which is linear in x while w is
// R.
struct PartialPropagation {
  std::vector<std::optional<ReduceOp>> inputs;
  ReduceOp output = ReduceOp::sum;
};
// Returns one rule for each reduction: the inputs `together` carry it at once (add: {0, 1}), all
// others are R.
std::vector<PartialPropagation> joint_partial_rules(const std::vector<ReduceOp>& reductions,
                                                    const std::vector<int>& together);
// Returns the strategy of a rule for a call with these numbers of inputs and outputs.
Strategy partial_strategy(const PartialPropagation& rule, size_t inputs, size_t outputs,
                          LocalExecution form);

struct FactorOptions {
  Reduction reduction;  // reduces the factors that are missing from the outputs
  std::string whole;    // letters that no strategy shards
  std::vector<PartialPropagation> partials;       // strategies for partial inputs
  LocalExecution form = LocalExecution::same_op;  // for all strategies but those of `form_of`
  std::map<char, LocalExecution> form_of;         // by letter, e.g. {'v', needs_shard_index}
  std::map<char, ShardLayout> cut_of;
  bool reduction_needs_even = false;  // for avg: over uneven shards the result is not P(avg)
};
// Returns the strategies of a factor notation such as "mk,kn->mn". One for each letter that may be
// sharded, then one for each rule of `partials`. Absent inputs keep their place with an empty term.
// SP_CHECK: the notation has an arrow.
std::vector<Strategy> factor_strategies(const std::string& notation, const FactorOptions& options);

// True if check_reduction() of localtensor/placement/spec.h accepts the pair. OpRegistry::add drops
// strategies with other partials.
bool is_reduction_allowed(ReduceOp op, DType dtype);

}  // namespace shardproof
