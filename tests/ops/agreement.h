// Agreement: how tests compare two computations of one value.
//
// To the bit: integers, bools, and floats that no operation rounds. -0 equals +0, and NaN NaN.
// Else the same mathematics is shown with all floats in f64 (`in_f64` of run_op.h). There a
// rounding is 2^-53 of what is rounded, and two orders of some thousand additions differ by less
// than 2^-40 of their largest term. A wrong rule, which leaves a part out, counts it twice or reads
// another shard, is off by a large share of a term: 2^-40 lies far from both. A run in narrower
// floats then only shows that no dtype is lost on the way: it lies within a few units in the last
// place of the size of its terms. A value that is not finite agrees with the same value only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof::testing {

inline constexpr double kF64Share = 0x1p-40;
inline constexpr double kUnits = 16;

// All numbers of a one-device value, both parts of complex ones.
std::vector<double> numbers_of(const Tensor& value);
// The largest finite number by size; 0 without any. Of a value on ranks: of all stored copies,
// parts of partial sums included.
double largest_number(const Tensor& value);
double largest_number(const LocalTensor& value);

// How far results of `dtype` may lie apart whose terms are as large as `size`: in f64 and c128 a
// share of it, else some units in its last place; 0 for integers and bool.
double room_in(DType dtype, double size, double units = kUnits);
// The same for one op that computes in its compute dtype and rounds its result to `dtype` once.
double room_computed_in(DType dtype, double size, double units = kUnits);

// "" when the values agree, else the first number that does not. `got` and `want` have one shape;
// where `want` has wider floats and is beyond the largest number of `got`, nothing is compared.
std::string difference(const Tensor& got, const Tensor& want,
                       const std::function<double(size_t)>& room);
std::string difference_in_bits(const Tensor& got, const Tensor& want);
// `terms`: the largest term of what is summed up, where it may be larger than all numbers of
// `want`.
std::string difference_in_value(const Tensor& got, const Tensor& want, double terms = 0);

}  // namespace shardproof::testing
