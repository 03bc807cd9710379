// Gemm: interface to a library of matrix products on a device, such as cuBLAS. Matrices are
// column-major, as in cuBLAS. result = alpha * a * b + bias, where each row has one bias.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shardproof/localtensor/dtype/dtype.h"
#include "shardproof/localtensor/dtype/matmul_precision.h"

namespace shardproof {

class DeviceMemory;

// A matrix, or a batch of them. Element (i, j) lies at i + j * leading, in elements from `start`.
// If `transposed`, the product reads element (i, j) as (j, i).
struct GemmMatrix {
  const std::byte* start = nullptr;
  bool transposed = false;
  int64_t leading = 0, batch_stride = 0;
};

inline constexpr uintptr_t kBiasAlignment = 16;  // bytes

struct GemmCall {
  int64_t rows = 0, columns = 0, depth = 0, batch = 1;
  GemmMatrix a, b;              // rows x depth and depth x columns, after transposing
  std::byte* result = nullptr;  // rows x columns
  int64_t leading = 0, batch_stride = 0;
  DType dtype = DType::f32;    // type of a, b, bias and result
  DType compute = DType::f32;  // f32 or f64: type of the sums, which are rounded once at the end
  bool leaves_sums = false;    // the result has the type `compute` and is not rounded
  double alpha = 1;
  // `rows` dense elements; null: no bias. `multiply` refuses a bias whose address is not a multiple
  // of kBiasAlignment. Kernels may read that many bytes at once and do not check the address.
  const std::byte* bias = nullptr;
};

class Gemm {
 public:
  explicit Gemm(MatmulPrecision precision) : precision_(precision) {}
  virtual ~Gemm() = default;
  MatmulPrecision precision() const { return precision_; }
  // Opens the library on the first call. Returns false if the library is not found.
  virtual bool open() = 0;
  // Enqueues the product in `stream`; a workspace comes from `memory` and is released in stream
  // order. Returns false, and enqueues nothing, if the library has no algorithm for the call.
  virtual bool multiply(const GemmCall& call, DeviceMemory& memory, void* stream) = 0;

 private:
  MatmulPrecision precision_;
};

}  // namespace shardproof
