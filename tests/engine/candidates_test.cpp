// Tests the exhaustive search for right rules. It finds exactly the rules that are right; the draws
// refute those that hold for some numbers only.
#include <gtest/gtest.h>

#include <set>

#include "shardproof/engine/check_ops/candidates.h"
#include "shardproof/engine/check_ops/check_rules.h"
#include "shardproof/engine/check_ops/enumerate.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof::candidates_test {
namespace {

// Returns the right rules of an op on i64[4, 6] and an axis of 2 ranks, as "P(max) R -> P(max)".
std::set<std::string> right_rules(const std::string& op, size_t inputs) {
  const OpRegistry ops = builtin_ops();
  Sample sample;
  for (size_t i = 0; i < inputs; ++i) sample.inputs.push_back({DType::i64, {4, 6}});
  const OpInstance instance = instance_of(ops.at(op), sample, 3);
  const Mesh mesh = Mesh::parse("a=2");
  EnumerateOptions options;
  options.strided = false;
  const std::vector<Spec> placements = all_placements(sample.inputs[0], mesh, options);
  EXPECT_EQ(placements.size(), 11u);
  const CandidateResult found =
      search_candidates(draws_of_op(instance, {2}, 5),
                        std::vector<std::vector<Spec>>(inputs, placements), {placements});
  std::set<std::string> rules;
  for (const RightRule& rule : found.right) {
    std::string text;
    for (const int32_t input : rule.inputs)
      text += to_string(placements[static_cast<size_t>(input)].placement(0)) + " ";
    rules.insert(text + "-> " +
                 to_string(placements[static_cast<size_t>(rule.placement)].placement(0)));
  }
  return rules;
}

// Rules of replicated inputs: the result is R, and partial under each idempotent reduction.
constexpr size_t kOfReplicas = 6;

TEST(Candidates, Add_HasExactlyItsRightRules) {
  const std::set<std::string> rules = right_rules("add", 2);
  EXPECT_EQ(rules.size(), 10 + kOfReplicas);
  for (const char* right :
       {"S(0) S(0) -> S(0)", "S(1) S(1) -> S(1)", "P(sum) P(sum) -> P(sum)",
        "P(avg) P(avg) -> P(avg)", "P(avg) R -> P(avg)", "R P(avg) -> P(avg)", "P(max) R -> P(max)",
        "R P(max) -> P(max)", "P(min) R -> P(min)", "R P(min) -> P(min)"})
    EXPECT_TRUE(rules.contains(right)) << right;
}

TEST(Candidates, ElementwiseOps_HaveAsManyRightRulesAsByHand) {
  EXPECT_EQ(right_rules("mul", 2).size(), 7 + kOfReplicas);
  EXPECT_EQ(right_rules("maximum", 2).size(), 7 + kOfReplicas);
  EXPECT_EQ(right_rules("bitwise_xor", 2).size(), 3 + kOfReplicas);
  EXPECT_EQ(right_rules("neg", 1).size(), 6 + kOfReplicas);
}

TEST(Candidates, OwnRules_AreAmongTheRightOnes) {
  const OpRegistry ops = builtin_ops();
  for (const char* op : {"matmul", "mul", "where"}) {
    const OpRecord& record = ops.at(op);
    const OpInstance instance = instance_of(record, record.samples().front(), 3);
    int64_t combinations = 0;
    missing_rules(instance, draws_of_op(instance, {2}, 5), combinations);
    EXPECT_GT(combinations, 100) << op;
  }
}

TEST(MissingRules, RuleWithoutOneStrategy_IsNamed) {
  const OpRegistry ops = builtin_ops();
  OpRecord record = ops.at("neg");
  const OpInstance whole = instance_of(record, {{}, {{DType::i64, {4, 6}}}, {}}, 3);
  int64_t combinations = 0;
  const auto count = [&](const OpInstance& instance) {
    return missing_rules(instance, draws_of_op(instance, {2}, 5), combinations).size();
  };
  const size_t before = count(whole);
  record.rule.strategies = [honest = record.rule.strategies](const OpCall& call,
                                                             const std::vector<TensorMeta>& outputs,
                                                             int64_t axis_size) {
    std::vector<Strategy> strategies = honest(call, outputs, axis_size);
    std::erase_if(strategies, [](const Strategy& s) { return s.inputs[0].is_shard(1); });
    return strategies;
  };
  const OpInstance without = instance_of(record, {{}, {{DType::i64, {4, 6}}}, {}}, 3);
  EXPECT_EQ(count(without), before + 2);  // S(1) and S(1, split=2)
}

}  // namespace
}  // namespace shardproof::candidates_test
