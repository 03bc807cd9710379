// Sharding rules. A rule says which placements of inputs and outputs are legal on one mesh axis,
// and what each rank then runs. On N axes the partitioner picks one strategy per axis, outer axes
// first; because every tensor that has the sharded factor gets the *same cut* of it, ownership
// agrees on every coordinate, uneven shards and two axes on one dim included. Ops whose dims do not
// map one to one (reshape) give `joint`.
//
// Factor notation builds most rules: "mk,kn->mn" names each dim of each tensor by a letter (a
// factor). Sharding a factor shards every dim of that letter. A factor missing from the outputs is
// reduced, and its outputs become P(reduction). Dims of size 1 that broadcast are written "1".
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/program/value/attrs.h"

namespace shardproof {

struct TensorMeta {
  DType dtype = DType::f32;
  Dims shape;
  bool weak = false;    // a number of the program: does not raise dtypes
  bool absent = false;  // an optional input that was not given
  bool operator==(const TensorMeta&) const = default;
};

struct OpCall {
  const Attrs* attrs = nullptr;
  std::vector<TensorMeta> inputs;
  size_t wanted = 1;  // names that the statement binds
};

// What a rank runs under a strategy.
enum class LocalExecution {
  same_op,      // the op itself on the shards
  local_attrs,  // the op with attributes of this rank (Rule::local_attrs): reshape, expand, mean by
                // global count
  needs_shard_index,  // the op's kernel with ShardInfo: random, embedding, one_hot, argmax, causal
                      // mask
  lower_to_ops,       // Rule::lower replaces the op by other ops and redistributions
};

// Which cuts of a Shard a strategy takes: any (strided, uneven, explicit), only one contiguous run
// per rank, only equal local sizes, or only those of the chunk rule by one axis.
enum class ShardLayout { any, contiguous, even, chunks };

// On one axis. Shard entries name dims only; the partitioner puts the same cut (split, sizes,
// order) on all.
struct Strategy {
  std::vector<Placement> inputs, outputs;
  LocalExecution form = LocalExecution::same_op;
  ShardLayout cut = ShardLayout::any;
  // The dims that are cut are made of so many equal blocks, and no cut may go through one (groups
  // of a convolution).
  int64_t blocks = 0;  // 0: anywhere
};
bool cuts_between_blocks(const Spec& spec, int dim, int64_t blocks);

class LowerBuilder;  // builder.h

struct Rule {
  // All strategies for one axis of `axis_size` ranks. All-R is always legal and need not be listed.
  std::function<std::vector<Strategy>(const OpCall&, const std::vector<TensorMeta>& outputs,
                                      int64_t axis_size)>
      strategies;
  // For ops whose dims map many to one: the output specs that make running `form` legal for exactly
  // these input specs, or nullopt. Judged by exact ownership. When set, replaces `strategies` for S
  // placements.
  std::function<std::optional<std::vector<Spec>>(
      const OpCall&, const std::vector<TensorMeta>& outputs, const std::vector<Spec>& inputs)>
      joint;
  LocalExecution joint_form = LocalExecution::local_attrs;
  // Attributes a rank runs with, under form `attrs`.
  std::function<Attrs(const OpCall&, const std::vector<Spec>& inputs,
                      const std::vector<Spec>& outputs, int64_t rank)>
      local_attrs;
  // Form `lower`: emits the replacement for inputs placed as `inputs`; returns handles of the
  // outputs. May refuse (Error) what other axes cut beside its own: that choice is then not taken.
  std::function<std::vector<int>(const OpCall&, const std::vector<Spec>& inputs, LowerBuilder&)>
      lower;
};

// Which operands partials pass through unchanged: {"sum", {0}} for x * w linear in x while others
// are R.
struct Linearity {
  std::vector<ReduceOp> ops;  // sum, avg, ...
  std::vector<int> together;  // these inputs all carry P at once (add: {0, 1}); the others are R
};

struct FactorOptions {
  Reduction reduction;  // for factors missing from the outputs
  std::string whole;    // letters that may not be cut
  std::vector<Linearity> linear;
  LocalExecution form = LocalExecution::same_op;  // for all strategies, unless named below
  std::map<char, LocalExecution> form_of;         // e.g. {'v', LocalExecution::shard}
  std::map<char, ShardLayout> cut_of;
  bool reduction_needs_even = false;  // avg over uneven shards is not P(avg)
};
// "mk,kn->mn": strategies from letters. Absent inputs keep their place with empty letters.
std::vector<Strategy> factor_strategies(const std::string& notation, const FactorOptions& options);

// check_reduction of spec.h as a question. OpRegistry::add drops strategies with other partials.
bool reduction_allowed(ReduceOp op, DType dtype);

}  // namespace shardproof
