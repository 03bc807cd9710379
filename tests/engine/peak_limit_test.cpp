// Tests that ranks keep to a peak limit: the memory that a run reports, its calls and its values.
#include <gtest/gtest.h>

#include <random>

#include "shardproof/engine/check/check.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/sim/cost/memory_meter.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/few_draws.h"
#include "shardproof/tests/localtensor/spec_corpus.h"

namespace shardproof::testing::peak_limit_test {
namespace {

// The meter rounds each block up. A step has five: the source of the plan, its own source and
// target, and two packed copies.
constexpr int64_t kRounding = 5 * (kBlockBytes - 1);

int64_t calls_of(const Outcome& outcome, int32_t rank) {
  int64_t calls = 0;
  for (const CallCount& call : outcome.calls)
    if (call.lanes.contains(rank)) calls += call.count;
  return calls;
}

// The program names the axes that are R: others stay as they are.
Job job_of_pair(const Spec& from, const Spec& to, int64_t limit) {
  std::string target = placements_text(to) == "R" ? "" : placements_text(to);
  for (int axis = 0; axis < to.mesh().axis_count(); ++axis)
    if (to.placement(axis).is_replicate())
      target += " " + to.mesh().axes()[static_cast<size_t>(axis)].name + ":R";
  Job job = job_of(to_string(from.mesh()),
                   {fmt::format("y = redistribute(x, {}, peak_limit='{} B')", target, limit)});
  add_input(job, "x", from.shape(), placements_text(from), from.dtype());
  return job;
}

// Runs the redistribution under a limit, and expects the plan's calls and at most its peak.
void expect_kept(const Spec& from, const Spec& to, int64_t limit, CohortPolicy grouping) {
  PlannerOptions options;
  options.peak_limit = limit;
  const Plan plan = plan_redistribution(from, to, options).plan;
  Job job = job_of_pair(from, to, limit);
  job.grouping = grouping;
  const Outcome outcome = check(job, builtin_registries());
  const std::string what = to_string(from) + "\n" + to_string(plan);
  EXPECT_TRUE(outcome.findings.empty()) << what;
  int64_t calls = 0;
  for (int32_t rank = 0; rank < from.mesh().size(); ++rank)
    calls = std::max(calls, calls_of(outcome, rank));
  EXPECT_EQ(calls, price_of(plan, price_by_bytes).calls) << what;
  EXPECT_LE(outcome.world.peak_bytes, limit + kRounding) << what;
}

// With sizes that need no rounding, the reported peak is that of the plan.
TEST(PeakLimit, ReportedPeak_IsThatOfThePlan) {
  const Mesh mesh = Mesh::parse("tp=4");
  const auto spec = [&](const char* text) { return Spec::parse(text, mesh, {64, 64}, DType::f32); };
  for (const auto& [before, after] : {std::pair{"tp:S(0)", "tp:S(1)"},
                                      {"tp:S(1)", "tp:R"},
                                      {"tp:P(sum)", "tp:S(1)"},
                                      {"tp:S(0)", "tp:R"},
                                      {"tp:P(sum)", "tp:R"}})
    for (const int64_t pieces : {1, 2, 4}) {
      const Spec from = spec(before), to = spec(after);
      const PlanStep whole = plan_redistribution(from, to).plan.steps.at(0);
      PlanStep step = whole;
      step.pieces = pieces;
      PlannerOptions options;
      options.peak_limit = std::min(peak_bytes(step), peak_bytes(whole));
      const int64_t peak = peak_of(plan_redistribution(from, to, options).plan);
      const Outcome outcome =
          check(job_of_pair(from, to, *options.peak_limit), builtin_registries());
      EXPECT_EQ(outcome.world.peak_bytes, peak) << before << " -> " << after << " " << pieces;
    }
}

TEST(PeakLimit, RandomPairs_KeepToTheirLimits) {
  std::mt19937 random(7);
  const auto draw = [&](size_t count) { return random() % count; };
  for (const auto& [text, shape] : {std::pair{"a=2, b=3", Dims{37, 50}},
                                    {"a=4, b=2", Dims{64, 24}},
                                    {"a=2, b=2, c=2", Dims{19, 12, 8}}}) {
    const std::vector<Spec> specs = corpus::all_specs(Mesh::parse(text), shape, DType::f32,
                                                      {R(), S(0), S(1), P(ReduceOp::sum)});
    for (int i = 0; i < (kFewDraws ? 4 : 40); ++i) {
      const Spec &from = specs[draw(specs.size())], &to = specs[draw(specs.size())];
      if (from == to || to.has_partial()) continue;
      const int64_t whole = peak_of(plan_redistribution(from, to).plan);
      for (const int64_t part : {5, 6, 7, 8}) {
        const CohortPolicy grouping =
            draw(2) == 0 ? CohortPolicy::coarse_first : CohortPolicy::one_by_one;
        try {
          expect_kept(from, to, whole * part / 8, grouping);
        } catch (const Error&) {
          EXPECT_LT(part, 8);  // no plan is within the limit
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardproof::testing::peak_limit_test
