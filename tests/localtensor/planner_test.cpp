// Tests planner.h against an exhaustive search that uses only the definition of a legal step.
#include "shardproof/localtensor/plan/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <optional>

#include "shardproof/localtensor/plan/exchange_volume.h"
#include "shardproof/localtensor/plan/search_lower_bound.h"
#include "shardproof/localtensor/plan/step_pieces.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/tests/few_draws.h"
#include "shardproof/tests/localtensor/spec_corpus.h"

namespace shardproof::planner_test {
namespace {

using corpus::all_specs;
using corpus::numbered;

// Returns the kind of step that could lead from one partial status to the other, if any.
std::optional<StepKind> kind_of(const Placement& from, const Placement& to) {
  if (from.is_replicate()) return StepKind::local;
  if (from.is_shard() && to.is_partial()) return StepKind::local;
  if (from.is_shard()) return to.is_shard() ? StepKind::all_to_all : StepKind::all_gather;
  if (to.is_partial()) return std::nullopt;
  return to.is_shard() ? StepKind::reduce_scatter : StepKind::all_reduce;
}

bool same_status(const Placement& a, const Placement& b) {
  return a.is_replicate() == b.is_replicate() && a.is_shard() == b.is_shard();
}

// Returns the price of the cheapest single step by the definition: every set of axes, every kind,
// in pieces if it exceeds the limit. Steps that make partials are left out: as a detour they would
// save bytes, but add zeros to values.
double edge(const Spec& from, const Spec& to, std::optional<int64_t> limit) {
  double best = std::numeric_limits<double>::infinity();
  PlanStep relabels{StepKind::local, {}, from, to};
  if (from.same_ownership(to)) return !limit || cut_to_limit(relabels, *limit) ? 0 : best;
  for (int axis = 0; axis < from.mesh().axis_count(); ++axis)
    if (to.placement(axis).is_partial() && !from.placement(axis).is_partial()) return best;
  const int axes = from.mesh().axis_count();
  for (int set = 1; set < 1 << axes; ++set) {
    PlanStep step{StepKind::local, {}, from, to};
    std::optional<StepKind> kind;
    bool possible = true;
    for (int axis = 0; axis < axes && possible; ++axis) {
      const Placement &a = from.placement(axis), &b = to.placement(axis);
      if ((set >> axis & 1) == 0) {
        possible = same_status(a, b);
        continue;
      }
      const auto own = kind_of(a, b);
      possible =
          own.has_value() && (!kind || *kind == *own) && !(a.is_replicate() && b.is_replicate());
      kind = own;
      step.axes.push_back(axis);
    }
    if (!possible) continue;
    step.kind = *kind;
    if (!corpus::is_legal(step) || (limit && !cut_to_limit(step, *limit))) continue;
    best = std::min(best, price_without_topology(step).primary);
  }
  return best;
}

// The distances between all pairs of specs.
std::vector<std::vector<double>> exhaustive(const std::vector<Spec>& specs,
                                            std::optional<int64_t> limit = std::nullopt) {
  const size_t n = specs.size();
  std::vector<std::vector<double>> bytes(n, std::vector<double>(n));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) bytes[i][j] = i == j ? 0 : edge(specs[i], specs[j], limit);
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) bytes[i][j] = std::min(bytes[i][j], bytes[i][k] + bytes[k][j]);
  return bytes;
}

bool all_axes_move(const Spec& from, const Spec& to) {
  const PlacementStates states(from, to, PlacementStates::Axes::needed);
  return std::popcount(states.active()) == from.mesh().axis_count();
}

void expect_optimal(const char* mesh_text, const Dims& shape,
                    const std::vector<Placement>& choices) {
  const Mesh mesh = Mesh::parse(mesh_text);
  const std::vector<Spec> specs = all_specs(mesh, shape, DType::f32, choices);
  const auto bytes = exhaustive(specs);
  int64_t optimal = 0, narrowed = 0;
  for (size_t i = 0; i < specs.size(); ++i)
    for (size_t j = 0; j < specs.size(); ++j) {
      const double found = plan_redistribution(specs[i], specs[j]).price.primary;
      const PlacementStates states(specs[i], specs[j], PlacementStates::Axes::needed);
      if (specs[j].has_partial()) continue;
      const bool all_move = std::popcount(states.active()) == mesh.axis_count();
      if (!all_move) {  // axes that need not move must not be used, even if that would save bytes
        ++narrowed;
        continue;
      }
      ++optimal;
      EXPECT_LE(found, bytes[i][j] + 1e-9)
          << to_string(specs[i]) << " to " << to_string(specs[j]) << "\n"
          << to_string(plan_redistribution(specs[i], specs[j]).plan);
    }
  std::printf("%s %s: %zu specs, %lld pairs at the optimum, %lld with axes that stay\n", mesh_text,
              to_string(shape).c_str(), specs.size(), static_cast<long long>(optimal),
              static_cast<long long>(narrowed));
}

TEST(Planner, Price_IsTheOptimumOfAnExhaustiveSearch) {
  expect_optimal("a=4", {8, 4}, {R(), S(0), S(0, 2), S(1), P()});
  expect_optimal("a=2, b=2", {16}, {R(), S(0), S(0, 2), S(0, 4), P()});
  expect_optimal("a=2, b=2", {8, 4}, {R(), S(0), S(0, 2), S(1), S(1, 2), P()});
  expect_optimal("a=2, b=3", {12, 6}, {R(), S(0), S(1), P()});
  expect_optimal("a=2, b=3", {7, 5}, {R(), S(0), S(1), P()});
  expect_optimal("a=2, b=2, c=2", {8, 8}, {R(), S(0), S(1)});
}

// Without partials every plan sends exactly what ranks miss, in one call (docs/plans.md). So no
// detour through a third placement sends less.
TEST(Planner, EveryPlacement_IsReachedAtTheLowerBound) {
  for (const auto& [text, shape] : {std::pair{"a=2, b=2, c=2", Dims{8, 8}},
                                    {"a=2, b=2, c=2", Dims{5, 3}},
                                    {"a=2, b=3", Dims{7, 4}}}) {
    const Mesh mesh = Mesh::parse(text);
    const std::vector<Spec> specs = all_specs(mesh, shape, DType::f32, {R(), S(0), S(1)});
    std::vector<std::vector<double>> sent(specs.size(), std::vector<double>(specs.size()));
    for (size_t i = 0; i < specs.size(); ++i)
      for (size_t j = 0; j < specs.size(); ++j) {
        const PlannerResult result = plan_redistribution(specs[i], specs[j]);
        const int64_t calls = price_of(result.plan, price_by_bytes).calls;
        const Fraction missing = missing_elements(specs[i], specs[j]) * 4;
        sent[i][j] = result.price.primary - static_cast<double>(calls * kBytesOfCall);
        EXPECT_EQ(calls, missing == 0 ? 0 : 1) << to_string(result.plan);
        EXPECT_NEAR(sent[i][j], missing.to_double(), 1e-6) << to_string(result.plan);
        EXPECT_EQ(result.gap, 0);
      }
    for (size_t i = 0; i < specs.size(); ++i)
      for (size_t j = 0; j < specs.size(); ++j)
        for (size_t k = 0; k < specs.size(); ++k)
          ASSERT_LE(sent[i][k], sent[i][j] + sent[j][k] + 1e-6);
  }
}

// A search that may settle one state only returns a plan no worse than gather and slice.
TEST(Planner, InterruptedSearch_IsNeverWorseThanGreedy) {
  const Mesh mesh = Mesh::parse("a=2, b=2, c=2");
  const std::vector<Spec> specs =
      all_specs(mesh, {8, 6}, DType::f32, {R(), S(0), S(1), P(ReduceOp::sum)});
  for (const PlanMoves moves : {PlanMoves::all, PlanMoves::collectives})
    for (size_t pair = 0; pair < specs.size() * specs.size(); pair += 37) {
      const Spec &from = specs[pair / specs.size()], &to = specs[pair % specs.size()];
      PlannerOptions options;
      options.moves = moves;
      const PlannerResult best = plan_redistribution(from, to, options);
      options.max_states = 1;
      const PlannerResult interrupted = plan_redistribution(from, to, options);
      const std::string what = to_string(from) + " to " + to_string(to);
      EXPECT_LE(interrupted.price, interrupted.gather_then_slice) << what;
      EXPECT_GE(interrupted.price.primary, best.price.primary) << what;
      EXPECT_LE(interrupted.price.primary, best.price.primary + interrupted.gap + 1e-6) << what;
    }
}

// A plan that may cut over replicated axes costs no more, and sometimes less. Example: a sum over a
// costs less if each rank along b reduces one half and an all_gather joins the halves.
TEST(Planner, UseReplicas_CostsNoMore) {
  const Mesh mesh = Mesh::parse("a=4, b=2");
  const std::vector<Spec> specs =
      all_specs(mesh, Dims{1024, 1024}, DType::f32, {R(), S(0), P(ReduceOp::sum)});
  const Tensor x = numbered(DType::f32, Dims{1024, 1024});
  int cheaper = 0;
  for (const Spec& from : specs)
    for (const Spec& to : specs) {
      if (to.has_partial()) continue;
      PlannerOptions options;
      options.use_replicas = true;
      const PlannerResult needed = plan_redistribution(from, to);
      const PlannerResult all = plan_redistribution(from, to, options);
      ASSERT_LE(all.price.primary, needed.price.primary) << to_string(from) << to_string(to);
      if (all.price.primary < needed.price.primary && ++cheaper < 5) {
        EXPECT_TRUE(bit_equal(assemble(replay(all.plan, split(x, from)), to), 0, x, 0));
      }
    }
  EXPECT_GT(cheaper, 0);
}

// Returns the price of the cheapest sequence of steps that keeps to a limit. The source is held in
// addition to all steps except the first.
std::vector<std::vector<double>> exhaustive_within(const std::vector<Spec>& specs, int64_t limit) {
  std::map<int64_t, std::vector<std::vector<double>>> later;  // by bytes of the source
  std::vector<std::vector<double>> bytes(specs.size(), std::vector<double>(specs.size(), 0));
  for (size_t i = 0; i < specs.size(); ++i) {
    const int64_t source = specs[i].max_local_elements() * size_of(specs[i].dtype());
    const auto [rest, fresh] = later.try_emplace(source);
    if (fresh) rest->second = exhaustive(specs, limit - source);
    std::vector<double> first(specs.size(), 0);
    for (size_t k = 0; k < specs.size(); ++k)
      if (k != i) first[k] = edge(specs[i], specs[k], limit);
    for (size_t j = 0; j < specs.size(); ++j) {
      bytes[i][j] = first[j];
      for (size_t k = 0; k < specs.size(); ++k)
        if (k != i) bytes[i][j] = std::min(bytes[i][j], first[k] + rest->second[k][j]);
    }
  }
  return bytes;
}

// Under a limit, no sequence of steps, each in the fewest pieces that fit, is cheaper than the
// plan. A pair is refused only if there is no such sequence.
TEST(Planner, PeakLimit_TakesTheOptimumOfAnExhaustiveSearch) {
  const Mesh mesh = Mesh::parse("a=2, b=2");
  const std::vector<Spec> specs = all_specs(mesh, {8, 6}, DType::f32, {R(), S(0), S(1), P()});
  int64_t equal = 0, refused = 0;
  PlannerOptions options;
  for (const int64_t limit : {500, 400, 330, 270, 220, 160}) {
    options.peak_limit = limit;
    const auto bytes = exhaustive_within(specs, limit);
    for (size_t i = 0; i < specs.size(); ++i)
      for (size_t j = 0; j < specs.size(); ++j) {
        if (specs[j].has_partial() || i == j) continue;
        const std::string what =
            fmt::format("{} -> {} {}", to_string(specs[i]), to_string(specs[j]), limit);
        try {
          const double found = plan_redistribution(specs[i], specs[j], options).price.primary;
          if (!all_axes_move(specs[i], specs[j])) continue;
          EXPECT_LE(found, bytes[i][j] + 1e-9) << what;
          ++equal;
        } catch (const Error&) {
          EXPECT_EQ(bytes[i][j], std::numeric_limits<double>::infinity()) << what;
          ++refused;
        }
      }
  }
  std::printf("%lld pairs at the optimum, %lld refused\n", static_cast<long long>(equal),
              static_cast<long long>(refused));
}

// Each smaller limit gives a plan that keeps to it. Below the smallest one there is none, and the
// message has it.
TEST(Planner, PeakLimit_IsKept) {
  const Mesh mesh = Mesh::parse("a=2, b=3");
  const std::vector<Spec> specs =
      all_specs(mesh, Dims{6, 5}, DType::f32, {R(), S(0), S(1), P(ReduceOp::sum)});
  int limited = 0;
  for (size_t i = 0; i < specs.size(); ++i)
    for (size_t j = 0; j < specs.size(); ++j) {
      PlannerOptions options;
      try {
        plan_redistribution(specs[i], specs[j]);
      } catch (const Error&) {
        continue;  // between two partials
      }
      int64_t peak = std::numeric_limits<int64_t>::max();
      for (int step = 0; specs[i] != specs[j] && step < 20; ++step) {
        try {
          const PlannerResult result = plan_redistribution(specs[i], specs[j], options);
          EXPECT_LT(peak_of(result.plan), peak);
          peak = peak_of(result.plan);
          options.peak_limit = peak - 1;
          ++limited;
        } catch (const Error& error) {
          EXPECT_NE(error.message().find(fmt::format("that works is {} B", peak)),
                    std::string::npos)
              << error.message() << "\n"
              << to_string(specs[i]) << " -> " << to_string(specs[j]);
          break;
        }
      }
    }
  EXPECT_GT(limited, 100);
}

// Both cuts give rank 0 the only element: source and target are all that a rank ever holds.
TEST(Planner, SmallestPeakLimit_WithoutData_IsSourceAndTarget) {
  const Mesh mesh = Mesh::parse("a=6");
  const Spec from = Spec::parse("a:S(0, split=2)", mesh, {1}, DType::f32);
  const Spec to = Spec::parse("a:S(0)", mesh, {1}, DType::f32);
  for (const PlanMoves moves : {PlanMoves::all, PlanMoves::collectives}) {
    PlannerOptions options;
    options.moves = moves;
    options.peak_limit = 8;
    EXPECT_EQ(peak_of(plan_redistribution(from, to, options).plan), 8);
    options.peak_limit = 7;
    try {
      plan_redistribution(from, to, options);
      ADD_FAILURE() << "a plan within 7 B";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("that works is 8 B"), std::string::npos) << error.message();
    }
  }
}

// After the reduction every rank has what it needs, though the cuts have other names.
TEST(Planner, StepAfterReduction_WithoutData_IsLocal) {
  const Mesh mesh = Mesh::parse("a=2, c=2");
  const Spec from = Spec::parse("a:S(0) c:P(sum)", mesh, {1, 1}, DType::f32);
  const Spec to = Spec::parse("a:S(1) c:S(0)", mesh, {1, 1}, DType::f32);
  const Plan plan = plan_redistribution(from, to).plan;
  ASSERT_EQ(plan.steps.size(), 2U);
  EXPECT_EQ(plan.steps[0].kind, StepKind::reduce_scatter);
  EXPECT_EQ(plan.steps[1].kind, StepKind::local);
}

// The smallest limit of four axes follows from the last step, without a search of all plans. It is
// the source of 32 MiB, 4 MiB before and after, and two rows of 64 KiB.
TEST(Planner, SmallestPeakLimit_FollowsFromTheLastStep) {
  const Mesh mesh = Mesh::parse("a=2, b=2, c=2, d=2");
  const Dims shape = {64, 64, 64, 64};
  const Spec from = Spec::parse("a:S(1)", mesh, shape, DType::f32);
  const Spec to = Spec::parse("a:S(2) b:S(2) c:S(0) d:S(1)", mesh, shape, DType::f32);
  const int64_t smallest = (40 << 20) + (128 << 10);
  PlannerOptions options;
  options.moves = PlanMoves::collectives;
  options.peak_limit = smallest;
  EXPECT_EQ(peak_of(plan_redistribution(from, to, options).plan), smallest);
  PlacementStates states(from, to, PlacementStates::Axes::needed);
  states.prepare_moves(options.moves);
  EXPECT_EQ(states.least_of_last_step() * 4, 8 << 20 | 128 << 10);
  options.peak_limit = smallest - 1;
  EXPECT_THROW(plan_redistribution(from, to, options), Error);
}

// A price that counts padding, as seconds do, can be lower by a detour over another dim: here 360
// bytes by S(0), in place of 384. The planner does not find it, and claims no optimum.
TEST(Planner, PriceWithPadding_IsNotCalledOptimal_ForUnevenCuts) {
  const Mesh mesh = Mesh::parse("b=5");
  PlannerOptions options;
  options.price = [](const PlanStep& step) {
    return Price{average_of(bytes_sent(step)).to_double(), 0, 0};
  };
  for (const Dims& shape : {Dims{12, 6}, Dims{10, 5}}) {
    const auto spec = [&](const char* text) { return Spec::parse(text, mesh, shape, DType::f32); };
    const PlannerResult found = plan_redistribution(spec("b:S(1)"), spec("b:R"), options);
    const double detour =
        plan_redistribution(spec("b:S(1)"), spec("b:S(0)"), options).price.primary +
        plan_redistribution(spec("b:S(0)"), spec("b:R"), options).price.primary;
    EXPECT_EQ(found.gap > 0, shape[0] == 12) << to_string(shape);
    EXPECT_LE(found.price.primary - found.gap, detour) << to_string(shape);
  }
}

// If every axis moves, no detour is cheaper than the plan.
TEST(Planner, TriangleInequality) {
  const Mesh mesh = Mesh::parse("a=2, b=2, c=2");
  for (const Dims& shape : {Dims{16, 8}, Dims{13, 2, 13}}) {
    const std::vector<Spec> specs = all_specs(mesh, shape, DType::f32, {S(0), S(1)});
    std::vector<std::vector<double>> bytes(specs.size(), std::vector<double>(specs.size()));
    for (size_t i = 0; i < specs.size(); ++i)
      for (size_t j = 0; j < specs.size(); ++j)
        bytes[i][j] = plan_redistribution(specs[i], specs[j]).price.primary;
    for (size_t i = 0; i < specs.size(); ++i)
      for (size_t k = 0; k < specs.size(); ++k) {
        if (!all_axes_move(specs[i], specs[k])) continue;
        for (size_t j = 0; j < specs.size(); ++j)
          EXPECT_LE(bytes[i][k], bytes[i][j] + bytes[j][k] + 1e-9)
              << to_string(specs[i]) << " -> " << to_string(specs[j]) << " -> "
              << to_string(specs[k]);
      }
  }
}

// A chain of redistributions through every order in which three axes can cut keeps the values.
TEST(Planner, ChainOverAllOrders) {
  const Mesh mesh = Mesh::parse("a=2, b=2, c=2");
  for (const Dims& shape : {Dims{16, 8}, Dims{8, 16, 32}, Dims{17, 5}, Dims{33, 16, 8, 1}}) {
    std::vector<Placement> cuts;
    for (int d = 0; d < shape.size(); ++d) cuts.push_back(S(d));
    std::vector<Spec> specs = all_specs(mesh, shape, DType::f32, cuts);
    const std::vector<size_t> count = {0, 0, 24, 60, 120};
    EXPECT_EQ(specs.size(), count[static_cast<size_t>(shape.size())]);
    const Tensor x = numbered(DType::f32, shape);
    LocalTensor value = split(x, specs[0]);
    for (size_t i = 1; i < specs.size(); ++i) {
      value = replay(plan_redistribution(specs[i - 1], specs[i]).plan, value);
      ASSERT_TRUE(bit_equal(assemble(value, specs[i]), 0, x, 0)) << to_string(specs[i]);
    }
  }
}

// At 5 axes an interrupted search once gathered 32 MiB; a rank misses 2 MiB. All axes but e are
// cut by free slices, so the exchange has groups of two ranks.
TEST(Planner, FiveAxes_TakeOneCall) {
  const Mesh mesh = Mesh::parse("a=2, b=2, c=2, d=2, e=2");
  const auto spec = [&](const char* text) {
    return Spec::parse(text, mesh, {64, 64, 64, 64}, DType::f32);
  };
  const Spec from = spec("e:S(2)"), to = spec("a:S(2) b:S(0) c:S(3) d:S(2)");
  const PlannerResult result = plan_redistribution(from, to);
  EXPECT_EQ(price_of(result.plan, price_by_bytes).calls, 1) << to_string(result.plan);
  const PlanStep& call = result.plan.steps.back();
  EXPECT_EQ(call.kind, StepKind::exchange);
  EXPECT_EQ(call.axes, std::vector<int>{4});
  EXPECT_EQ(cost_of(call).bytes, Fraction(2 << 20)) << to_string(result.plan);
  PlannerOptions collectives;
  collectives.moves = PlanMoves::collectives;
  collectives.max_states = 500;
  const PlannerResult named = plan_redistribution(from, to, collectives);
  EXPECT_LE(named.price.primary, (4 << 20) + 4.0 * kBytesOfCall) << to_string(named.plan);
}

// The lower bounds of the byte price save states and change no price. The same price as a function
// of the caller is searched without bounds.
TEST(Planner, LowerBounds_ChangeNoPrice) {
  PlannerOptions plain;
  plain.price = [](const PlanStep& step) { return price_without_topology(step); };
  const std::vector<std::vector<Placement>> orders = {
      {S(0), S(1), S(2)}, {S(1), S(2), S(0)}, {S(1), S(0), S(2)}, {S(1), S(1), S(0)}};
  for (const auto& [text, shape] : {std::pair{"a=2, b=2, c=2", Dims{8, 8, 8}},
                                    {"a=2, b=3, c=2", Dims{12, 12, 12}},
                                    {"a=2, b=2, c=2", Dims{8, 7, 8}}}) {
    const Mesh mesh = Mesh::parse(text);
    for (const auto& from : orders)
      for (const auto& to : orders) {
        const Spec a(mesh, from, shape, DType::f32), b(mesh, to, shape, DType::f32);
        const PlannerResult bounded = plan_redistribution(a, b);
        const PlannerResult blind = plan_redistribution(a, b, plain);
        EXPECT_NEAR(bounded.price.primary, blind.price.primary, 1e-9 * blind.price.primary)
            << to_string(a) << " to " << to_string(b);
        EXPECT_LE(bounded.states, blind.states);
      }
  }
}

// The same without exchange. Both searches have the same moves. The bounded search may find a plan
// that moves several axes to layouts that no step of the other search tries.
TEST(Planner, LowerBoundsOfShuffles_RaiseNoPrice) {
  PlannerOptions options, plain;
  options.moves = plain.moves = PlanMoves::collectives;
  plain.price = [](const PlanStep& step) { return price_without_topology(step); };
  const std::vector<std::vector<Placement>> orders = {{S(0), S(1)}, {S(1), S(0)}, {S(1), R()},
                                                      {R(), S(1)},  {S(0), S(0)}, {R(), R()}};
  for (const auto& [text, shape] : {std::pair{"a=2, b=2", Dims{16, 16}},
                                    {"a=2, b=3", Dims{24, 24}},
                                    {"a=2, b=3", Dims{25, 24}},
                                    {"a=4, b=3", Dims{13, 14, 40}}}) {
    const Mesh mesh = Mesh::parse(text);
    for (const auto& from : orders)
      for (const auto& to : orders) {
        const Spec a(mesh, from, shape, DType::f32), b(mesh, to, shape, DType::f32);
        if (a == b) continue;
        const PlannerResult bounded = plan_redistribution(a, b, options);
        const PlannerResult blind = plan_redistribution(a, b, plain);
        EXPECT_LE(bounded.price.primary, blind.price.primary + 1e-6)
            << to_string(a) << " to " << to_string(b);
        EXPECT_LE(bounded.states, blind.states);
        EXPECT_EQ(bounded.gap, 0);
      }
  }
}

// Returns the lower bound of the price of plans without exchange.
double bound_of(const Spec& from, const Spec& to) {
  PlacementStates states(from, to, PlacementStates::Axes::all);
  states.prepare_moves(PlanMoves::collectives);
  if (!states.is_shuffle() && !states.is_chunked()) return 0;
  const Int128 world = states.members(states.active()),
               unit = world * world * states.frozen_parts();
  const int64_t whole = element_count(from.shape()) * size_of(from.dtype());
  ShuffleBound bound(states,
                     {world * world * whole, unit * kBytesOfCall, whole / states.frozen_parts()});
  return static_cast<double>(bound.least(states.start()).primary) / static_cast<double>(unit);
}

// The bound is at most the price of each single step, and of what remains of each plan.
TEST(ShuffleBound, StepsAndPlans_CostNoLess) {
  PlannerOptions options;
  options.moves = PlanMoves::collectives;
  int64_t single = 0;
  for (const auto& [text, shape] : {std::pair{"a=2, b=3", Dims{13, 20}},
                                    {"a=2, b=3, c=2", Dims{13, 12, 10}},
                                    {"a=2, b=2, c=2", Dims{16, 8}}}) {
    const std::vector<Spec> specs =
        all_specs(Mesh::parse(text), shape, DType::f32, {R(), S(0), S(0, 2), S(1)});
    const size_t pairs = specs.size() * specs.size(), stride = pairs / (kFewDraws ? 100 : 1500) + 1;
    for (size_t pair = 0; pair < pairs; pair += stride) {
      const Spec &from = specs[pair / specs.size()], &to = specs[pair % specs.size()];
      const double step = edge(from, to, std::nullopt);
      if (step < std::numeric_limits<double>::infinity() && ++single > 0) {
        EXPECT_LE(bound_of(from, to), step + 1e-6) << to_string(from) << " to " << to_string(to);
      }
      const Plan plan = plan_redistribution(from, to, options).plan;
      double rest = 0;
      for (size_t i = plan.steps.size(); i-- > 0;) {
        rest += price_without_topology(plan.steps[i]).primary;
        EXPECT_LE(bound_of(plan.steps[i].from, to), rest + 1e-6) << to_string(plan);
      }
    }
  }
  EXPECT_GT(single, kFewDraws ? 5 : 100);
}

// Even shuffles of axes of one prime are planned from the lower bound without a search.
TEST(Planner, EvenShuffles_NeedNoSearch) {
  const Mesh mesh = Mesh::parse("a=2, b=2, c=4");
  PlannerOptions options;
  options.moves = PlanMoves::collectives;
  std::vector<Spec> specs;
  for (const Placement& a : {R(), S(0), S(1), S(2)})
    for (const Placement& b : {R(), S(0), S(1), S(2)})
      for (const Placement& c : {R(), S(0), S(1), S(2)})
        specs.emplace_back(mesh, std::vector{a, b, c}, Dims{64, 64, 64}, DType::f32);
  for (size_t i = 0; i < specs.size(); i += kFewDraws ? 7 : 1)
    for (const Spec& to : specs)
      EXPECT_LE(plan_redistribution(specs[i], to, options).states, 1)
          << to_string(specs[i]) << " to " << to_string(to);
}

// Axes that move to spare digits get even ones if there are any, also next to a dim that they
// cut unevenly.
TEST(Planner, EvenDigits_AreUsedWithAnUnevenDim) {
  const Mesh mesh = Mesh::parse("a=2, b=2, c=2, d=2");
  PlannerOptions options;
  options.moves = PlanMoves::collectives;
  const auto spec = [&](const char* text) {
    return Spec::parse(text, mesh, {61, 64, 128}, DType::f32);
  };
  const PlannerResult result = plan_redistribution(spec("a:S(1) b:S(2) c:S(2, after=d) d:S(2)"),
                                                   spec("b:S(1, after=d) d:S(1)"), options);
  EXPECT_EQ(result.price.primary, 724480);
  EXPECT_EQ(result.states, 0);
}

// Uneven cuts by four axes: all move to spare digits in one all_to_all and to their goals in
// another. A plan that moves one or two axes at a time costs 3 MB.
TEST(Planner, UnevenCuts_MoveToSpareDigitsTogether) {
  const Mesh mesh = Mesh::parse("a=2, b=3, c=4, d=2");
  const auto spec = [&](const char* text) {
    return Spec::parse(text, mesh, {61, 64, 50, 64}, DType::f32);
  };
  PlannerOptions options;
  options.moves = PlanMoves::collectives;
  const PlannerResult result = plan_redistribution(spec("a:S(3) b:S(2) c:S(1) d:S(3)"),
                                                   spec("a:S(2) b:S(1) c:S(3) d:S(0)"), options);
  EXPECT_EQ(result.plan.steps.size(), 2U) << to_string(result.plan);
  EXPECT_LE(result.price.primary, 2.149e6);
  EXPECT_EQ(result.gap, 0);
  EXPECT_LE(result.states, 5);
}

namespace {

// Plans a redistribution of an f32 tensor with named collectives alone.
PlannerResult plan_by_collectives(const char* axes, const Dims& shape, const char* from,
                                  const char* to) {
  const Mesh mesh = Mesh::parse(axes);
  PlannerOptions options;
  options.moves = PlanMoves::collectives;
  return plan_redistribution(Spec::parse(from, mesh, shape, DType::f32),
                             Spec::parse(to, mesh, shape, DType::f32), options);
}

}  // namespace

// Uneven cuts by six axes, which are moved together. A search without lower bound settles 14,633
// states and moves them one by one, for 2.6 MB.
TEST(Planner, UnevenCutsOfSixAxes_TakeFewStates) {
  const PlannerResult result = plan_by_collectives("a=2, b=3, c=2, d=3, e=2, f=2", {61, 64, 50, 64},
                                                   "a:S(3) b:S(3) c:S(3) d:S(3) e:S(2) f:S(1)",
                                                   "b:S(1) c:S(2) d:S(2) f:S(3)");
  EXPECT_LE(result.price.primary, 1.8785e6) << to_string(result.plan);
  EXPECT_EQ(result.gap, 0);
  EXPECT_LE(result.states, 10);
}

// On many ranks and two dims, the search starts from the first path of the bound. Moves of one axis
// at a time cost 14 MB.
TEST(Planner, UnevenCutsOfTwoDims_StartFromThePathOfTheBound) {
  const PlannerResult result = plan_by_collectives("a=2, b=3, c=2, d=3, e=2, f=2", {9999, 1001},
                                                   "b:S(0) e:S(0)", "c:S(0) d:S(0) e:S(0) f:S(0)");
  EXPECT_LE(result.price.primary, 4e6) << to_string(result.plan);
}

// The first path tries even spare digits on each of its ways: c moves to S(1, split=16), which
// sends less than a move to S(3).
TEST(Planner, EvenDigits_AreTriedOnEachPath) {
  const PlannerResult result = plan_by_collectives("a=2, b=3, c=4, d=2", {61, 64, 50, 64},
                                                   "b:S(1) c:S(1) d:S(0)", "a:S(1) c:S(1) d:S(1)");
  EXPECT_LE(result.price.primary, 4193633) << to_string(result.plan);
}

// If thirds become halves, a rank keeps one third or two. An all_to_all would pad its pieces to
// twice of what is missing.
TEST(Planner, PlacesThatDoNotNest_AreExchanged) {
  const Mesh mesh = Mesh::parse("a=2");
  const auto spec = [&](const char* text) { return Spec::parse(text, mesh, {1200}, DType::f32); };
  const PlannerResult result = plan_redistribution(spec("a:S(0, split=3)"), spec("a:S(0)"));
  ASSERT_EQ(result.plan.steps.size(), 1U) << to_string(result.plan);
  EXPECT_EQ(result.plan.steps[0].kind, StepKind::exchange);
  EXPECT_EQ(cost_of(result.plan.steps[0]).bytes.to_double(), 200 * 4);
}

// Four axes exchange their places, in one cycle or in two. All move to spare digits in one
// all_to_all and to their goals in another; each sends 15/16 of a part of 4 MiB.
TEST(Planner, FourAxesChangePlaces) {
  const Mesh mesh = Mesh::parse("a=2, b=2, c=2, d=2");
  const auto spec = [&](const char* text) {
    return Spec::parse(text, mesh, {64, 64, 64, 64}, DType::f32);
  };
  for (const char* to : {"a:S(1) b:S(2) c:S(3) d:S(0)", "a:S(1) b:S(0) c:S(3) d:S(2)"}) {
    PlannerOptions options;
    options.moves = PlanMoves::collectives;
    const Spec from = spec("a:S(0) b:S(1) c:S(2) d:S(3)");
    const PlannerResult result = plan_redistribution(from, spec(to), options);
    double bytes = 0;
    for (const PlanStep& step : result.plan.steps) bytes += cost_of(step).bytes.to_double();
    EXPECT_EQ(bytes, 2 * 15. / 16 * (4 << 20)) << to;
    EXPECT_EQ(result.plan.steps.size(), 2U) << to_string(result.plan);
    EXPECT_EQ(result.states, 0) << to;
    EXPECT_EQ(result.gap, 0) << to;
  }
}

TEST(Planner, ThousandsOfRanks) {
  const Mesh mesh = Mesh::parse("dp=64, cp=8, tp=16");
  const Dims shape = {4096, 8192, 128};
  const auto spec = [&](const char* text) { return Spec::parse(text, mesh, shape, DType::bf16); };
  for (const char* to :
       {"R", "dp:S(0) cp:S(1)", "dp:S(1) cp:S(0) tp:S(0)", "tp:S(0) dp:S(0, after=tp)"}) {
    const PlannerResult result = plan_redistribution(spec("dp:S(0) cp:S(1) tp:P(sum)"), spec(to));
    EXPECT_LE(result.price, result.gather_then_slice) << to;
    EXPECT_LT(result.states, 20000);
  }
}

// With a price in which a call costs more than all bytes, the plan with the fewest calls is chosen.
TEST(Planner, PriceOfTheCaller_DecidesThePlan) {
  const Mesh mesh = Mesh::parse("a=2, b=4");
  const auto spec = [&](const char* text) { return Spec::parse(text, mesh, {64, 64}, DType::f32); };
  PlannerOptions options;
  options.price = [](const PlanStep& step) {
    const StepCost cost = cost_of(step);
    return Price{static_cast<double>(cost.calls), cost.calls, cost.peak_bytes};
  };
  const Spec from = spec("a:S(0) b:S(1)"), to = spec("a:S(1) b:S(0)");
  options.moves = PlanMoves::collectives;
  EXPECT_EQ(plan_redistribution(from, to, options).price.calls, 1);
  options.price = [](const PlanStep& step) {
    const StepCost cost = cost_of(step);
    return Price{cost.bytes.to_double(), cost.calls, cost.peak_bytes};
  };
  EXPECT_GT(plan_redistribution(from, to, options).price.calls, 1);
}

}  // namespace
}  // namespace shardproof::planner_test
