// The innermost loop of every contraction: one tile of a product, from packed rows, and from
// columns that are packed or lie in the operand.
//
// Order of additions, on which all results of the matmul family depend: an element of the product
// starts at zero. Its terms are added in ascending order of the summed index, one at a time. Each
// product and each sum is rounded to the compute type; nothing is fused. An element's bits
// therefore depend on its own row and column only. They do not depend on the tile, the number of
// lanes, the sharding of rows and columns, or the vector width.
#pragma once

#include <complex>
#include <cstdint>

namespace shardproof {

// Computes one tile: a is [depth][kMicroRows]; row k of b, `columns` numbers, begins at b + k *
// step. Stores row i of the tile, `columns` numbers, from rows[i] on.
template <typename T>
using MicroGemm = void (*)(const T* a, const T* b, int64_t step, int64_t depth, T* const* rows);

// Computes one row of a product of short sums, straight from the operands: result[n] is the sum
// over k of factors[k] * rows[k][n].
template <typename T>
using MicroRow = void (*)(const T* factors, const T* const* rows, int64_t depth, int64_t columns,
                          T* result);

template <typename T>
struct MicroKernel {
  MicroGemm<T> run = nullptr;
  int columns = 0;
  MicroRow<T> run_row = nullptr;
};

// Returns one term. A complex product is the textbook one, without the C library's recovery of
// infinities.
template <typename T>
inline T micro_product(T x, T y) {
  return x * y;
}
template <typename T>
inline std::complex<T> micro_product(std::complex<T> x, std::complex<T> y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

inline constexpr int kMicroRows = 4;
inline constexpr int kMaxMicroColumns = 16;

// Returns the fastest kernel for this machine; all give the same bits. T: float, double, uint64_t
// (integers modulo 2^64), std::complex<float>, std::complex<double>.
template <typename T>
MicroKernel<T> micro_gemm();
template <>
MicroKernel<float> micro_gemm();
template <>
MicroKernel<double> micro_gemm();
template <>
MicroKernel<uint64_t> micro_gemm();
template <>
MicroKernel<std::complex<float>> micro_gemm();
template <>
MicroKernel<std::complex<double>> micro_gemm();

}  // namespace shardproof
