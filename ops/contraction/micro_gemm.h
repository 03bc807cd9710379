// The innermost loop of every contraction: one tile of a product, from packed panels.
//
// Summation order (the contract every result of the matmul family rests on): an element of the
// product starts at zero and adds its terms in ascending order of the summed index, one at a time,
// each product and each sum rounded to the compute type; nothing is fused. So an element's bits
// depend on its own row and column only: not on the tile it falls in, the number of lanes, the
// sharding of rows and columns, or the vector width.
#pragma once

#include <complex>
#include <cstdint>

namespace shardproof {

// a is [depth][kRows], b is [depth][columns]; tile is [kRows][columns], overwritten.
template <typename T>
using MicroGemm = void (*)(const T* a, const T* b, int64_t depth, T* tile);

// One row of a product of short sums, straight from the operands: result[n] is the sum over k of
// factors[k] * rows[k][n].
template <typename T>
using MicroRow = void (*)(const T* factors, const T* const* rows, int64_t depth, int64_t columns,
                          T* result);

template <typename T>
struct MicroKernel {
  MicroGemm<T> run = nullptr;
  int columns = 0;
  MicroRow<T> run_row = nullptr;
};

// One term. A complex product is the textbook one, without the library's recovery of infinities.
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

// The fastest one for this machine; all give the same bits. T: float, double, uint64_t (integers
// modulo 2^64), std::complex<float>, std::complex<double> (textbook product, no recovery of
// infinities).
template <typename T>
MicroKernel<T> micro_gemm();

}  // namespace shardproof
