// The one loop that moves elements between two layouts: contiguous copies, splits, assemblies and
// reshuffles are all made of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shardproof/localtensor/base/dims.h"

namespace shardproof {

// Copies the elements of a box of `shape`; strides are in elements, 0 in the source repeats. The
// two ranges must not overlap, and an element of the target must not be written twice.
void copy_strided(const std::byte* source, const Dims& source_strides, std::byte* target,
                  const Dims& target_strides, const Dims& shape, int64_t element_bytes);

}  // namespace shardproof
