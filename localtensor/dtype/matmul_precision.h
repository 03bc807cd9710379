// MatmulPrecision: the precision in which a device's library may multiply matrices. The words are
// those of PyTorch (torch.set_float32_matmul_precision).
#pragma once

#include <cstdint>

namespace shardproof {

enum class MatmulPrecision : uint8_t {
  highest,  // operands keep all bits; sums are f32 or f64
  high,     // tensor cores may read f32 as TF32, and sum products of 8-bit floats in 14 bits
};

}  // namespace shardproof
