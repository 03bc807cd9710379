// Fill: the values of a tensor in a scenario. A random value depends only on the seed, the name of
// the tensor and the index of the global element. So sharding never changes a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardproof/localtensor/tensor/tensor.h"
#include "shardproof/program/syntax/evaluate.h"

namespace shardproof {

enum class FillKind { ints, iota, constant, uniform, normal, values };

struct Fill {
  FillKind kind = FillKind::ints;
  int64_t low = -4, high = 5;          // ints: low <= x < high
  double a = 0, b = 0;                 // constant: a; uniform: a <= x < b; normal: mean, deviation
  std::vector<Number> values;          // row-major
  std::vector<double> imaginary = {};  // imaginary parts of `values`; empty: 0
  bool operator==(const Fill&) const = default;
};

// Returns the fill of a tensor that names none: whole numbers -4..4, 0..8 for u8, 0 and 1 for bool.
Fill default_fill(DType dtype);
// Parses a fill such as "ints(0, vocab)". Throws Error(bad_input) for an unknown fill, wrong
// arguments and a range outside the dtype.
Fill parse_fill(const std::string& text, DType dtype, const NumberScope& scope);
// Throws Error(bad_input) unless `value` is a number that the dtype can hold.
void check_element(const Number& value, DType dtype);

// Returns the global tensor. Requires `fill.values` of the size of `shape` for FillKind::values.
Tensor fill_tensor(const Fill& fill, const std::string& name, DType dtype, const Dims& shape,
                   uint64_t seed);
// Returns the value rounded to the dtype.
double rounded_to(double value, DType dtype);

}  // namespace shardproof
