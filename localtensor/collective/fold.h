// fold: the left fold of a reduction over flat, dense inputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

// Writes out[j] = inputs[0][first + j] op inputs[1][first + j] op ... for j in [0, count).
// `schedule` chooses between f32 accumulators for narrower floats and rounding after every
// addition.
void fold(const Reduction& reduction, ReductionSchedule schedule, DType dtype,
          const std::byte* const* inputs, int64_t members, int64_t first, int64_t count,
          std::byte* out);

// Folds in the order of the call's schedule, if that is not the order of the members.
void fold_in_order(const Collective& collective, const std::byte* const* inputs, int64_t first,
                   int64_t count, std::byte* out);

}  // namespace shardproof
