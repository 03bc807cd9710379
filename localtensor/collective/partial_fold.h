// FoldPart: a reduction made in several places. Members that lie together are folded first
// (opening), partial results meet in any order (joining), and the answer is finished once
// (closing): what `reference` does in one go (whole).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

enum class FoldPart : uint8_t { whole, opening, joining, closing };

// Folds `inputs` left in order, elementwise, rounding as the default ReductionSchedule; partial
// results are of `dtype`. `out` may be one of the inputs. `parties`: members of the whole group.
void fold_part(FoldPart part, const Reduction& reduction, DType dtype,
               std::span<const std::byte* const> inputs, int64_t count, int64_t parties,
               std::byte* out);

}  // namespace shardproof
