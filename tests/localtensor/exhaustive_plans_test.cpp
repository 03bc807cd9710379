// Compares the planner with the exhaustive planner.
//
// Pairs without partials: the prices are equal on every tensor. Pairs with partials: equal on
// tensors whose dims all cuts divide. On uneven dims and strided cuts of few elements, the planner
// does not try every intermediate cut. The pairs that then cost more are counted and printed. No
// plan costs more than the optimum and the gap that it reports.
//
// By default a share of the pairs is drawn. With SHARDPROOF_ALL_PAIRS=1 every pair of the small
// meshes and 100,000 pairs of the others are compared; this takes several minutes on one core.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/tests/few_draws.h"
#include "shardproof/tests/localtensor/exhaustive_planner.h"

namespace shardproof::testing::exhaustive_plans_test {
namespace {

constexpr int64_t kPairs = kFewDraws ? 60 : 5000;
constexpr int64_t kAllPairs = 100000;

struct Universe {
  const char* mesh;
  Dims shape;
  std::vector<Placement> choices;
  bool even = false;  // all cuts divide evenly
};

std::vector<Placement> cuts(int dims, const std::vector<int64_t>& splits, bool partials) {
  std::vector<Placement> choices = {R()};
  for (int dim = 0; dim < dims; ++dim) {
    choices.push_back(S(dim));
    for (int64_t split : splits) choices.push_back(S(dim, split));
  }
  if (partials) choices.push_back(P());
  return choices;
}

std::vector<Placement> with(std::vector<Placement> choices, Placement more) {
  choices.push_back(std::move(more));
  return choices;
}

// Even, uneven and empty shards; splits are those that arise if an axis leaves a dim.
std::vector<Universe> small_meshes() {
  const std::vector<Placement> sizes = with(cuts(2, {}, true), Shard{0, 1, {4, 2}});
  return {{"a=2", {4, 2, 2}, cuts(3, {}, true), true},
          {"a=3", {3, 6}, cuts(2, {}, true), true},
          {"a=2, b=2", {8, 4}, cuts(2, {}, true), true},
          {"a=2, b=2", {4, 4, 4}, cuts(3, {}, true), true},
          {"a=2, b=2", {16}, cuts(1, {2, 4}, true), true},
          {"a=2, b=3", {6, 6}, cuts(2, {}, true), true},
          {"a=2, b=2", {5, 3}, cuts(2, {}, true), true},
          {"a=2, b=2", {3, 1, 2}, cuts(3, {}, true), true},
          {"a=2, b=3", {5, 4}, cuts(2, {}, true), true},
          {"a=2", {4, 3, 2}, cuts(3, {2}, true), false},
          {"a=3", {3, 4, 1}, cuts(3, {}, true), false},
          {"a=3", {7}, with(cuts(1, {2, 3}, true), Shard{0, 1, {0, 5, 2}}), false},
          {"a=2, b=2", {5, 3}, cuts(2, {2}, true), false},
          {"a=2, b=2", {3, 1, 2}, cuts(3, {2}, true), false},
          {"a=2, b=2", {6, 4}, with(sizes, Shard{1, 1, {1, 3}}), false},
          {"a=2, b=3", {6, 6}, cuts(2, {2, 3}, true), false},
          {"a=2, b=3", {5, 4}, cuts(2, {2, 3}, true), false},
          {"a=2, b=3", {7, 8}, cuts(2, {2, 3}, false), false},
          {"a=2, b=3", {2, 3, 4}, cuts(3, {}, true), false}};
}

std::vector<Universe> three_axes() {
  return {{"a=2, b=2, c=2", {8, 8}, cuts(2, {}, true), true},
          {"a=2, b=2, c=2", {16, 4}, cuts(2, {2, 4}, false), true},
          {"a=2, b=2, c=2", {16}, cuts(1, {2, 4}, true), false},
          {"a=2, b=2, c=2", {5, 7}, cuts(2, {2}, true), false}};
}

int64_t pairs_to_compare(int64_t all, bool every_pair) {
  const char* text = std::getenv("SHARDPROOF_ALL_PAIRS");
  if (text == nullptr || std::string(text) != "1") return std::min(all, kPairs);
  return every_pair ? all : std::min(all, kAllPairs);
}

struct Comparison {
  int64_t pairs = 0, dearer = 0;
  int64_t certain = 0;  // plans that are reported to be optimal
  int64_t most = 0;     // the largest difference between the prices of two plans
};

// Compares the plans of one goal.
void compare_goal(ExhaustivePlanner& all, size_t goal, const PlannerOptions& options, bool even,
                  Comparison& comparison) {
  const std::vector<int64_t> prices = all.prices_to(goal);
  const Spec& to = all.specs()[goal];
  for (size_t at = 0; at < prices.size(); ++at) {
    if (prices[at] == ExhaustivePlanner::kNoPlan) continue;
    const Spec& from = all.specs()[at];
    const PlannerResult result = plan_redistribution(from, to, options);
    const auto price =
        static_cast<int64_t>(std::llround(result.price.primary * static_cast<double>(all.unit())));
    ++comparison.pairs;
    const auto least = static_cast<int64_t>(
        std::llround((result.price.primary - result.gap) * static_cast<double>(all.unit())));
    EXPECT_LE(least, prices[at]) << to_string(from) << " to " << to_string(to)
                                 << " is reported to be at most " << result.gap << " from optimal\n"
                                 << to_string(result.plan);
    comparison.certain += result.gap == 0 ? 1 : 0;
    // The planner may pass through specs that are not among the choices.
    if (price <= prices[at]) continue;
    ++comparison.dearer;
    comparison.most = std::max(comparison.most, price - prices[at]);
    const bool exact =
        even || (options.moves == PlanMoves::all && !from.has_partial() && !to.has_partial());
    if (exact)
      ADD_FAILURE() << to_string(from) << " to " << to_string(to) << " costs "
                    << result.price.primary << ", and "
                    << static_cast<double>(prices[at]) / static_cast<double>(all.unit())
                    << " is possible\n"
                    << to_string(result.plan);
  }
}

void compare(const Universe& universe, PlanMoves moves, bool every_pair) {
  ExhaustivePlanner all(Mesh::parse(universe.mesh), universe.shape, universe.choices,
                        moves == PlanMoves::all);
  const auto count = static_cast<int64_t>(all.specs().size());
  const int64_t pairs = pairs_to_compare(count * count, every_pair);
  const int64_t goals = (pairs + count - 1) / count;
  PlannerOptions options;
  options.moves = moves;
  const Rng rng(20, 0);
  Comparison comparison;
  for (int64_t g = 0; g < goals; ++g) {
    const int64_t drawn = rng.integer(static_cast<uint64_t>(g), 0, count);
    compare_goal(all, static_cast<size_t>(goals == count ? g : drawn), options, universe.even,
                 comparison);
  }
  fmt::print(
      "{} {}{}: {} specs, {} pairs, {} reported optimal, {} cost more, by at most {:.1f} B\n",
      universe.mesh, to_string(universe.shape), moves == PlanMoves::all ? "" : " without exchange",
      count, comparison.pairs, comparison.certain, comparison.dearer,
      static_cast<double>(comparison.most) / static_cast<double>(all.unit()));
}

TEST(ExhaustivePlans, SmallMeshes_PricesAreTheLowest) {
  for (const Universe& universe : small_meshes()) compare(universe, PlanMoves::all, true);
}

TEST(ExhaustivePlans, ThreeAxes_PricesAreTheLowest) {
  for (const Universe& universe : three_axes()) compare(universe, PlanMoves::all, false);
}

TEST(ExhaustivePlans, Collectives_PricesAreTheLowest) {
  for (const Universe& universe : small_meshes()) compare(universe, PlanMoves::collectives, true);
}

}  // namespace
}  // namespace shardproof::testing::exhaustive_plans_test
