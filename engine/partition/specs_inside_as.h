// Placements of values inside `as`, from which a kernel that counts positions (rope, a causal sdpa,
// dropout) reads the indices of a rank's shard. Internal to the engine.
//
// Such an op counts positions of the whole if its inputs have placements, or those that state the
// positions (Rule::indexed_inputs). Otherwise it counts from 0 on each rank. Results of other ops
// of the line have no placements.
#pragma once

#include <optional>
#include <vector>

#include "shardproof/engine/partition/op_choices.h"

namespace shardproof {

// Returns a rank and its shape if its shard has another shape than the spec gives it.
std::optional<LocalShape> misfit_shard(const Spec& spec, const std::vector<LocalShape>& actual);

// Returns the first spec that gives the ranks these shapes. Its placements differ from those of
// `plain` only on the axes `open`. nullopt if there is none, or if shapes do not determine it.
std::optional<Spec> spec_by_shapes(const Spec& plain, const std::vector<int>& open,
                                   const std::vector<LocalShape>& actual);

// Returns the specs for the kernel of one op inside `as`; nullopt if it counts from 0. `held` are
// the shapes of each input on the ranks. The specs of the results are omitted if no strategy of the
// rule has the inputs with their placements.
std::optional<ShardSpecs> specs_inside_as(const OpRecord& op, const Attrs& attrs,
                                          std::vector<PlacedValue> inputs,
                                          const std::vector<LocalShapes>& held, const Mesh& mesh);

}  // namespace shardproof
