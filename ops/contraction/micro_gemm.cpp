// Implements ops/contraction/micro_gemm.h: vector kernels for f32 and f64 (AVX2 where the CPU has
// it), plain loops for integers and complex numbers.
#include "shardproof/ops/contraction/micro_gemm.h"

namespace shardproof {
namespace {

// A vector of 32 bytes; compilers split it if registers are narrower. It may be read and written at
// any element's address.
template <typename T>
struct WideVector {
  typedef T type __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
  static constexpr int kCount = 32 / sizeof(T);
};

// The type of the vectors is not a template argument, because compilers deduce it without its
// alignment.
template <int kVectors, typename T>
inline __attribute__((always_inline)) void store_vectors(T* row,
                                                         const typename WideVector<T>::type& low,
                                                         const typename WideVector<T>::type& high) {
  auto* const target = reinterpret_cast<typename WideVector<T>::type*>(row);
  target[0] = low;
  if constexpr (kVectors == 2) target[1] = high;
}

// One or two vectors of each of four rows. The sums have names, because compilers keep arrays of
// them in memory.
template <typename T, int kVectors>
inline __attribute__((always_inline)) void multiply_wide(const T* a, const T* b, int64_t step,
                                                         int64_t depth, T* const* rows) {
  static_assert(kMicroRows == 4 && (kVectors == 1 || kVectors == 2));
  using V = typename WideVector<T>::type;
  V low0 = {}, low1 = {}, low2 = {}, low3 = {}, high0 = {}, high1 = {}, high2 = {}, high3 = {};
  for (int64_t k = 0; k < depth; ++k) {
    const V* right = reinterpret_cast<const V*>(b);
    const V low = right[0];
    low0 += low * a[0];
    low1 += low * a[1];
    low2 += low * a[2];
    low3 += low * a[3];
    if constexpr (kVectors == 2) {
      const V high = right[1];
      high0 += high * a[0];
      high1 += high * a[1];
      high2 += high * a[2];
      high3 += high * a[3];
    }
    a += kMicroRows;
    b += step;
  }
  store_vectors<kVectors>(rows[0], low0, high0);
  store_vectors<kVectors>(rows[1], low1, high1);
  store_vectors<kVectors>(rows[2], low2, high2);
  store_vectors<kVectors>(rows[3], low3, high3);
}

template <typename T>
inline __attribute__((always_inline)) void row_plain(const T* factors, const T* const* rows,
                                                     int64_t depth, int64_t first, int64_t columns,
                                                     T* result) {
  for (int64_t n = first; n < columns; ++n) {
    T sum{};
    for (int64_t k = 0; k < depth; ++k) sum += micro_product(factors[k], rows[k][n]);
    result[n] = sum;
  }
}

// Keeps the sums of several columns in registers over all terms.
template <typename T>
inline __attribute__((always_inline)) void row_wide(const T* factors, const T* const* rows,
                                                    int64_t depth, int64_t columns, T* result) {
  using V = typename WideVector<T>::type;
  constexpr int kVectors = 4;
  constexpr int64_t kStretch = kVectors * WideVector<T>::kCount;
  int64_t first = 0;
  for (; first + kStretch <= columns; first += kStretch) {
    V sums[kVectors] = {};
    for (int64_t k = 0; k < depth; ++k) {
      const V* source = reinterpret_cast<const V*>(rows[k] + first);
      for (int v = 0; v < kVectors; ++v) sums[v] += source[v] * factors[k];
    }
    V* target = reinterpret_cast<V*>(result + first);
    for (int v = 0; v < kVectors; ++v) target[v] = sums[v];
  }
  row_plain(factors, rows, depth, first, columns, result);
}

template <typename T>
void row_narrow_machine(const T* factors, const T* const* rows, int64_t depth, int64_t columns,
                        T* result) {
  row_wide(factors, rows, depth, columns, result);
}

template <typename T>
void multiply_narrow_machine(const T* a, const T* b, int64_t step, int64_t depth, T* const* rows) {
  multiply_wide<T, 1>(a, b, step, depth, rows);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void multiply_avx(const float* a, const float* b, int64_t step,
                                                  int64_t depth, float* const* rows) {
  multiply_wide<float, 2>(a, b, step, depth, rows);
}
__attribute__((target("avx2"))) void row_avx(const float* factors, const float* const* rows,
                                             int64_t depth, int64_t columns, float* result) {
  row_wide(factors, rows, depth, columns, result);
}
__attribute__((target("avx2"))) void multiply_avx(const double* a, const double* b, int64_t step,
                                                  int64_t depth, double* const* rows) {
  multiply_wide<double, 2>(a, b, step, depth, rows);
}
__attribute__((target("avx2"))) void row_avx(const double* factors, const double* const* rows,
                                             int64_t depth, int64_t columns, double* result) {
  row_wide(factors, rows, depth, columns, result);
}
#endif

template <typename T>
MicroKernel<T> vector_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return {multiply_avx, 2 * WideVector<T>::kCount, row_avx};
#endif
  return {multiply_narrow_machine<T>, WideVector<T>::kCount, row_narrow_machine<T>};
}

constexpr int kPlainColumns = 4;

template <typename T>
void multiply_plain(const T* a, const T* b, int64_t step, int64_t depth, T* const* rows) {
  T sums[kMicroRows][kPlainColumns] = {};
  for (int64_t k = 0; k < depth; ++k) {
    for (int i = 0; i < kMicroRows; ++i)
      for (int j = 0; j < kPlainColumns; ++j) sums[i][j] += micro_product(a[i], b[j]);
    a += kMicroRows;
    b += step;
  }
  for (int i = 0; i < kMicroRows; ++i)
    for (int j = 0; j < kPlainColumns; ++j) rows[i][j] = sums[i][j];
}

template <typename T>
void row_any(const T* factors, const T* const* rows, int64_t depth, int64_t columns, T* result) {
  row_plain(factors, rows, depth, 0, columns, result);
}

}  // namespace

template <>
MicroKernel<float> micro_gemm() {
  return vector_kernel<float>();
}
template <>
MicroKernel<double> micro_gemm() {
  return vector_kernel<double>();
}
template <>
MicroKernel<uint64_t> micro_gemm() {
  return {multiply_plain<uint64_t>, kPlainColumns, row_any<uint64_t>};
}
template <>
MicroKernel<std::complex<float>> micro_gemm() {
  return {multiply_plain<std::complex<float>>, kPlainColumns, row_any<std::complex<float>>};
}
template <>
MicroKernel<std::complex<double>> micro_gemm() {
  return {multiply_plain<std::complex<double>>, kPlainColumns, row_any<std::complex<double>>};
}

}  // namespace shardproof
