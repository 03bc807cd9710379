// Gemm: matrix products on a device by a library of its maker, in that library's terms:
// matrices are column-major, and a product is result = alpha * a b, plus a bias for each row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shardproof/localtensor/dtype/dtype.h"
#include "shardproof/localtensor/dtype/matmul_precision.h"

namespace shardproof {

class DeviceMemory;

// Element (i, j) lies at i + j * leading, in elements; `transposed`: it is read as (j, i).
struct GemmMatrix {
  const std::byte* start = nullptr;
  bool transposed = false;
  int64_t leading = 0, batch_stride = 0;
};

inline constexpr uintptr_t kBiasAlignment = 16;  // bytes

struct GemmCall {
  int64_t rows = 0, columns = 0, depth = 0, batch = 1;
  GemmMatrix a, b;              // rows x depth and depth x columns, as they are read
  std::byte* result = nullptr;  // rows x columns
  int64_t leading = 0, batch_stride = 0;
  DType dtype = DType::f32;    // of a, b, bias and result
  DType compute = DType::f32;  // sums are kept so, and rounded once at the end: f32 or f64
  bool leaves_sums = false;    // the result is of the type `compute`, not rounded
  double alpha = 1;
  // `rows` elements, dense; null: none. Where it begins at no multiple of kBiasAlignment nothing is
  // multiplied: kernels may read so much of it at once, and nothing tells a library where it lies.
  const std::byte* bias = nullptr;
};

class Gemm {
 public:
  explicit Gemm(MatmulPrecision precision) : precision_(precision) {}
  virtual ~Gemm() = default;
  MatmulPrecision precision() const { return precision_; }
  // Opens the library, when nobody has. False: there is none.
  virtual bool open() = 0;
  // In the stream, with memory that is given back behind it. False: the library has nothing for
  // this call, and nothing was asked of the stream.
  virtual bool multiply(const GemmCall& call, DeviceMemory& memory, void* stream) = 0;

 private:
  MatmulPrecision precision_;
};

}  // namespace shardproof
