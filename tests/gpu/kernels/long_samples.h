// Samples with lines so long that many threads share one, or that a thread folds in several ways.
#pragma once

#include <utility>

#include "shardproof/ops/core/op.h"

namespace shardproof::testing {

// The names of ops, and calls of them.
std::vector<std::pair<std::string, Sample>> long_samples();

}  // namespace shardproof::testing
