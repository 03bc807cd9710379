// Tests that factor notation gives the strategies that its letters state, and that the registry
// finds ops by name.
#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/op.h"

namespace shardproof::rule_test {
namespace {

TEST(Rule, Letters_GiveStrategies) {
  FactorOptions options;
  options.whole = "n";
  options.partials = joint_partial_rules({ReduceOp::sum}, {0});
  const std::vector<Strategy> strategies = factor_strategies("mk,kn->mn", options);
  ASSERT_EQ(strategies.size(), 3u);
  EXPECT_EQ(strategies[0].inputs, (std::vector<Placement>{S(0), R()}));
  EXPECT_EQ(strategies[0].outputs, (std::vector<Placement>{S(0)}));
  EXPECT_EQ(strategies[1].inputs, (std::vector<Placement>{S(1), S(0)}));
  EXPECT_EQ(strategies[1].outputs, (std::vector<Placement>{P(ReduceOp::sum)}));
  EXPECT_EQ(strategies[2].inputs, (std::vector<Placement>{P(ReduceOp::sum), R()}));
}

TEST(Registry, UnknownName_IsAnErrorWithTheNearestOp) {
  const OpRegistry ops = builtin_ops();
  EXPECT_EQ(ops.find("nothing"), nullptr);
  EXPECT_EQ(ops.find_infix("+")->name, "add");
  try {
    ops.at("sofmax");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("softmax"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace shardproof::rule_test
