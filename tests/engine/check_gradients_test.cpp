// Checks the gradients of all ops with engine/check_ops/check_gradients.h, in its short form.
// Gradients that are made wrong on purpose must fail, each at a sample of its op.
#include "shardproof/engine/check_ops/check_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::testing::check_gradients_test {
namespace {

std::string text_of(const WrongGradient& wrong) {
  std::string text;
  for (const std::string& line : wrong.rule.lines) text += "\n    " + line;
  text += "\n    on " + to_string(wrong.rule.mesh);
  for (const auto* tensors : {&wrong.rule.in, &wrong.rule.out}) {
    text += tensors == &wrong.rule.in ? "\n    in " : "\n    out";
    for (const std::vector<Placement>& by_axis : *tensors) {
      text += " |";
      for (const Placement& p : by_axis) text += " " + to_string(p);
    }
  }
  return text + fmt::format("\n    {} result {}, position {}: {} give {}, expected {}",
                            wrong.answer.trouble, wrong.answer.output, wrong.answer.first.position,
                            wrong.answer.first.parts, wrong.answer.first.got,
                            wrong.answer.first.want);
}

RuleOptions short_form() {
  RuleOptions options;
  options.is_short = true;
  return options;
}

class GradientLaws : public ::testing::TestWithParam<int> {};

constexpr int kParts = 8;  // of the registry, so that shards share the work

TEST_P(GradientLaws, EveryOp_FormulaAndDualLawHold) {
  const OpRegistry ops = builtin_ops();
  int at = 0;
  int64_t judged = 0, undecided = 0;
  for (const OpRecord* record : ops.all()) {
    if (at++ % kParts != GetParam()) continue;
    const GradientReport report = check_gradient(*record, ops, short_form());
    judged += report.combinations;
    undecided += report.undecided;
    if (!report.wrong.empty())
      ADD_FAILURE() << record->name << ": " << report.wrong.size() << " of " << report.combinations
                    << text_of(report.wrong.front());
  }
  EXPECT_GT(judged, 100);
  EXPECT_EQ(undecided, 0);
}

INSTANTIATE_TEST_SUITE_P(Registry, GradientLaws, ::testing::Range(0, kFewDraws ? 2 : kParts));

using Mutate = std::function<FormulaTerm(Gradient&, const FormulaTerm&)>;

// Returns the report of an op of which the gradient by its first float input is mutated.
// Samples are those of the op to which `keeps` applies.
GradientReport report_of_mutated(
    const std::string& name, const Mutate& mutate, const RuleOptions& options = short_form(),
    const std::function<bool(const Sample&)>& keeps = [](const Sample&) { return true; }) {
  const OpRegistry honest = builtin_ops();
  OpRegistry ops;
  for (const OpRecord* record : honest.all()) {
    OpRecord copy = *record;
    if (copy.name == name)
      copy.gradient = [rule = record->gradient, mutate](const OpCall& call,
                                                        GradientBuilder& builder) {
        std::vector<int> handles = rule(call, builder);
        Gradient gradient(call, builder);
        for (int& handle : handles) {
          if (handle == kAbsent) continue;
          handle = mutate(gradient, {&builder, handle}).handle;
          break;
        }
        return handles;
      };
    ops.add(std::move(copy));
  }
  OpRecord mutated = ops.at(name);
  std::vector<Sample> samples = mutated.samples();
  std::erase_if(samples, [&](const Sample& sample) { return !keeps(sample); });
  mutated.samples = [samples = std::move(samples)] { return samples; };
  return check_gradient(mutated, ops, options);
}

FormulaTerm as_it_is(Gradient&, const FormulaTerm& x) { return x; }
FormulaTerm twice(Gradient&, const FormulaTerm& x) { return x * 2; }
FormulaTerm negated(Gradient&, const FormulaTerm& x) { return -x; }
FormulaTerm off_by_a_thousandth(Gradient&, const FormulaTerm& x) { return x * 1.001; }
FormulaTerm shifted(Gradient&, const FormulaTerm& x) { return x + 1e-4; }
FormulaTerm not_a_number(Gradient&, const FormulaTerm& x) { return x * std::nan(""); }
FormulaTerm lower_triangle(Gradient& g, const FormulaTerm& x) { return g.op("tril", {x}); }
// Wrong if a dim of an input has one element, for which 0 is the only legal index.
template <int kInput, int kDim>
FormulaTerm twice_for_one(Gradient& g, const FormulaTerm& x) {
  const Dims& shape = g[kInput].shape();
  return shape.size() > kDim && shape[kDim] == 1 ? x * 2 : x;
}

struct Planted {
  const char* op;
  FormulaTerm (*mutate)(Gradient&, const FormulaTerm&);
};

class PlantedGradients : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedGradients, WrongGradient_IsFound) {
  const Planted planted = GetParam();
  EXPECT_FALSE(report_of_mutated(planted.op, planted.mutate).wrong.empty()) << planted.op;
}

// EveryOp_FormulaAndDualLawHold judges the honest gradients of the planted ops; this is the
// mutation without an error.
TEST(PlantedGradients, MutationThatChangesNothing_IsNotFound) {
  EXPECT_TRUE(report_of_mutated("tanh", as_it_is).wrong.empty());
}

INSTANTIATE_TEST_SUITE_P(
    ByHand, PlantedGradients,
    ::testing::Values(Planted{"mul", twice}, Planted{"matmul", negated},
                      Planted{"softmax", shifted}, Planted{"exp", twice},
                      Planted{"mean", off_by_a_thousandth}, Planted{"layer_norm", shifted},
                      Planted{"sum", twice}, Planted{"cumsum", negated},
                      Planted{"tanh", off_by_a_thousandth}, Planted{"tanh", not_a_number},
                      Planted{"logsumexp", shifted}, Planted{"cummax", twice}));

// Gradients that are wrong for one size only. The samples of other sizes find them if their numbers
// fit these sizes: indices below 1, and positive definite matrices.
class PlantedAtOneSize : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedAtOneSize, WrongGradient_IsFound) {
  if (kFewDraws) GTEST_SKIP() << "all sizes take long under sanitizers";
  const Planted planted = GetParam();
  EXPECT_TRUE(report_of_mutated(planted.op, as_it_is, {}).wrong.empty()) << planted.op;
  EXPECT_FALSE(report_of_mutated(planted.op, planted.mutate, {}).wrong.empty()) << planted.op;
}

INSTANTIATE_TEST_SUITE_P(Six, PlantedAtOneSize,
                         ::testing::Values(Planted{"embedding", twice_for_one<1, 0>},
                                           Planted{"index_select", twice_for_one<0, 1>},
                                           Planted{"take_along_dim", twice_for_one<0, 1>},
                                           Planted{"scatter_along_dim", twice_for_one<0, 1>},
                                           Planted{"nll_loss", twice_for_one<0, 1>},
                                           Planted{"cholesky", lower_triangle}));

GradientReport report_with_sample(const std::string& name, const Sample& sample) {
  const OpRegistry ops = builtin_ops();
  OpRecord record = ops.at(name);
  record.samples = [sample] { return std::vector<Sample>{sample}; };
  return check_gradient(record, ops, short_form());
}

TEST(GradientLaws, CholeskyOfLargerMatrices_IsDecidedAlongSymmetricDirections) {
  const Sample sample{{}, {{DType::f64, {2, 4, 4}}}, {kDefiniteFill}, "not symmetric"};
  const GradientReport report = report_with_sample("cholesky", sample);
  EXPECT_TRUE(report.wrong.empty());
  EXPECT_EQ(report.undecided, 0);
  Sample without_fill = sample;
  without_fill.fills = {"uniform(0.5, 2)"};
  EXPECT_GT(report.combinations, report_with_sample("cholesky", without_fill).combinations);
}

// A loss of one class is 0. Under S(1) a rank has no class, and all its labels are ignored.
TEST(GradientLaws, LossOfOneClass_HasTheGradientZeroOnEachShard) {
  TensorMeta absent;
  absent.absent = true;
  for (const char* reduction : {"none", "sum", "mean"}) {
    const Sample sample{{{"ignore_index", int64_t{-1}},
                         {"reduction", std::string(reduction)},
                         {"label_smoothing", 0.1}},
                        {{DType::f64, {6, 1}}, {DType::i64, {6}}, absent},
                        {"uniform(-2, 2)", "ints(0, 1)", ""}};
    const GradientReport report = report_with_sample("cross_entropy", sample);
    for (const WrongGradient& wrong : report.wrong) ADD_FAILURE() << text_of(wrong);
    EXPECT_GT(report.combinations, 0);
    EXPECT_EQ(report.undecided, 0);
  }
}

// The result for rows of one element is 0 whatever the numbers are, so wrong placements are right
// on most numbers.
TEST(GradientLaws, RulesThatHoldByZerosAlone_HaveNoDuals) {
  TensorMeta absent;
  absent.absent = true;
  const Sample rows{{},
                    {{DType::f32, {4, 1}}, {DType::f32, {4, 1}}, absent},
                    {"uniform(-1, 1)", "uniform(-2, 2)", ""}};
  for (uint64_t seed = 17; seed < 20; ++seed) {
    const OpRegistry ops = builtin_ops();
    OpRecord record = ops.at("layer_norm_grad");
    record.samples = [rows] { return std::vector<Sample>{rows}; };
    RuleOptions options = short_form();
    options.seed = seed;
    for (const WrongGradient& wrong : check_gradient(record, ops, options).wrong)
      ADD_FAILURE() << "seed " << seed << text_of(wrong);
  }
}

// A decomposition that states a gradient of its own, as clamp does.
TEST(GradientLaws, OwnGradientOfADecomposition_IsJudged) {
  const auto report_of = [](int factor) {
    OpRegistry ops = builtin_ops();
    ops.add(with_gradient(
        formula({"own_square", "test", "x * x"}, {params::tensor("x")},
                [](Formula& f) { return FormulaTerms{f[0] * f[0]}; }, {f32_sample({{4, 3}})}),
        gradients({[factor](Gradient& g) { return g.dy() * g[0] * factor; }})));
    return check_gradient(ops.at("own_square"), ops, short_form());
  };
  EXPECT_GT(report_of(2).combinations, 0);
  EXPECT_TRUE(report_of(2).wrong.empty());
  EXPECT_FALSE(report_of(1).wrong.empty());
  EXPECT_GT(check_gradient(builtin_ops().at("clamp"), builtin_ops(), short_form()).combinations, 0);
}

TEST(GradientLaws, FiniteGradientOfAResultThatIsNotFinite_IsUndecidedWithAReason) {
  const auto zero = [](Gradient& g, const FormulaTerm&) { return g.op("zeros", {g[0]}); };
  // The samples whose other sizes include a single number.
  const auto is_line = [](const Sample& sample) { return sample.inputs[0].shape.size() == 1; };
  const GradientReport honest = report_of_mutated("var", as_it_is, {}),
                       mutated = report_of_mutated(
                           "var",
                           [&](Gradient&g, const FormulaTerm&x) {
                             return g[0].shape() == Dims{1} ? zero(g, x) : x;
                           },
                           {}, is_line);
  EXPECT_EQ(honest.undecided, 0);
  EXPECT_GT(mutated.undecided, 0);
  ASSERT_EQ(mutated.reasons.size(), 1u);
  EXPECT_EQ(mutated.reasons.begin()->first, "the result is not finite, but its gradient is");
  EXPECT_EQ(mutated.reasons.begin()->second, mutated.undecided);
}

// Right on one device for rows of one size; on shards each rank must divide by its own count.
TEST(PlantedGradients, MeanThatDividesByTheCountOfTheWhole_IsFoundByTheDualLaw) {
  const OpRegistry honest = builtin_ops();
  OpRecord mean = honest.at("mean");
  mean.samples = [] {
    return std::vector<Sample>{{{{"dim", int64_t{0}}}, {{DType::f32, {4, 3}}}, {"ints"}}};
  };
  EXPECT_TRUE(check_gradient(mean, honest, short_form()).wrong.empty());
  OpRegistry ops;
  for (const OpRecord* record : honest.all()) {
    OpRecord copy = record->name == "mean" ? mean : *record;
    if (copy.name == "mean")
      copy.gradient = gradients({[](Gradient& g) {
        const FormulaTerm row = g.op("unsqueeze", {g.dy()}, {{"dim", int64_t{0}}});
        return g.expanded(row / 4);
      }});
    ops.add(std::move(copy));
  }
  const GradientReport report = check_gradient(ops.at("mean"), ops, short_form());
  ASSERT_FALSE(report.wrong.empty());
  for (const WrongGradient& wrong : report.wrong) EXPECT_GT(wrong.rule.mesh.size(), 1);
}

// Each float result of an op of several results is judged by itself. EveryOp_FormulaAndDualLawHold
// judges all samples.
TEST(OpOfSeveralResults, EachResult_IsJudged) {
  for (const char* name : {"sdpa_grad", "sdpa", "sort", "cummin"}) {
    const std::vector<Sample> samples = builtin_ops().at(name).samples();
    EXPECT_TRUE(std::any_of(samples.begin(), samples.end(), [&](const Sample& sample) {
      return report_with_sample(name, sample).combinations > 0;
    })) << name;
  }
}

}  // namespace
}  // namespace shardproof::testing::check_gradients_test
