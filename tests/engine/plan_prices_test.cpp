// Tests that a run sends the bytes and takes the time that its plan predicts.
#include <gtest/gtest.h>

#include <random>

#include "shardproof/engine/check/check.h"
#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/sim/cost/cost_model.h"
#include "shardproof/sim/cost/plan_price.h"
#include "shardproof/tests/engine/redistribution_job.h"
#include "shardproof/tests/few_draws.h"
#include "shardproof/tests/localtensor/spec_corpus.h"

namespace shardproof::testing::plan_prices_test {
namespace {

// Returns the bytes that a rank sends, on average over the mesh.
Fraction bytes_of(const Outcome& outcome, const Mesh& mesh) {
  Fraction bytes;
  for (const CallCount& call : outcome.calls) bytes = bytes + call.bytes * call.lanes.size();
  return bytes / mesh.size();
}

void expect_as_planned(const Spec& from, const Spec& to, PlanMoves moves, bool timed) {
  PlannerOptions options;
  options.moves = moves;
  if (timed) options.price = price_by_time(machine());
  const PlannerResult result = plan_redistribution(from, to, options);
  Job job = job_of_pair(from, to);
  job.moves = moves;
  if (timed) job.cost = machine();
  const Outcome outcome = check(job, builtin_registries());
  const std::string what = to_string(from) + "\n" + to_string(result.plan);
  ASSERT_TRUE(outcome.findings.empty()) << what;
  Fraction bytes;
  Duration time;
  int64_t calls = 0;
  for (const PlanStep& step : result.plan.steps) {
    bytes = bytes + average_of(bytes_sent(step));
    time += time_of_calls(step, *machine());
    calls += cost_of(step).calls;
  }
  EXPECT_EQ(bytes_of(outcome, from.mesh()), bytes) << what;
  if (!timed) return;
  // A group that ends one call early begins the next one early.
  EXPECT_LE(outcome.world.time, time) << what;
  if (calls == 1) {
    EXPECT_EQ(outcome.world.time, time) << what;
  }
}

TEST(PlanPrices, RandomPairs_RunAsPredicted) {
  std::mt19937 random(11);
  const auto draw = [&](size_t count) { return random() % count; };
  for (const auto& [text, shape] : {std::pair{"a=2, b=3", Dims{7, 5}},
                                    {"a=3, b=2", Dims{12, 18}},
                                    {"a=4", Dims{64, 6}},
                                    {"a=2, b=2, c=2", Dims{9, 8, 3}}}) {
    const std::vector<Spec> specs = corpus::all_specs(Mesh::parse(text), shape, DType::f32,
                                                      {R(), S(0), S(1), S(0, 2), P(ReduceOp::sum)});
    for (int i = 0; i < (kFewDraws ? 10 : 100); ++i) {
      const Spec &from = specs[draw(specs.size())], &to = specs[draw(specs.size())];
      if (from == to) continue;
      const PlanMoves moves = draw(2) == 0 ? PlanMoves::all : PlanMoves::collectives;
      expect_as_planned(from, to, moves, draw(2) == 0);
    }
  }
}

// The pieces of this all_to_all are a rank's whole part or nothing, so each is padded to the part.
// Three messages of 16 MiB take 3 x (5 + 335.5) us. An exchange sends only the parts.
TEST(PlanPrices, PaddedAllToAll_CountsItsPadding) {
  const Mesh mesh = Mesh::parse("a=2, b=2");
  const Dims shape = {4096, 4096};
  const Spec from = Spec::parse("a:S(0) b:S(1)", mesh, shape, DType::f32);
  const Spec to = Spec::parse("a:S(1) b:S(0)", mesh, shape, DType::f32);
  const PlanStep padded{StepKind::all_to_all, {0, 1}, from, to};
  EXPECT_EQ(priced_bytes(padded), Fraction(48 << 20));
  EXPECT_NEAR(to_seconds(time_of_calls(padded, *machine())), 1021.6e-6, 1e-7);
  const PlanStep exchange{StepKind::exchange, {0, 1}, from, to};
  EXPECT_EQ(priced_bytes(exchange), Fraction(8 << 20));
  EXPECT_NEAR(to_seconds(time_of_calls(exchange, *machine())), 340.5e-6, 1e-7);
  PlannerOptions options;
  options.price = price_by_time(machine());
  const Plan plan = plan_redistribution(from, to, options).plan;
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].kind, StepKind::exchange);
}

// Ranks hold 4 and 3 elements. A rank sends 16 or 12 bytes: 14 on average.
TEST(PlanPrices, UnevenShards_CountTheAverage) {
  const Mesh mesh = Mesh::parse("a=2, b=2");
  const Spec from = Spec::parse("a:P(sum) b:S(0)", mesh, {7}, DType::f32);
  const Spec to = Spec::parse("b:S(0)", mesh, {7}, DType::f32);
  EXPECT_EQ(priced_bytes({StepKind::all_reduce, {0}, from, to}), Fraction(14));
  const Spec joint = Spec::parse("a:S(0) b:S(0)", mesh, {7}, DType::f32);
  EXPECT_EQ(priced_bytes({StepKind::reduce_scatter, {0}, from, joint}), Fraction(7));
}

}  // namespace
}  // namespace shardproof::testing::plan_prices_test
