// Tests the law of sent bytes. On each rank, a redistribution sends as many bytes as the rank
// program that `show` prints for it, and as its plan states. It also takes the same time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>

#include "shardproof/engine/check/check.h"
#include "shardproof/engine/check/print_job.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/sim/cost/cost_model.h"
#include "shardproof/sim/cost/plan_price.h"
#include "shardproof/tests/engine/redistribution_job.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::testing::sent_bytes_law_test {
namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int64_t below(int64_t count) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }
  Mesh mesh() {
    std::string text;
    for (int64_t axis = 0, axes = 1 + below(3); axis < axes; ++axis)
      text +=
          fmt::format("{}{}={}", axis == 0 ? "" : ", ", "abc"[axis], 2 + below(axes == 3 ? 2 : 3));
    return Mesh::parse(text);
  }
  Dims shape() {
    static constexpr int64_t kSizes[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 12};
    Dims shape;
    for (int64_t dim = 0, dims = 1 + below(3); dim < dims; ++dim)
      shape.push_back(kSizes[std::max(below(10), below(10))]);
    return shape;
  }
  Placement placement(const Dims& shape, int64_t ranks) {
    const int dim = static_cast<int>(below(shape.size()));
    switch (below(7)) {
      case 0: return R();
      case 1: return R();
      case 2: return S(dim, 2);
      case 3: return P(ReduceOp::sum);
      case 4: {
        std::vector<int64_t> sizes(static_cast<size_t>(ranks), 0);
        for (int64_t i = 0; i < shape[dim]; ++i) ++sizes[static_cast<size_t>(below(ranks))];
        return Shard{dim, 1, std::move(sizes)};
      }
      default: return S(dim);
    }
  }
  // Returns nullopt if the placements do not fit each other.
  std::optional<Spec> spec(const Mesh& mesh, const Dims& shape) {
    std::vector<Placement> placements;
    std::vector<int> order;
    for (int axis = 0; axis < mesh.axis_count(); ++axis) {
      placements.push_back(placement(shape, mesh.axis_size(axis)));
      order.push_back(axis);
    }
    std::shuffle(order.begin(), order.end(), random_);
    try {
      return Spec(mesh, placements, shape, DType::f32, order);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

 private:
  std::mt19937 random_;
};

// Returns the calls and bytes of each kind and group, by rank.
std::string calls_text(const Outcome& outcome) {
  std::string text;
  for (const CallCount& call : outcome.calls)
    text += fmt::format("{} {} ranks {}: {} calls, {} B\n", call.kind, call.group,
                        to_string(call.lanes), call.count, to_string(call.bytes));
  return text;
}
std::string times_text(const Outcome& outcome) {
  std::string text;
  for (const Duration time : outcome.world.rank_times) text += to_string(time) + " ";
  return text;
}

std::map<int32_t, Fraction> bytes_by_rank(const std::vector<SentBytes>& sent) {
  std::map<int32_t, Fraction> bytes;
  for (const SentBytes& part : sent)
    for (int64_t i = 0; i < part.ranks.size(); ++i)
      if (part.bytes != Fraction()) bytes[part.ranks[i]] = part.bytes;
  return bytes;
}
std::map<int32_t, Fraction> bytes_by_rank(const Outcome& outcome) {
  std::map<int32_t, Fraction> bytes;
  for (const CallCount& call : outcome.calls)
    for (int64_t i = 0; i < call.lanes.size(); ++i)
      if (call.bytes != Fraction()) bytes[call.lanes[i]] = bytes[call.lanes[i]] + call.bytes;
  return bytes;
}
std::map<int32_t, Fraction> bytes_by_rank(const Plan& plan) {
  std::map<int32_t, Fraction> bytes;
  for (const PlanStep& step : plan.steps)
    for (const auto& [rank, more] : bytes_by_rank(bytes_sent(step)))
      bytes[rank] = bytes[rank] + more;
  return bytes;
}

// Counts what the draws have covered, so that the law is checked on uneven shards, too.
struct Covered {
  int checked = 0, uneven = 0, pieces = 0, exchanges = 0;
};

void expect_one_count(const Spec& from, const Spec& to, Draw& draw, Covered& covered) {
  Job job = job_of_pair(from, to);
  job.cost = machine();
  job.moves = draw.below(2) == 0 ? PlanMoves::all : PlanMoves::collectives;
  PlannerOptions options;
  options.moves = job.moves;
  options.price = price_by_time(machine());
  Plan plan = plan_redistribution(from, to, options).plan;
  if (draw.below(3) == 0) try {
      options.peak_limit = job.peak_limit = peak_of(plan) * 4 / 5;
      plan = plan_redistribution(from, to, options).plan;
    } catch (const Error&) {
      return;  // no plan keeps within the limit
    }
  const std::string what = to_string(from) + "\n" + to_string(plan);
  const Outcome global = check(job, builtin_registries());
  ASSERT_TRUE(global.findings.empty()) << what;
  EXPECT_EQ(bytes_by_rank(global), bytes_by_rank(plan)) << what << calls_text(global);
  Job printed = job_of_printed(job, print_job(job, builtin_registries()));
  const Outcome shown = check(printed, builtin_registries());
  EXPECT_EQ(calls_text(global), calls_text(shown)) << what;
  EXPECT_EQ(times_text(global), times_text(shown)) << what;
  Duration time;
  for (const PlanStep& step : plan.steps) time += time_of_calls(step, *machine());
  EXPECT_LE(global.world.time, time) << what;
  ++covered.checked;
  for (const PlanStep& step : plan.steps) {
    covered.uneven += step.kind != StepKind::exchange && bytes_sent(step).size() > 1 ? 1 : 0;
    covered.pieces += step.pieces > 1 ? 1 : 0;
    covered.exchanges += step.kind == StepKind::exchange ? 1 : 0;
  }
}

TEST(SentBytes, RedistributionAndShownRankProgram_SendTheSame) {
  Draw draw(29);
  Covered covered;
  for (int i = 0; i < (kFewDraws ? 40 : 200); ++i) {
    const Mesh mesh = draw.mesh();
    const Dims shape = draw.shape();
    const std::optional<Spec> from = draw.spec(mesh, shape), to = draw.spec(mesh, shape);
    if (from && to && *from != *to) expect_one_count(*from, *to, draw, covered);
    if (HasFatalFailure()) return;
  }
  std::printf("%d pairs, %d steps with groups of other counts, %d in pieces, %d exchanges\n",
              covered.checked, covered.uneven, covered.pieces, covered.exchanges);
  EXPECT_GT(covered.checked, kFewDraws ? 15 : 100);
  EXPECT_GT(covered.uneven, kFewDraws ? 1 : 10);
  EXPECT_GT(covered.pieces, kFewDraws ? 1 : 10);
  EXPECT_GT(covered.exchanges, kFewDraws ? 1 : 10);
}

// A group pads to its own largest shard. Parts of [2, 2] send 16 B; parts of [1, 2] send 8 B and
// take less time. Parts of 2, 2, 1 and 0 rows are padded to 2 rows: 3 x 2 rows of 32 B.
TEST(SentBytes, UnevenShards_ArePaddedInsideTheirGroupAlone) {
  const Mesh mesh = Mesh::parse("a=2, b=2");
  const Spec from = Spec::parse("a:S(1) b:S(0)", mesh, {3, 4}, DType::f32);
  Job job = job_of_pair(from, Spec::parse("b:S(0)", mesh, {3, 4}, DType::f32));
  job.cost = machine();
  const Outcome outcome = check(job, builtin_registries());
  EXPECT_EQ(calls_text(outcome),
            "all_gather a ranks 0 2: 1 calls, 16 B\nall_gather a ranks 1 3: 1 calls, 8 B\n");
  const std::vector<Duration>& times = outcome.world.rank_times;
  ASSERT_EQ(times.size(), 4u);
  EXPECT_EQ(times[0], times[2]);
  EXPECT_EQ(times[1], times[3]);
  EXPECT_LT(times[1], times[0]);
  const Mesh line = Mesh::parse("tp=4");
  const Spec rows = Spec::parse("tp:S(0)", line, {5, 8}, DType::f32);
  EXPECT_EQ(calls_text(check(job_of_pair(rows, Spec::replicated(line, {5, 8}, DType::f32)),
                             builtin_registries())),
            "all_gather tp ranks 0-3: 1 calls, 192 B\n");
}

}  // namespace
}  // namespace shardproof::testing::sent_bytes_law_test
