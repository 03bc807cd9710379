// Checks the sharding rule of an op by brute force: each claim, on the op's samples and on other
// sizes, on several meshes.
//
// Sizes vary one dim at a time and all equal dims together, because a wrong rule may hold for equal
// sizes only. Example: torch's rule of gather is wrong where the index is smaller than the input
// on a dim that is not cut.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardproof/engine/check_ops/claims.h"

namespace shardproof {

struct RuleOptions {
  bool is_short = false;  // a few meshes, no other sizes: for tests of the whole registry
  uint64_t seed = 17;
};

// A claim that does not hold.
struct WrongClaim {
  OpInstance instance;
  RuleClaim claim;
  ClaimAnswer answer;
};

struct OpRuleReport {
  std::string op;
  int64_t combinations = 0;  // claims that were judged
  int64_t refused = 0;       // lowerings that take no such cuts on another axis
  int64_t undecided = 0;
  std::map<std::string, int64_t> reasons;          // number of undecided ones by reason
  std::map<std::string, int64_t> refused_reasons;  // number of refused ones by reason
  std::vector<WrongClaim> wrong;
};

std::vector<MeshChoice> rule_meshes(bool is_short);
// Returns the sample and the same call with other sizes that the op accepts.
std::vector<Sample> samples_of_other_sizes(const OpRecord& record, const Sample& sample);

// Composite ops have no rule of their own: their report is empty.
OpRuleReport check_rule(const OpRecord& record, const OpRegistry& ops, const RuleOptions& options);

// Returns the draws of check_ops.md (words, ordered, ties, ..) that apply to the call; may be none.
std::vector<RuleDraw> draws_of_op(const OpInstance& instance, const DrawCounts& counts,
                                  uint64_t seed);

}  // namespace shardproof
