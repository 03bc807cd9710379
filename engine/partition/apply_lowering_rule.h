// Lowering an op of form `lower`: its rule writes other ops and redistributions in its place.
#pragma once

#include "shardproof/engine/partition/partitioner.h"

namespace shardproof {

std::vector<Placed> lower_op(Partitioner& partitioner, const OpRecord& op, const OpCall& call,
                             const std::vector<Spec>& specs, const std::vector<Placed>& inputs);

}  // namespace shardproof
