// Makes the record of a value from the tensors of its ranks (recorded_value.h).
#pragma once

#include <optional>
#include <vector>

#include "shardproof/engine/job/recorded_value.h"
#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Returns the record of a value, without its measured rounding. `value` holds the tensors of all
// ranks, partial sums unreduced.
RecordedValue record_value(const SpmdValue& info, const std::optional<Spec>& spec,
                           const LocalTensor& value);

// Returns each stored copy once with the ranks that hold it, in order of their first ranks.
std::vector<RecordedShard> stored_parts(const LocalTensor& value);

}  // namespace shardproof
