// copy_strided: copies a box of elements between two strided layouts. Contiguous copies, splits,
// assemblies and reshuffles are all made of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shardproof/localtensor/base/dims.h"

namespace shardproof {

class DeviceMemory;

// Copies the elements of a box of `shape`. Strides are in elements; a source stride of 0 repeats an
// element. Requires that the two ranges do not overlap and no target element is written twice.
// Copies nothing if a size is 0.
void copy_strided(const std::byte* source, const Dims& source_strides, std::byte* target,
                  const Dims& target_strides, const Dims& shape, int64_t element_bytes);
// Copies between two addresses of a device in its current stream, with one device copy for each
// matrix of dense rows.
void copy_strided(DeviceMemory& memory, const std::byte* source, const Dims& source_strides,
                  std::byte* target, const Dims& target_strides, const Dims& shape,
                  int64_t element_bytes);

}  // namespace shardproof
