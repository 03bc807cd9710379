// Applies the lowering rule of an op: other ops and redistributions take the place of the op. An op
// is lowered if the shards of its inputs need it; an example is softmax over a cut dim.
#pragma once

#include "shardproof/engine/partition/partitioner.h"

namespace shardproof {

// Emits what the rule's `lower` writes and returns the op's results. `specs` are the specs of the
// inputs. Throws Error(bad_input) if the rule refuses them.
std::vector<PlacedValue> lower_op(Partitioner& partitioner, const OpRecord& op, const OpCall& call,
                                  const std::vector<Spec>& specs,
                                  const std::vector<PlacedValue>& inputs);

}  // namespace shardproof
