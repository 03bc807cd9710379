// LaneNumber: a number of a listing, where ranks may differ in it.
#pragma once

#include <vector>

#include "shardproof/localtensor/lanes.h"
#include "shardproof/program/number.h"

namespace shardproof {

// One for all lanes, or one per lane of `lanes`.
struct LaneNumber {
  Lanes lanes;
  std::vector<Number> values;
  bool uniform() const { return values.size() == 1; }
  const Number& on(int64_t rank) const {
    return uniform() ? values[0] : values[static_cast<size_t>(lanes.index_of(rank))];
  }
};

}  // namespace shardproof
