// The left fold of a reduction over flat, dense inputs, in cache tiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

// out[j] = inputs[0][j] op inputs[1][j] op ...; `count` elements from `first` on of each input.
void fold(const Reduction& reduction, ReductionSchedule schedule, DType dtype,
          const std::byte* const* inputs, int64_t members, int64_t first, int64_t count,
          std::byte* out);

// The same for a call whose schedule says another order than that of the members.
void fold_in_order(const Collective& collective, const std::byte* const* inputs, int64_t first,
                   int64_t count, std::byte* out);

}  // namespace shardproof
