// The table of `shardproof plan --matrix`: every redistribution between plain specs of one tensor
// (R and S, cut in mesh order). Each is planned by the planner and by three simpler algorithms.
#pragma once

#include <string>

#include "shardproof/localtensor/plan/planner.h"

namespace shardproof {

// Most pairs of specs that a table has.
inline constexpr int64_t kMostMatrixPairs = 20000;

// Returns a line for each pair, and for each simpler algorithm a line that compares its prices with
// the planner's. Throws Error(bad_input) if there are more than kMostMatrixPairs pairs.
std::string plan_matrix(const Mesh& mesh, const Dims& shape, DType dtype,
                        const PlannerOptions& options);

}  // namespace shardproof
