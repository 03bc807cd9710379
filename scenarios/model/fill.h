// Fill: how a tensor of a scenario gets its values. Draws go by global element, in a stream named
// by the tensor, so no sharding changes a value.
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
  int64_t low = -4, high = 5;  // ints: `high` is not taken
  double a = 0, b = 0;         // constant: a; uniform: a, b; normal: mean, deviation
  std::vector<Number> values;  // row-major
  bool operator==(const Fill&) const = default;
};

// -4..4; 0..8 for u8; 0 and 1 for bool.
Fill default_fill(DType dtype);
// "ints(0, vocab)". Throws Error(bad_input) with a column: unknown fill, wrong arguments, a range
// the dtype cannot hold.
Fill parse_fill(const std::string& text, DType dtype, const NumberScope& scope);
// One element of `values`; Error(bad_input) when the dtype cannot hold it.
void check_element(const Number& value, DType dtype);

// The global tensor on one device.
Tensor fill_tensor(const Fill& fill, const std::string& name, DType dtype, const Dims& shape,
                   uint64_t seed);
// The value as the dtype holds it.
double rounded_to(double value, DType dtype);

}  // namespace shardproof
