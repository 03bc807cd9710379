// Text of redistribution steps in the rank language, and the other way round.
//
// A step that joins or cuts equal parts is a plain call: all_gather(x, dim=0, group=tp). Any other
// one states the whole tensors whose parts the ranks hold:
//
//   y = all_gather(x, shards='tp:S(0) of [7, 4] -> R of [7, 4]', group=tp)
//
// shards='A -> B': x is the shards of a tensor placed as A, y those of the same tensor placed as B.
// An op states all inputs and results: shards='R of [4], tp:S(0) of [8, 2] -> tp:S(1) of [4, 8]'.
// With several meshes a part ends with "on NAME".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/program/value/select_ranks.h"

namespace shardproof {

// The dims of a plain call: `dim` of all_gather and reduce_scatter; `split` and `concat` of
// all_to_all.
struct PlainDims {
  int dim = 0, concat = 0;
};
// Returns the dims with which the plain call gives each rank the result of the step. nullopt if the
// plain call gives another result, or if the language has no text for its reduction.
std::optional<PlainDims> plain_dims(const PlanStep& step);

// Returns "slice_local", "zero_fill" or "relabel", the verb of a local step.
std::string_view local_verb(const PlanStep& step);

// Returns the text of shards=, without quotes.
std::string shards_text(const std::vector<Spec>& inputs, const std::vector<Spec>& results,
                        const NamedMeshes& meshes);

// A tensor of shards=, before its dtype is known.
struct WrittenShards {
  std::string placements;
  Dims shape;
  Mesh mesh;
  Spec spec(DType dtype) const { return Spec::parse(placements, mesh, shape, dtype); }
};
struct ShardsArgument {
  std::vector<WrittenShards> inputs, results;
};
// Returns the inverse of shards_text. Throws Error(bad_input): what was expected, what was found.
ShardsArgument parse_shards(std::string_view text, const NamedMeshes& meshes);

}  // namespace shardproof
