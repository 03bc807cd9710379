// Safetensors: tensors in a file of the public format that PyTorch, JAX and others read: the length
// of the header in 8 bytes, little-endian, a JSON header of names, dtypes, shapes and offsets, and
// the elements, row-major, without holes. Complex numbers become pairs of reals in one more
// dimension, because the format does not know them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

struct NamedTensor {
  std::string name;
  Tensor tensor;  // dense, one device
};

// Names are unique. In order of size of element, then of names, so that elements are aligned.
std::string to_safetensors(const std::vector<NamedTensor>& tensors);
// In order of their offsets. Throws Error(bad_input) with the file for whatever is no such file,
// and Error(unsupported) for a dtype that is not ours.
std::vector<NamedTensor> parse_safetensors(std::string_view bytes, const std::string& file);

}  // namespace shardproof
