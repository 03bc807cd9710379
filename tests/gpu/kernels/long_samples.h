// Samples with lines so long that many threads share one, or that a thread folds in several parts.
#pragma once

#include <utility>

#include "shardproof/ops/core/op.h"

namespace shardproof::testing {

// Pairs of an op's name and a sample.
std::vector<std::pair<std::string, Sample>> long_samples();

}  // namespace shardproof::testing
