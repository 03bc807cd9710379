// PerRankNumber: a number of a listing that may have another value on each rank, such as `rank` or
// `index(tp)`.
#pragma once

#include <vector>

#include "shardproof/localtensor/base/lanes.h"
#include "shardproof/localtensor/dtype/dtype.h"
#include "shardproof/program/value/number.h"

namespace shardproof {

// One number for all lanes, or one for each lane of `lanes`.
struct PerRankNumber {
  Lanes lanes;
  std::vector<Number> values;
  bool uniform() const { return values.size() == 1; }
  const Number& on(int64_t rank) const {
    return uniform() ? values[0] : values[static_cast<size_t>(lanes.index_of(rank))];
  }
};

// Returns the dtype of the 0-d tensor that a number becomes among tensors: f64, i64 or bool.
inline DType dtype_of(const Number& number) {
  if (number.is_bool()) return DType::boolean;
  return number.is_double() ? DType::f64 : DType::i64;
}

}  // namespace shardproof
