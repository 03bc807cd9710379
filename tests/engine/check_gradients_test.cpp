// Law: the gradients of all ops stand up to engine/certify/check_gradients.h, in its short form.
// Gradients that are made wrong on purpose must fail, each at a sample of its op.
#include "shardproof/engine/certify/check_gradients.h"

#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/gradient.h"
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
  EXPECT_LE(undecided * 100, judged);
}

INSTANTIATE_TEST_SUITE_P(Registry, GradientLaws, ::testing::Range(0, kFewDraws ? 2 : kParts));

using Spoil = std::function<FormulaTerm(Gradient&, const FormulaTerm&)>;

// Returns the report of an op of which the gradient by input 0 is spoiled.
GradientReport report_of_spoiled(const std::string& name, const Spoil& spoil) {
  const OpRegistry honest = builtin_ops();
  OpRegistry ops;
  const OpRecord* spoiled = nullptr;
  for (const OpRecord* record : honest.all()) {
    OpRecord copy = *record;
    if (copy.name == name)
      copy.gradient = [rule = record->gradient, spoil](const OpCall& call,
                                                       GradientBuilder& builder) {
        std::vector<int> handles = rule(call, builder);
        Gradient gradient(call, builder);
        if (handles[0] != kAbsent) handles[0] = spoil(gradient, {&builder, handles[0]}).handle;
        return handles;
      };
    ops.add(std::move(copy));
  }
  spoiled = &ops.at(name);
  return check_gradient(*spoiled, ops, short_form());
}

FormulaTerm as_it_is(Gradient&, const FormulaTerm& x) { return x; }
FormulaTerm twice(Gradient&, const FormulaTerm& x) { return x * 2; }
FormulaTerm negated(Gradient&, const FormulaTerm& x) { return -x; }
FormulaTerm off_by_a_thousandth(Gradient&, const FormulaTerm& x) { return x * 1.001; }
FormulaTerm shifted(Gradient&, const FormulaTerm& x) { return x + 1e-4; }

struct Planted {
  const char* op;
  FormulaTerm (*spoil)(Gradient&, const FormulaTerm&);
};

class PlantedGradients : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedGradients, WrongGradient_IsFound) {
  const Planted planted = GetParam();
  EXPECT_TRUE(report_of_spoiled(planted.op, as_it_is).wrong.empty()) << planted.op;
  EXPECT_FALSE(report_of_spoiled(planted.op, planted.spoil).wrong.empty()) << planted.op;
}

INSTANTIATE_TEST_SUITE_P(Ten, PlantedGradients,
                         ::testing::Values(Planted{"mul", twice}, Planted{"matmul", negated},
                                           Planted{"softmax", shifted}, Planted{"exp", twice},
                                           Planted{"mean", off_by_a_thousandth},
                                           Planted{"layer_norm", shifted}, Planted{"sum", twice},
                                           Planted{"cumsum", negated},
                                           Planted{"tanh", off_by_a_thousandth},
                                           Planted{"logsumexp", shifted}));

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

}  // namespace
}  // namespace shardproof::testing::check_gradients_test
