// Tests the exhaustive search for right rules. It finds exactly the rules that are right; the draws
// refute those that hold for some numbers only.
#include <gtest/gtest.h>

#include <set>

#include "shardproof/engine/check_ops/candidates.h"
#include "shardproof/engine/check_ops/check_rules.h"
#include "shardproof/engine/check_ops/enumerate.h"
#include "shardproof/engine/check_ops/rule_case.h"
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
  PlacementTables tables;
  const CandidateResult found =
      search_candidates(draws_of_op(instance, {2}, 5),
                        std::vector<std::vector<Spec>>(inputs, placements), {placements}, tables);
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

// The search shares kernel calls and lanes between candidates; check_cases() judges each alone.
TEST(Candidates, OnTwoAxes_AreThoseThatAreRightOneByOne) {
  const OpRegistry ops = builtin_ops();
  const TensorMeta meta{DType::i64, {3, 4}};
  const OpInstance instance = instance_of(ops.at("neg"), {{}, {meta}, {}}, 3);
  const Mesh mesh = Mesh::parse("a=2, b=2");
  const std::vector<Spec> placements = all_placements(meta, mesh, {});
  std::set<std::pair<int32_t, int32_t>> right;
  PlacementTables tables;
  for (const RightRule& rule :
       search_candidates(draws_of_op(instance, {2}, 5), {placements}, {placements}, tables).right)
    right.insert({rule.inputs[0], rule.placement});
  EXPECT_GT(right.size(), placements.size());
  RuleCase rule;
  rule.op = "neg";
  rule.lines = {"y0 = neg(x0)"};
  rule.results = {"y0"};
  rule.inputs = {meta};
  rule.mesh = mesh;
  std::vector<CasePlacements> list;
  for (const Spec& in : placements)
    for (const Spec& out : placements)
      list.push_back({mesh, {in.placements()}, {out.placements()}, 1});
  const std::vector<ClaimAnswer> answers = check_cases(rule, list, ops, {2});
  const auto count = static_cast<int32_t>(placements.size());
  for (int32_t i = 0; i < count * count; ++i)
    EXPECT_EQ(answers[static_cast<size_t>(i)].kind == ClaimAnswer::Kind::holds,
              right.contains({i / count, i % count}))
        << to_string(placements[static_cast<size_t>(i / count)]) << " -> "
        << to_string(placements[static_cast<size_t>(i % count)]);
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
