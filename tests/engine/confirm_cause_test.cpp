// Tests causes of wrong outputs of rank programs: an edit confirms a cause if it makes the output
// right and no other output wrong. If several edits do, they are hints.
#include <gtest/gtest.h>

#include "shardproof/engine/check/check.h"
#include "shardproof/engine/job/outcome.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::confirm_cause_test {
namespace {

using Lines = std::vector<std::string>;

// Returns a job with x of [8, 6] and d of [8, 4] on dp and cp, and w of [6, 4] on all ranks.
Job step_job(const std::string& mesh, const std::string& rows, const Lines& ranks,
             const Lines& truth, const Lines& outputs) {
  Job job = job_of(mesh, {});
  job.program.reset();
  add_input(job, "x", Dims{8, 6}, rows);
  add_input(job, "d", Dims{8, 4}, rows);
  add_input(job, "w", Dims{6, 4});
  add_ranks(job, "/ranks/all", job.meshes.at(0).second.ranks(), ranks);
  job.truth = parse_listing(truth);
  for (const std::string& output : outputs) {
    const size_t colon = output.find('=');
    job.outputs.push_back({output.substr(0, colon), output.substr(colon + 1), "", {}, "/outputs"});
  }
  return job;
}

// Returns the lines of the first finding that begin with a word, without the word.
std::string line_of(const Job& job, const std::string& word) {
  const Outcome outcome = check(job, builtin_registries());
  if (outcome.findings.empty()) return "clean";
  if (word == "fix") return outcome.findings[0].fix;
  for (const std::string& detail : outcome.findings[0].details)
    if (detail.starts_with(word + " "))
      return detail.substr(detail.find_first_not_of(' ', word.size()));
  return "";
}

const Lines kTruth = {"g = transpose(x, 0, 1) @ d", "w = w - 0.1 * g"};

TEST(Causes, UnreducedGradient_NamesTheAxisThatCutsTheRows) {
  const Job job = step_job("dp=2, cp=2", "dp:S(0)",
                           {"g = transpose(x, 0, 1) @ d", "w = w - 0.1 * g"}, kTruth, {"w=R"});
  EXPECT_EQ(line_of(job, "cause"),
            "g is computed from x and d, which are cut over dp; no call over dp lies between line "
            "1 and w, so it is part of a sum over dp");
  EXPECT_EQ(line_of(job, "fix"), "add all_reduce(g, sum, group=dp) after line 1");
}

TEST(Causes, FixOfOneOutput_LeavesARightOutputUnchanged) {
  // g is declared as a part of a sum and is one, so the fix must not change it.
  const Job job = step_job("dp=2", "dp:S(0)", {"g = transpose(x, 0, 1) @ d", "w = w - 0.1 * g"},
                           kTruth, {"g=dp:P(sum)", "w=R"});
  EXPECT_EQ(line_of(job, "fix"), "add all_reduce(g, sum, group=dp) after line 1");
}

TEST(Causes, FactorThatTwoSumsExplain_IsAHint) {
  const Job job = step_job("dp=2, cp=2", "dp:S(0) cp:S(0)",
                           {"g = all_reduce(transpose(x, 0, 1) @ d, sum, group=dp)",
                            "w = w - 0.1 * all_reduce(g, sum, group=cp)"},
                           {"g = transpose(x, 0, 1) @ d", "w = w - 0.05 * g"}, {"w=R"});
  EXPECT_EQ(line_of(job, "cause"), "");
  EXPECT_EQ(line_of(job, "hint"), "any one of these changes alone makes w right:");
  EXPECT_EQ(line_of(job, "fix"), "");
}

TEST(Causes, SumOfCopies_NamesTheCall) {
  const Job job = step_job("dp=2, cp=2", "dp:S(0)",
                           {"g = all_reduce(transpose(x, 0, 1) @ d, sum, group=dp)",
                            "g = all_reduce(g, sum, group=cp)", "w = w - 0.1 * g"},
                           kTruth, {"w=R"});
  EXPECT_EQ(line_of(job, "cause"),
            "g is the same on all ranks of cp, and line 2 sums it over cp: it counts 2 times");
}

// Returns the cause and fix of a wrong output, whose rows of the gradient of w ([6, 4]) lie on dp.
Lines cause_of_shards(const Lines& ranks) {
  Lines steps = {"g = transpose(x, 0, 1) @ d"};
  steps.insert(steps.end(), ranks.begin(), ranks.end());
  const Job job = step_job("dp=2, cp=2", "dp:S(0)", steps,
                           {"g = transpose(x, 0, 1) @ d", "s = 3 * g"}, {"s=dp:S(0)"});
  return {line_of(job, "cause"), line_of(job, "fix")};
}

TEST(Causes, AverageOfAReduceScatter_NamesTheCall) {
  EXPECT_EQ(cause_of_shards({"s = 3 * reduce_scatter(g, avg, dim=0, group=dp)"}),
            (Lines{"line 2 takes the average over dp, and s is right with the sum",
                   "sum in place of avg on line 2"}));
}

TEST(Causes, ScatterOverAnotherAxis_NamesTheAxis) {
  EXPECT_EQ(cause_of_shards({"s = 3 * reduce_scatter(g, sum, dim=0, group=cp)"}),
            (Lines{"line 2 reduces over cp, but its input is computed from x and d, which are cut "
                   "over dp",
                   "group=dp on line 2"}));
}

TEST(Causes, CopiesInAReduceScatter_AreCounted) {
  EXPECT_EQ(
      cause_of_shards(
          {"g = all_reduce(g, sum, group=dp)", "s = 3 * reduce_scatter(g, sum, dim=0, group=dp)"}),
      (Lines{"g is the same on all ranks of dp, and line 3 sums it over dp: it counts 2 times",
             "remove the sum over dp on line 3, or take avg"}));
}

TEST(Causes, SliceOfAnUnreducedGradient_NamesTheAxis) {
  const std::string slice = "slice_local(g, shards='R of [6, 4] -> dp:S(0) of [6, 4]')";
  EXPECT_EQ(
      cause_of_shards({"s = 3 * " + slice}),
      (Lines{"g is computed from x and d, which are cut over dp; no call over dp lies between "
             "line 1 and s, so it is part of a sum over dp",
             "add all_reduce(g, sum, group=dp) after line 1"}));
  EXPECT_EQ(cause_of_shards({"g = all_reduce(g, sum, group=cp)", "s = 3 * " + slice}),
            (Lines{"line 2 reduces over cp, but its input is computed from x and d, which are cut "
                   "over dp",
                   "group=dp on line 2"}));
}

TEST(Causes, FactorsThatGradMakes_AreNoCandidates) {
  // The gradient of a square has a factor 2, which is the number of ranks too.
  const Lines loss = {"l = mean((x @ w - d) ** 2)", "g = grad(l, w)"};
  Lines ranks = loss, truth = loss;
  ranks.insert(ranks.end(), {"w = w - 0.1 * all_reduce(g, sum, group=dp)"});
  truth.insert(truth.end(), {"w = w - 0.1 * g"});
  const Job job = step_job("dp=2", "dp:S(0)", ranks, truth, {"w=R"});
  EXPECT_EQ(line_of(job, "cause"), "line 3 takes the sum over dp, and w is right with the average");
  EXPECT_EQ(line_of(job, "fix"), "avg in place of sum on line 3");
}

TEST(Causes, FactorNearOne_HasAllDigits) {
  const Job job = step_job("dp=2", "dp:S(0)", {"y = x * 1.0001 * 3"}, {"y = x * 3"}, {"y=dp:S(0)"});
  EXPECT_EQ(line_of(job, "fix"), "remove the factor 1.0001 on line 1");
}

TEST(Causes, GatherOverAnotherAxis_NamesTheAxis) {
  const Job job =
      step_job("dp=2, cp=2", "dp:S(0)", {"f = all_gather(x, dim=0, group=cp)", "y = f * 2"},
               {"y = x * 2"}, {"y=R"});
  EXPECT_EQ(line_of(job, "cause"),
            "line 1 gathers over cp, but its input is computed from x, which is cut over dp");
  EXPECT_EQ(line_of(job, "fix"), "group=dp on line 1");
}

TEST(Causes, RatioEqualToAnAxisSizeByCoincidence_IsTheFactorOfTheTruth) {
  // 2 is the size of dp and of cp, but the error is another number in the truth.
  const Job job =
      step_job("dp=2, cp=2", "dp:S(0)",
               {"g = all_reduce(transpose(x, 0, 1) @ d, sum, group=dp)", "u = g * g", "w = w - u"},
               {"g = transpose(x, 0, 1) @ d", "w = w - 0.5 * g * g"}, {"w=R"});
  EXPECT_EQ(line_of(job, "cause"),
            "line 2 computes g * g, and w is right with 0.5 * g * g, as on line 2 of the truth");
  EXPECT_EQ(line_of(job, "fix"), "0.5 * g * g in place of g * g on line 2");
}

TEST(Causes, MissingFactor_ThatALetOfAnotherSizeChanges_IsACause) {
  const Lines ranks = {"g = zeros([6, 4])",
                       "for i in range(m):", "  g = g + transpose(x, 0, 1) @ d",
                       "g = all_reduce(g, sum, group=dp)", "w = w - 0.1 * g"};
  const Lines by_m = {"w = w - 0.1 * (transpose(x, 0, 1) @ d)"};
  Job job = step_job("dp=2", "dp:S(0)", ranks, by_m, {"w=R"});
  job.numbers = {{"m", Number(3)}};
  EXPECT_EQ(line_of(job, "cause"),
            "g of line 4 is 3 times what it should be: 3 is m, and with m = 4 it is 4 times");
  EXPECT_EQ(line_of(job, "fix"), "divide g by m on line 4");
  // Another `let` of the same size, which the value does not depend on.
  job.numbers = {{"m", Number(3)}, {"layers", Number(3)}};
  EXPECT_EQ(line_of(job, "fix"), "divide g by m on line 4");
}

// Law: a program that is written once for each rank has the cause of the same program written once.
TEST(Causes, EqualListings_HaveTheCauseOfOneListing) {
  const std::vector<Lines> programs = {
      {"g = transpose(x, 0, 1) @ d", "w = w - 0.1 * g"},
      {"g = all_reduce(transpose(x, 0, 1) @ d, avg, group=dp)", "w = w - 0.1 * g"},
      {"g = all_reduce(transpose(x, 0, 1) @ d, sum, group=dp)",
       "w = w - 0.1 * all_reduce(g, sum, group=dp)"},
      {"g = all_reduce(transpose(x, 0, 1) @ d + w, sum, group=dp)", "w = w - 0.1 * (g - w)"}};
  for (const Lines& lines : programs) {
    const Job job = step_job("dp=2", "dp:S(0)", lines, kTruth, {"w=R"});
    Job apart = job;
    apart.ranks.clear();
    for (int rank = 0; rank < 2; ++rank)
      add_ranks(apart, fmt::format("/ranks/{}", rank), Lanes::one(rank), lines);
    EXPECT_NE(line_of(job, "cause"), "") << lines[0];
    for (const char* word : {"cause", "hint", "fix"})
      EXPECT_EQ(line_of(apart, word), line_of(job, word)) << lines[0];
  }
}

// The mean over the rows of each dp rank makes w wrong by the size of dp. cp has as many ranks.
TEST(Causes, FactorOfOneAxis_IsNotBlamedOnAnother) {
  const Job job =
      step_job("dp=2, cp=2", "dp:S(0)",
               {"s = mean(x, dim=0)", "s = all_reduce(s, sum, group=dp)",
                "c = all_reduce(s, sum, group=cp) / size(cp)", "w = w - 0.1 * c[:, None]"},
               {"w = w - 0.1 * mean(x, dim=0)[:, None]"}, {"w=R"});
  EXPECT_EQ(line_of(job, "cause"), "line 2 takes the sum over dp, and w is right with the average");
}

// Both ranks count 3 valid labels, so an average in place of the sum of line 2 fits these labels
// alone. The sum in place of the maximum of line 1 fits all.
TEST(Causes, CoincidenceOfLabels_IsNoCause) {
  Job job = step_job("dp=2", "dp:S(0)",
                     {"n = all_reduce(sum(cast(labels >= 0, f64)), max, group=dp)",
                      "s = all_reduce(sum(x * x) / n, sum, group=dp)"},
                     {"s = sum(x * x) / sum(cast(labels >= 0, f64))"}, {"s=R"});
  add_input(job, "labels", Dims{8}, "dp:S(0)", DType::i64);
  job.inputs.back().data = tensor_of(DType::i64, Dims{8}, {1, -1, 3, 4, 5, -1, 0, 2});
  EXPECT_EQ(line_of(job, "cause"), "line 1 takes the maximum over dp, and s is right with the sum");
  EXPECT_EQ(line_of(job, "hint"), "");
}

// Returns a job with gradients of x ([8, 6]) cut over dp and of w ([6, 4]) cut over tp.
Job gradient_job(const std::string& mesh, const Lines& ranks, const Lines& truth,
                 const Lines& outputs, DType dtype = DType::f64) {
  Job job = step_job(mesh, "dp:S(0)", ranks, truth, outputs);
  job.inputs.clear();
  add_input(job, "x", Dims{8, 6}, "dp:S(0)", dtype);
  add_input(job, "d", Dims{8, 4}, "dp:S(0) tp:S(1)", dtype);
  add_input(job, "w", Dims{6, 4}, "tp:S(1)", dtype);
  return job;
}

TEST(Causes, WrongGroupOfEnter_NamesItsLine) {
  const Job job = gradient_job(
      "dp=2, tp=2", {"xe = enter(x, group=dp)", "l = sum((xe @ w) * d)", "gx = grad(l, x)"},
      {"gx = grad(sum((x @ w) * d), x)"}, {"gx=dp:S(0)"});
  EXPECT_EQ(line_of(job, "cause"),
            "the enter of line 1 is over dp, but the gradient that its backward reduces is "
            "computed from d and w, which are cut over tp");
  EXPECT_EQ(line_of(job, "fix"), "group=tp on line 1");
}

TEST(Causes, EnterOverAnAxisThatCutsItsInput_NamesItsLine) {
  const Job job = gradient_job(
      "dp=2, tp=2", {"xe = enter(x, group=[dp, tp])", "l = sum((xe @ w) * d)", "gx = grad(l, x)"},
      {"gx = grad(sum((x @ w) * d), x)"}, {"gx=dp:S(0)"});
  EXPECT_EQ(line_of(job, "cause"),
            "the enter of line 1 is over dp+tp, but the gradient that its backward reduces is cut "
            "over dp: those ranks hold other elements");
  EXPECT_EQ(line_of(job, "fix"), "group=tp on line 1");
}

TEST(Causes, ShardsAddedUp_NameTheCall) {
  const Job job = gradient_job(
      "dp=2, tp=1", {"gx = grad(sum(square(x @ w - d)), x)", "gx = all_reduce(gx, sum, group=dp)"},
      {"gx = grad(sum(square(x @ w - d)), x)"}, {"gx=dp:S(0)"});
  EXPECT_EQ(
      line_of(job, "cause"),
      "line 2 reduces over dp, but its input is cut over dp: those ranks hold other elements");
  EXPECT_EQ(line_of(job, "fix"), "remove the all_reduce on line 2");
}

// The loss is not divided by its count.
TEST(Causes, ConstantFactorOfALoss_IsDivided) {
  const Job job = gradient_job("dp=2, tp=1",
                               {"l = sum(square(x @ w - d))", "gx, gw = grad(l, [x, w])",
                                "gw = all_reduce(gw, sum, group=dp)"},
                               {"l = sum(square(x @ w - d)) / 30", "gx, gw = grad(l, [x, w])"},
                               {"gx=dp:S(0)", "gw=R"});
  EXPECT_EQ(check(job, builtin_registries()).findings.size(), 1u);
  EXPECT_EQ(line_of(job, "fix"),
            "sum(square(x @ w - d)) / 30 in place of sum(square(x @ w - d)) on line 1");
}

// An Adam step hardly depends on the scale of its gradient, so w alone confirms no cause.
TEST(Causes, CauseOfOneResultOfAStep_MakesTheOthersRight) {
  const Lines ranks = {"g = transpose(x, 0, 1) @ d", "s = reduce_scatter(g, sum, dim=0, group=dp)",
                       "n = all_reduce(sqrt(sum(s * s)), sum, group=dp)", "z = zeros(like=s)",
                       "u, m, v = adamw(s, s / n, z, z, step=1, lr=0.01)"};
  const Lines truth = {"g = transpose(x, 0, 1) @ d", "n = sqrt(sum(g * g))", "z = zeros(like=g)",
                       "u, m, v = adamw(g, g / n, z, z, step=1, lr=0.01)"};
  const Job job = gradient_job("dp=2, tp=1", ranks, truth, {"u=dp:S(0)", "m=dp:S(0)", "v=dp:S(0)"});
  const std::vector<Finding> findings = check(job, builtin_registries()).findings;
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].line, 5);
}

// On line 1, without a backward, the call would end the way of the gradient.
TEST(Causes, ReductionOfADifferentiatedValue_ComesAfterItsGradient) {
  const Job job = gradient_job(
      "dp=2, tp=1",
      {"l = sum(square(x @ w - d)) / 32", "gw = all_reduce(grad(l, w), sum, group=dp)", "loss = l"},
      {"loss = sum(square(x @ w - d)) / 32", "gw = grad(loss, w)"}, {"gw=R", "loss=R"});
  EXPECT_EQ(line_of(job, "fix"), "add all_reduce(loss, sum, group=dp) after line 3");
}

// The gradients of passes are added up in an expression and never reduced.
TEST(Causes, GradientInsideAnExpression_IsReducedThere) {
  const Job job =
      gradient_job("dp=2, tp=1",
                   {"g = zeros(like=w)", "for i in range(2):", "  l = sum(square(x @ w - d)) / 64",
                    "  g = g + grad(l, w)", "v = w - g * 1"},
                   {"v = w - grad(sum(square(x @ w - d)) / 32, w)"}, {"v=R"});
  EXPECT_EQ(line_of(job, "fix"),
            "all_reduce(grad(l, w), sum, group=dp) in place of grad(l, w) on line 4");
}

TEST(Causes, SumInsideALine_OfAReducedGradient_IsQuoted) {
  const Job job = gradient_job(
      "dp=2, tp=1",
      {"f = x @ w", "g = grad(sum(square(f - d)), w)",
       "s = reduce_scatter(g, sum, dim=0, group=dp)", "y = s / sqrt(sum(s * s))"},
      {"g = grad(sum(square(x @ w - d)), w)", "y = g / sqrt(sum(g * g))"}, {"y=dp:S(0)"});
  EXPECT_EQ(line_of(job, "cause"),
            "sum(s * s) of line 4 is each rank's own part over dp; no call over dp lies between "
            "line 4 and y, so it is part of a sum over dp");
  EXPECT_EQ(line_of(job, "fix"),
            "all_reduce(sum(s * s), sum, group=dp) in place of sum(s * s) on line 4");
}

TEST(Causes, MeanOfEachRank_IsTheCauseOfAllGradients) {
  const Job job = gradient_job("dp=2, tp=1",
                               {"l = mean(square(x @ w - d))", "gx, gw = grad(l, [x, w])",
                                "gw = all_reduce(gw, sum, group=dp)"},
                               {"l = mean(square(x @ w - d))", "gx, gw = grad(l, [x, w])"},
                               {"gx=dp:S(0)", "gw=R"});
  EXPECT_EQ(check(job, builtin_registries()).findings.size(), 1u);
  EXPECT_EQ(line_of(job, "cause"),
            "l of line 1 is the mean of each rank's own part over dp, and gradients add it up over "
            "dp: it counts 2 times");
  EXPECT_EQ(line_of(job, "fix"), "divide l by size(dp) on line 1");
}

// The listing is lowered again in the dtypes that its casts meet.
TEST(Causes, OfAProgramWithCasts_AreFound) {
  const Lines loss = {"l = mean(square(cast(cast(x, bf16) @ cast(w, bf16), f32) - d))",
                      "gx = grad(l, x)"};
  const Job job = gradient_job("dp=2, tp=1", loss, loss, {"gx=dp:S(0)"}, DType::f32);
  EXPECT_EQ(line_of(job, "fix"), "divide l by size(dp) on line 1");
}

TEST(Causes, GroupOfSeveralAxes_IsPrintedAsTheListingWritesIt) {
  const Job job = step_job("dp=2, cp=2, tp=2", "dp:S(0) cp:S(0)",
                           {"g = all_reduce(transpose(x, 0, 1) @ d, sum, group=tp)", "w = w - g"},
                           {"w = w - transpose(x, 0, 1) @ d"}, {"w=R"});
  EXPECT_EQ(line_of(job, "fix"), "group=[dp, cp] on line 1");
}

TEST(Causes, ZeroOnSomeRanks_IsNotCalledZeroEverywhere) {
  const Job job =
      step_job("dp=2", "dp:S(0)", {"y = zeros([8, 6])", "y[index(dp) * 4 : index(dp) * 4 + 4] = x"},
               {"y = x * 1"}, {"y=R"});
  EXPECT_EQ(line_of(job, "every"), "wrong element is 0");
}

}  // namespace
}  // namespace shardproof::testing::confirm_cause_test
