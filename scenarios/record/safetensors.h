// Safetensors: tensors in a file of the public format that PyTorch, JAX and others read.
//
//   bytes            field
//   0 .. 7           length N of the header, little-endian unsigned integer
//   8 .. 8+N-1       header: a JSON object from tensor name to {"dtype": "F32", "shape": [2, 3],
//                    "data_offsets": [first, last]}; padded with spaces; "__metadata__" is ignored
//   8+N ..           elements of all tensors, row-major, without gaps; offsets count from here
//
// c64 and c128 are written as F32 and F64 with one more dim of size 2, because the format has no
// complex dtypes.
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

// Returns the bytes of a file. Tensors are in order of element size, largest first, then of names,
// which aligns all elements. Requires unique names and dense tensors.
std::string to_safetensors(const std::vector<NamedTensor>& tensors);
// Returns the tensors in order of their offsets. Throws Error(bad_input) with the file if it is
// malformed and Error(unsupported) for an unknown dtype.
std::vector<NamedTensor> parse_safetensors(std::string_view bytes, const std::string& file);

}  // namespace shardproof
