// Lowering an op of form `lower`: its rule writes other ops and redistributions in its place.
#pragma once

#include "shardproof/engine/partition/partitioner.h"

namespace shardproof {

std::vector<PlacedValue> lower_op(Partitioner& partitioner, const OpRecord& op, const OpCall& call,
                                  const std::vector<Spec>& specs,
                                  const std::vector<PlacedValue>& inputs);

}  // namespace shardproof
