// Bounds: what is exact is told from what is not, and factor notation gives the strategies its
// letters say.
#include <gtest/gtest.h>

#include <cmath>

#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/rng.h"
#include "shardproof/ops/bound.h"
#include "shardproof/ops/op.h"

namespace shardproof {
namespace {

TEST(Bound, MeasuresGridAndMagnitude) {
  const Bound bound = Bound::exact_of(tensor_of(DType::f32, {4}, {0, -2.5, 12, 0.125}));
  EXPECT_EQ(bound.grid, -3);
  EXPECT_EQ(bound.magnitude, 12);
  EXPECT_EQ(Bound::exact_of(tensor_of(DType::f32, {2}, {0, 0})).grid, 2000);
  EXPECT_EQ(Bound::exact_of(tensor_of(DType::i64, {2}, {24, -8})).grid, 3);
}

// representable says yes only where every such multiple survives the dtype, and no where the next
// one does not.
TEST(Bound, RepresentableIsTight) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
    const double edge = std::ldexp(1.0, precision_bits(dtype));
    const double grid = 0.25;
    EXPECT_TRUE(representable(edge * grid, -2, dtype));
    EXPECT_FALSE(representable(edge * grid + grid, -2, dtype));
    for (double x = 0; x <= std::min(edge, 1024.0); ++x)
      EXPECT_EQ(values_of(tensor_of(dtype, {1}, {x * grid}))[0], x * grid) << name(dtype);
    EXPECT_NE(values_of(tensor_of(dtype, {1}, {(edge + 1) * grid}))[0], (edge + 1) * grid)
        << name(dtype);
  }
}

// Sums in random orders stay within the bound of the sum in double.
TEST(Bound, SumsInAnyOrderStayWithinSumError) {
  const Rng rng(3, 0);
  uint64_t draw = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values;
    double exact = 0, absolute = 0;
    for (int i = 0; i < 100; ++i) {
      values.push_back(static_cast<float>(rng.normal(draw++)));
      exact += values.back();
      absolute += std::fabs(values.back());
    }
    while (values.size() > 1) {
      const auto i =
          static_cast<size_t>(rng.integer(draw++, 0, static_cast<int64_t>(values.size())));
      const float x = values[i];
      values.erase(values.begin() + static_cast<int64_t>(i));
      const auto j =
          static_cast<size_t>(rng.integer(draw++, 0, static_cast<int64_t>(values.size())));
      values[j] += x;
    }
    EXPECT_LE(std::fabs(values[0] - exact), sum_error(absolute, 100, 1, DType::f32, -5000));
  }
  EXPECT_EQ(sum_error(1000, 100, 4, DType::f32, 0), 0);
  EXPECT_GT(sum_error(1000, 100, 4, DType::bf16, 0), 0);
}

TEST(Rule, LettersGiveStrategies) {
  FactorOptions options;
  options.whole = "n";
  options.linear = {{{ReduceOp::sum}, {0}}};
  const std::vector<Strategy> strategies = factor_strategies("mk,kn->mn", options);
  ASSERT_EQ(strategies.size(), 3u);
  EXPECT_EQ(strategies[0].inputs, (std::vector<Placement>{S(0), R()}));
  EXPECT_EQ(strategies[0].outputs, (std::vector<Placement>{S(0)}));
  EXPECT_EQ(strategies[1].inputs, (std::vector<Placement>{S(1), S(0)}));
  EXPECT_EQ(strategies[1].outputs, (std::vector<Placement>{P(ReduceOp::sum)}));
  EXPECT_EQ(strategies[2].inputs, (std::vector<Placement>{P(ReduceOp::sum), R()}));
}

TEST(Registry, NamesTheNearestOp) {
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
}  // namespace shardproof
