// Agreement: how tests compare two computations of one value.
//
//   bit-equal   integers, bools, and floats that no operation rounds; -0 equals +0, NaN equals NaN
//   in f64      all floats in f64 (`in_f64` of op_instance.h): differences below 2^-40 of a term
//   own dtype   differences of a few units in the last place of the terms' size
//
// In f64 a rounding is 2^-53 of the rounded value. So two orders of some thousand additions differ
// by less than 2^-40 of their largest term. A wrong rule leaves a part out, counts it twice or
// reads another shard; its error is a large share of a term. A run in narrower floats then only
// shows that no dtype is lost. A value that is not finite agrees with the same value only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof::testing {

inline constexpr double kF64Share = 0x1p-40;
inline constexpr double kUnits = 16;

// Returns all numbers of a one-device value; both parts of complex ones.
std::vector<double> numbers_of(const Tensor& value);
// Returns the largest finite number by size, or 0 if there is none. For a value on ranks it covers
// all stored copies, parts of partial sums included.
double largest_number(const Tensor& value);
double largest_number(const LocalTensor& value);

// Returns the tolerance for results of `dtype` whose terms have the size `size`. In f64 and c128 it
// is a share of `size`, in other floats some units in its last place, for integers and bool 0.
double room_in(DType dtype, double size, double units = kUnits);
// Returns the same for one op that computes in its compute dtype and rounds its result to `dtype`
// once.
double room_computed_in(DType dtype, double size, double units = kUnits);

// Returns "" if the values agree, else the first number that does not. `got` and `want` have one
// shape. Numbers of a wider `want` beyond the range of `got` are not compared.
std::string difference(const Tensor& got, const Tensor& want,
                       const std::function<double(size_t)>& room);
std::string difference_in_bits(const Tensor& got, const Tensor& want);
// `terms` is the size of the largest term of a sum, if it may exceed all numbers of `want`.
std::string difference_in_value(const Tensor& got, const Tensor& want, double terms = 0);

}  // namespace shardproof::testing
