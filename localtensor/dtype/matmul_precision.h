// MatmulPrecision: in how many bits the library of a device may multiply matrices. The words are
// those of PyTorch (torch.set_float32_matmul_precision).
#pragma once

#include <cstdint>

namespace shardproof {

enum class MatmulPrecision : uint8_t {
  highest,  // operands as they are, their sums in f32 or f64
  high,     // tensor cores may take f32 as TF32, and 8-bit floats with sums of 14 bits
};

}  // namespace shardproof
