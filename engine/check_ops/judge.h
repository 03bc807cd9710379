// judge(): decides whether the results of all ranks, placed as a rule claims, are the value that
// one device has.
//
//   integers, bool   equal modulo the dtype's range
//   floats           three answers: agrees below `Limits::agree`, differs above `Limits::differ`,
//                    unclear between; the caller draws other numbers then
//
// For an average the reduced sum is compared with the whole times the number of ranks, so that
// integers need no division. NaN equals NaN, -0 equals +0.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shardproof/engine/check_ops/slices.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

enum class Agreement : uint8_t { agrees, unclear, differs };

struct Limits {  // absolute errors
  double agree = 0, differ = 0;
};

// The dense results of all ranks for one output.
struct RankResults {
  DType dtype = DType::f32;
  std::vector<const std::byte*> data;  // by rank
};

// The first element that does not agree.
struct Disagreement {
  int64_t position = 0;          // row-major in the global tensor
  std::vector<int32_t> ranks;    // whose parts make it up
  std::string parts, got, want;  // numbers as text
};

// Compares until the first element that differs; if none does, returns the worst answer. Fills
// `first` if it is given. Requires that rank r's result has the shape slices.shapes[r].
Agreement judge(const Slices& slices, const RankResults& results, const Tensor& whole,
                const Limits& limits, Disagreement* first = nullptr);

}  // namespace shardproof
