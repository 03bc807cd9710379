// ChoiceMemory: the placements that ops of a partitioning took, so that a line like an earlier one
// is not compared again. A model of equal layers has few different lines. Internal to the engine.
//
// A choice depends on the op, its attributes, the metas and placements of its inputs, and the
// placements wanted for its results. It also depends on which inputs are one value, and on inputs
// that are numbers (parts of a sum may not be divided by 0).
#pragma once

#include <map>

#include "shardproof/engine/partition/op_choices.h"

namespace shardproof {

class ChoiceMemory {
 public:
  using Targets = std::vector<std::optional<Spec>>;

  // Returns the choice of an equal call before, or null.
  const PartitionedCall* find(const OpRecord& op, const OpCall& call,
                              const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                              const Targets& targets) const;
  const PartitionedCall& store(const OpRecord& op, const OpCall& call,
                               const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                               const Targets& targets, PartitionedCall choice);

 private:
  struct Known {
    Attrs attrs;
    std::vector<TensorMeta> metas;
    std::vector<std::optional<Spec>> specs;
    std::vector<std::optional<Number>> numbers;
    std::vector<size_t> same;  // for each input, the first one that is the same value
    Mesh mesh;
    Targets targets;
    PartitionedCall choice;
  };
  std::multimap<std::pair<const OpRecord*, uint64_t>, Known> known_;  // by op and hash of inputs
};

}  // namespace shardproof
