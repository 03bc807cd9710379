// Compares what a run found with the `expect` of its scenario.
#pragma once

#include <string>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/model/expect.h"

namespace shardproof {

// One expectation that is not met.
struct ExpectationFailure {
  std::string what, expected, got;  // "calls of all_gather tp by ranks 0-7", "1", "2"
  bool operator==(const ExpectationFailure&) const = default;
};

// Returns all expectations that `outcome` does not meet; empty if it meets all.
std::vector<ExpectationFailure> unmet_expectations(const Expect& expect, const Outcome& outcome,
                                                   const Job& job);
// Returns the same for a run that was refused with `error`.
std::vector<ExpectationFailure> unmet_expectations(const Expect& expect, const Error& error);

}  // namespace shardproof
