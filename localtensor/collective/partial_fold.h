// FoldPart: a reduction that several processes compute together. Members of one process are folded
// first (opening), partial results are combined (joining), and the result is finished once
// (closing). `whole` does all of it, as `reference` does.
//
// Example: avg of 1, 2, 3, 6 in two processes. Opening: 1 + 2 = 3 and 3 + 6 = 9. Joining: 3 + 9 =
// 12. Closing: 12 / 4 = 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

enum class FoldPart : uint8_t { whole, opening, joining, closing };

// Folds `inputs` left in order, elementwise, and rounds as the default ReductionSchedule does.
// Partial results are of `dtype`. `out` may be one of the inputs. `parties` is the number of
// members of the whole group.
void fold_part(FoldPart part, const Reduction& reduction, DType dtype,
               std::span<const std::byte* const> inputs, int64_t count, int64_t parties,
               std::byte* out);

}  // namespace shardproof
