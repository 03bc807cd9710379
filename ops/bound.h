// How far two honest computations of one value may lie apart. A value is exact only when every step
// to it is provably exact; else it carries an elementwise absolute bound, propagated from its
// inputs' bounds by the op's `bound` entry, never a guessed tolerance.
//
// Model: t is the one-device value as computed, v the value in real arithmetic of the same exact
// inputs. |t - v| <= error, elementwise, for *any* order of summation and any cutting, each
// operation rounding to its compute type and the result to its dtype (Higham, Accuracy and
// Stability, ch. 3-4: gamma_n = n u / (1 - n u)). Two honest results then differ by at most 2 *
// error.
#pragma once

#include <vector>

#include "shardproof/localtensor/matmul_precision.h"
#include "shardproof/localtensor/tensor.h"
#include "shardproof/ops/rule.h"

namespace shardproof {

struct Bound {
  bool exact = true;
  // When exact: every element is a multiple of 2^grid; needed to tell whether sums stay exact.
  // 2000: all zero.
  int grid = 0;
  double magnitude = 0;       // largest |element| (finite ones)
  std::vector<double> error;  // when not exact: one per element, row-major; infinity = no statement
  // Of a value that may lie as partial sums: the sum of the sizes of its parts, per element. When
  // exact, odd multiples of the last bit that parts have. Empty: no more than the value itself.
  std::vector<double> reach;

  static Bound exact_of(const Tensor& value);  // measures grid and magnitude
};

struct BoundCall {
  const OpCall* call = nullptr;
  std::vector<const Tensor*> inputs;  // truth values, dense, one device; null when absent
  std::vector<const Bound*> input_bounds;
  std::vector<const Tensor*> outputs;  // truth results
  // How often a reduction may be cut and rounded to the wire dtype between partial sums.
  int64_t parts = 1;
  MatmulPrecision matmul = MatmulPrecision::highest;
};

// Of the last bit set in a finite number; 2000 for 0.
int last_bit_exponent(double x);
// Every multiple of 2^grid up to `magnitude` in size is a value of `dtype` (integers: always, they
// wrap).
bool representable(double magnitude, int grid, DType dtype);
// k roundings one after the other: k u / (1 - k u); infinity when k u >= 1.
double gamma(int64_t k, double u);
// A sum of `terms` products whose absolute sum per element is `absolute`, computed in compute_dtype
// and rounded to `dtype`: absolute error bound of one element. 0 when provably exact on `grid`.
double sum_error(double absolute, int64_t terms, int64_t parts, DType dtype, int grid);
// What fewer bits may do to a sum of `terms` products of operands of `dtype`, over `absolute`: 0 at
// the highest precision. TF32 has 10 bits behind the point and what follows may be cut off; sums of
// 8-bit floats keep 14 bits on Hopper (DeepSeek-V3 Technical Report, section 3.3.2).
double precision_error(MatmulPrecision matmul, int64_t terms, DType dtype);

// Building blocks for `bound` entries.
double error_of(const Bound& bound, int64_t element);  // 0 when exact
bool all_exact(const BoundCall& call);                 // of the inputs that are present
// The bound of a result from its elements' errors: exact when all are 0. Elements of an integer or
// bool result are either stable or unknown, so any error there becomes infinity.
Bound bound_from_errors(const Tensor& value, std::vector<double> errors);
// Of results that hang on which of several roundings an input has: nothing is said of any element.
std::vector<Bound> unknown_bounds(const BoundCall& call);
// One rounding of a value of size `magnitude` to dtype, and `ulps` roundings of its compute type
// before it.
double rounding_error(double magnitude, DType dtype, double ulps);

}  // namespace shardproof
