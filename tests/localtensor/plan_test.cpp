// Tests plan.h: the laws of plans, by brute force over small meshes: replay, legality, price, text.
#include "shardproof/localtensor/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/tests/few_draws.h"
#include "shardproof/tests/localtensor/spec_corpus.h"

namespace shardproof::plan_test {
namespace {

using corpus::all_specs;
using corpus::cuts_of;
using corpus::numbered;

void expect_same(const LocalTensor& a, const LocalTensor& b, const std::string& what) {
  ASSERT_EQ(a.lanes(), b.lanes()) << what;
  for (const Block& block : a.blocks())
    for (int64_t i = 0; i < block.lanes.size(); ++i)
      ASSERT_TRUE(bit_equal(a.of_rank(block.lanes[i]), 0, b.of_rank(block.lanes[i]), 0))
          << what << " rank " << block.lanes[i];
}

void expect_laws(const Spec& from, const Spec& to, const Tensor& x) {
  const PlannerResult result = plan_redistribution(from, to);
  const std::string what =
      to_string(from) + "  to  " + placements_text(to) + "\n" + to_string(result.plan);
  for (const PlanStep& step : result.plan.steps) ASSERT_TRUE(corpus::is_legal(step)) << what;
  EXPECT_EQ(result.plan.steps.empty(), from == to) << what;
  EXPECT_LE(result.price, result.gather_then_slice) << what;
  EXPECT_EQ(parse_plan(to_string(result.plan), from, to), result.plan) << what;
  const LocalTensor input = split(x, from, PartialFill::exact, 11);
  const LocalTensor output = replay(result.plan, input);
  if (to.has_partial())
    ASSERT_TRUE(bit_equal(assemble(output, to), 0, x, 0)) << what;
  else
    expect_same(output, split(x, to), what);
  const Plan naive = gather_then_slice(from, to);
  ASSERT_TRUE(bit_equal(assemble(replay(naive, input), to), 0, x, 0)) << what;
}

void expect_laws_of_all(const char* mesh_text, const Dims& shape, bool strided, size_t stride = 1) {
  const Mesh mesh = Mesh::parse(mesh_text);
  const Tensor x = numbered(DType::f32, shape);
  std::vector<Placement> choices = cuts_of(shape, strided);
  choices.push_back(P(ReduceOp::sum));
  const std::vector<Spec> specs = all_specs(mesh, shape, DType::f32, choices);
  size_t pair = 0;
  for (const Spec& from : specs)
    for (const Spec& to : specs) {
      if (pair++ % (kFewDraws ? 5 * stride : stride) != 0) continue;
      expect_laws(from, to, x);
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(Plan, LawsOnOneAxis) {
  for (const char* mesh : {"a=2", "a=3", "a=4"})
    for (const Dims& shape : {Dims{6}, Dims{5, 2}, Dims{3, 4}, Dims{0, 3}, Dims{}})
      expect_laws_of_all(mesh, shape, true);
}

TEST(Plan, LawsOnTwoAxes) {
  expect_laws_of_all("a=2, b=2", {8}, true);
  expect_laws_of_all("a=2, b=2", {5}, true);
  expect_laws_of_all("a=2, b=3", {12}, true);
  expect_laws_of_all("a=2, b=3", {7}, true);
  expect_laws_of_all("a=2, b=2", {4, 4}, true, 23);
  expect_laws_of_all("a=2, b=3", {5, 7}, true, 31);
  expect_laws_of_all("a=3, b=1", {4, 4}, false);
}

TEST(Plan, LawsOnThreeAxes) {
  expect_laws_of_all("a=2, b=2, c=2", {8, 8}, false, 31);
  expect_laws_of_all("a=2, b=2, c=2", {5, 3}, false, 37);
  expect_laws_of_all("a=2, b=2, c=2", {8}, true, 41);
  expect_laws_of_all("a=2, b=2, c=2", {7}, true, 43);
}

TEST(Plan, EveryPartialOperator) {
  const Mesh mesh = Mesh::parse("a=2, b=3");
  const Dims shape = {4, 6};
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                      ReduceOp::band, ReduceOp::bor, ReduceOp::bxor})
    for (DType dtype : {DType::i32, DType::f64}) {
      if (dtype == DType::f64 && op >= ReduceOp::band) continue;
      const Tensor x = numbered(dtype, shape);
      const auto specs = all_specs(mesh, shape, dtype, {R(), S(0), S(1), P(op)});
      for (const Spec& from : specs)
        for (const Spec& to : specs) expect_laws(from, to, x);
    }
}

TEST(Plan, SumWithAverage) {
  const Mesh mesh = Mesh::parse("a=2, b=2, c=2");
  const Dims shape = {8, 3};
  const Tensor x = numbered(DType::f64, shape);
  const Spec mixed(mesh, {P(ReduceOp::avg), P(ReduceOp::avg), P(ReduceOp::sum)}, shape, DType::f64);
  const Spec whole = Spec::replicated(mesh, shape, DType::f64);
  expect_laws(mixed, whole, x);
  EXPECT_EQ(plan_redistribution(mixed, whole).plan.steps.size(), 1u);
  const Spec cut(mesh, {S(0), S(0), S(0)}, shape, DType::f64);
  expect_laws(mixed, cut, x);
  EXPECT_EQ(plan_redistribution(mixed, cut).plan.steps.size(), 1u);
}

TEST(Plan, ExplicitSizes) {
  const Mesh mesh = Mesh::parse("a=2, b=3");
  const Dims shape = {10, 6};
  const Tensor x = numbered(DType::f32, shape);
  std::vector<Spec> specs = all_specs(mesh, shape, DType::f32,
                                      {R(), S(0), S(1), Shard{0, 1, {7, 3}}, Shard{0, 1, {3, 0, 7}},
                                       Shard{1, 1, {1, 2, 3}}, P(ReduceOp::sum)});
  const auto inner = all_specs(mesh, shape, DType::f32, {S(0), Shard{0, 1, {1, 0, 4}}, S(1, 2)});
  specs.insert(specs.end(), inner.begin(), inner.end());
  size_t pair = 0;
  for (const Spec& from : specs)
    for (const Spec& to : specs)
      if (pair++ % 3 == 0) expect_laws(from, to, x);
}

TEST(Plan, ExpectedSteps) {
  const Mesh mesh = Mesh::parse("dp=2, tp=4");
  const Dims shape = {8, 12};
  const auto spec = [&](const char* text) { return Spec::parse(text, mesh, shape, DType::f32); };
  const auto plan = [&](const char* from, const char* to) {
    return to_string(plan_redistribution(spec(from), spec(to)).plan);
  };
  EXPECT_EQ(plan("dp:S(0)", "dp:S(0) tp:S(1)"), "1  local over tp  dp:S(0) -> dp:S(0) tp:S(1)\n");
  EXPECT_EQ(plan("dp:S(0) tp:S(1)", "dp:S(0) tp:S(0)"),
            "1  all_to_all over tp  dp:S(0) tp:S(1) -> dp:S(0) tp:S(0)\n");
  EXPECT_EQ(plan("dp:S(0) tp:S(0)", "dp:S(0)"),
            "1  all_gather over tp  dp:S(0) tp:S(0) -> dp:S(0)\n");
  EXPECT_EQ(plan("tp:P(sum)", "tp:S(0)"), "1  reduce_scatter over tp  tp:P(sum) -> tp:S(0)\n");
  EXPECT_EQ(plan("tp:P(sum)", "R"), "1  all_reduce over tp  tp:P(sum) -> R\n");
  EXPECT_EQ(plan("dp:P(sum) tp:P(sum)", "R"),
            "1  all_reduce over dp+tp  dp:P(sum) tp:P(sum) -> R\n");
  EXPECT_EQ(plan("dp:S(0) tp:S(0)", "R"), "1  all_gather over dp+tp  dp:S(0) tp:S(0) -> R\n");
  EXPECT_EQ(plan("dp:S(0, after=tp) tp:S(0)", "dp:S(0, split=4) tp:S(0)"),
            "1  local  dp:S(0, after=tp) tp:S(0) -> dp:S(0, split=4) tp:S(0)\n");
  EXPECT_EQ(plan("dp:S(0, split=4) tp:S(0)", "tp:S(0)"),
            "1  all_gather over dp  dp:S(0, split=4) tp:S(0) -> tp:S(0)\n");
  EXPECT_EQ(plan("dp:S(0) tp:S(0)", "tp:S(0, split=2)"),
            "1  all_gather over dp  dp:S(0) tp:S(0) -> tp:S(0, split=2)\n");
}

// An exchange moves the same elements as a named collective of uneven shards; the named one is
// chosen.
TEST(Plan, NamedCollectives_WinTies) {
  const auto plan = [&](const char* mesh_text, const char* from, const char* to) {
    const Mesh mesh = Mesh::parse(mesh_text);
    const auto spec = [&](const char* text) { return Spec::parse(text, mesh, {5, 3}, DType::f32); };
    return to_string(plan_redistribution(spec(from), spec(to)).plan);
  };
  EXPECT_EQ(plan("tp=4", "tp:S(0)", "tp:S(1)"), "1  all_to_all over tp  tp:S(0) -> tp:S(1)\n");
  EXPECT_EQ(plan("dp=2, tp=2", "tp:S(0)", "dp:S(1)"),
            "1  local over dp  tp:S(0) -> dp:S(1) tp:S(0)\n"
            "2  all_gather over tp  dp:S(1) tp:S(0) -> dp:S(1)\n");
  EXPECT_EQ(plan("dp=2, tp=2", "dp:S(0) tp:S(1)", "dp:S(1) tp:S(0)"),
            "1  exchange over dp+tp  dp:S(0) tp:S(1) -> dp:S(1) tp:S(0)\n");
}

TEST(Plan, ImpossiblePairs_Throw) {
  const Mesh mesh = Mesh::parse("tp=2");
  const auto spec = [&](const char* text) { return Spec::parse(text, mesh, {4}, DType::f32); };
  EXPECT_THROW(plan_redistribution(spec("tp:P(sum)"), spec("tp:P(avg)")), Error);
  EXPECT_THROW(plan_redistribution(spec("R"), spec("R").with_dtype(DType::f64)), Error);
}

TEST(Plan, AcrossMeshes) {
  const Dims shape = {7, 6};
  const Tensor x = numbered(DType::f32, shape);
  const Mesh first = Mesh::parse("dp=2, tp=2 on 0-3");
  for (const char* text : {"tp=4 on 4-7", "tp=4 on 2-5", "a=3", "a=2, b=2 on 3 1 2 0"}) {
    const Mesh second = Mesh::parse(text);
    for (const Spec& from :
         all_specs(first, shape, DType::f32, {R(), S(0), S(1), P(ReduceOp::sum)}))
      for (const Spec& to : all_specs(second, shape, DType::f32, {R(), S(0), S(1), S(1, 2)})) {
        const PlannerResult result = plan_redistribution(from, to);
        const LocalTensor output = replay(result.plan, split(x, from, PartialFill::exact, 5));
        expect_same(output, split(x, to), to_string(from) + " to " + to_string(to));
        if (testing::Test::HasFatalFailure()) return;
        EXPECT_EQ(parse_plan(to_string(result.plan), from, to), result.plan);
      }
  }
}

// Elements that each rank sends.
std::map<int32_t, int64_t> loads_of(const PlanStep& step) {
  std::map<int32_t, int64_t> loads;
  for (const TransferPiece& piece : transfer_pieces(step))
    if (piece.from_rank != piece.to_rank) loads[piece.from_rank] += piece.elements;
  return loads;
}

// Ranks that hold the same part share what is sent of it; the fullest sends at most 1.1 of the
// mean. Each receiver has every element that it lacks once: the whole is right, and the elements
// sent are those that are missing.
TEST(Plan, ReplicasAcrossMeshes_SendEquallyMuch) {
  const Dims shape = {120, 90};
  const Tensor x = numbered(DType::f32, shape);
  const char* sources[] = {"a=2, b=3 on 0 8 9 3 4 2", "a=3, b=2 on 0-5", "a=5, b=1 on 3-7"};
  const char* targets[] = {"c=1 on 1", "c=4 on 8 4 1 9", "c=3 on 1 11 12", "c=2 on 4 10"};
  for (const char* source : sources)
    for (const char* target : targets)
      for (const char* placements : {"a:R b:R", "a:R b:S(1)", "a:S(0) b:R"})
        for (const char* wanted : {"c:R", "c:S(0)", "c:S(1)"}) {
          const Spec from = Spec::parse(placements, Mesh::parse(source), shape, DType::f32);
          const Spec to = Spec::parse(wanted, Mesh::parse(target), shape, DType::f32);
          const std::string what = to_string(from) + " to " + to_string(to);
          const PlanStep step{StepKind::transfer, {}, from, to};
          expect_same(replay({from, to, {step}}, split(x, from)), split(x, to), what);
          const std::map<int32_t, int64_t> loads = loads_of(step);
          for (int64_t i = 0; i < from.mesh().size(); ++i) {
            const int32_t rank = from.mesh().ranks()[i];
            int64_t sum = 0, fullest = 0, holders = 0;
            for (int64_t j = 0; j < from.mesh().size(); ++j) {
              const int32_t other = from.mesh().ranks()[j];
              if (from.owned(rank, 0) != from.owned(other, 0) ||
                  from.owned(rank, 1) != from.owned(other, 1))
                continue;
              ++holders;
              const int64_t load = loads.contains(other) ? loads.at(other) : 0;
              sum += load;
              fullest = std::max(fullest, load);
            }
            EXPECT_LE(10 * fullest * holders, 11 * sum) << what << ", rank " << rank;
          }
        }
}

// A message of a few bytes is not shared.
TEST(Plan, SmallMessageAcrossMeshes_HasOneSender) {
  const Spec from = Spec::parse("R", Mesh::parse("a=4"), {60}, DType::f32);
  const Spec to = Spec::parse("R", Mesh::parse("b=1 on 4"), {60}, DType::f32);
  EXPECT_EQ(loads_of({StepKind::transfer, {}, from, to}).size(), 1U);
}

// Partials keep their values on the way to another mesh, at no higher price than by reducing them
// to whole values first.
TEST(Plan, PartialsAcrossMeshes_CostNoMoreThanWholeValues) {
  const Dims shape = {7, 6};
  const Tensor x = numbered(DType::f32, shape);
  const std::vector<Placement> choices = {R(), S(0), P(ReduceOp::sum)};
  const Mesh first = Mesh::parse("dp=2, tp=2 on 0-3");
  for (const char* text : {"tp=4 on 4-7", "tp=4 on 0-3", "a=2, b=2 on 0-3", "a=3 on 2-4"})
    for (const Spec& from : all_specs(first, shape, DType::f32, choices))
      for (const Spec& to : all_specs(Mesh::parse(text), shape, DType::f32, choices)) {
        const std::string what = to_string(from) + " to " + to_string(to);
        Spec whole = from, arrived = to;
        for (int axis : from.partial_axes()) whole = whole.with_placement(axis, R());
        for (int axis : to.partial_axes()) arrived = arrived.with_placement(axis, R());
        const Price plain = plan_redistribution(from, whole).price +
                            price_without_topology({StepKind::transfer, {}, whole, arrived}) +
                            plan_redistribution(arrived, to).price;
        const PlannerResult result = plan_redistribution(from, to);
        EXPECT_LE(result.price, plain) << what;
        const LocalTensor output = replay(result.plan, split(x, from, PartialFill::exact, 5));
        ASSERT_TRUE(bit_equal(assemble(output, to), 0, x, 0)) << what;
        EXPECT_EQ(parse_plan(to_string(result.plan), from, to), result.plan);
      }
}

// No plan through any other placements on the two meshes takes fewer calls.
TEST(Plan, PartialsAcrossMeshes_TakeTheFewestCalls) {
  const Dims shape = {8, 6};
  const Mesh first = Mesh::parse("dp=2, tp=2 on 0-3");
  const std::vector<Placement> plain = {R(), S(0), S(1)};
  const std::vector<Placement> choices = {R(), S(0), S(1), P(ReduceOp::sum), P(ReduceOp::avg)};
  const std::vector<Spec> starts = all_specs(first, shape, DType::f32, plain);
  for (const char* text : {"tp=4 on 0-3", "a=2, b=2 on 0-3", "a=2 on 4-5"}) {
    const Mesh second = Mesh::parse(text);
    const std::vector<Spec> ends = all_specs(second, shape, DType::f32, plain);
    const std::vector<Spec> targets = all_specs(second, shape, DType::f32, choices);
    for (const Spec& from : all_specs(first, shape, DType::f32, choices)) {
      if (!from.has_partial()) continue;
      std::vector<double> arrived(ends.size(), std::numeric_limits<double>::infinity());
      for (const Spec& start : starts) {
        const double before = plan_redistribution(from, start).price.primary;
        for (size_t i = 0; i < ends.size(); ++i)
          arrived[i] = std::min(
              arrived[i],
              before + price_without_topology({StepKind::transfer, {}, start, ends[i]}).primary);
      }
      for (size_t t = 0; t < targets.size(); t += kFewDraws ? 7 : 1) {
        double best = std::numeric_limits<double>::infinity();
        for (size_t i = 0; i < ends.size(); ++i)
          best =
              std::min(best, arrived[i] + plan_redistribution(ends[i], targets[t]).price.primary);
        const PlannerResult result = plan_redistribution(from, targets[t]);
        EXPECT_LT(result.price.primary, best + kBytesOfCall / 2)
            << to_string(from) << " to " << to_string(targets[t]) << "\n"
            << to_string(result.plan);
      }
    }
  }
}

Fraction bytes_across(const char* from_mesh, const char* from, const char* to_mesh,
                      const char* to) {
  const Dims shape = {4096, 4096};
  const Plan plan =
      plan_redistribution(Spec::parse(from, Mesh::parse(from_mesh), shape, DType::f32),
                          Spec::parse(to, Mesh::parse(to_mesh), shape, DType::f32))
          .plan;
  Fraction bytes;
  for (const PlanStep& step : plan.steps) bytes = bytes + average_of(bytes_sent(step));
  return bytes;
}

// The tensor has 64 MiB.
TEST(Plan, PartialsAcrossMeshes_SendPartsAlone) {
  const int64_t mib = 1 << 20;
  // The same ranks: a reduce_scatter; nothing if the partials stay; an all_reduce.
  EXPECT_EQ(bytes_across("a=2", "P(sum)", "b=2", "S(0)"), Fraction(32 * mib));
  EXPECT_EQ(bytes_across("a=2", "P(sum)", "b=2", "P(sum)"), Fraction(0));
  EXPECT_EQ(bytes_across("a=2, b=2", "P(sum) P(sum)", "c=4", "P(sum)"), Fraction(0));
  EXPECT_EQ(bytes_across("a=2", "P(sum)", "b=2", "R"), Fraction(64 * mib));
  EXPECT_EQ(bytes_across("a=2", "R", "b=2", "P(sum)"), Fraction(0));
  // Other ranks: a reduce_scatter and a transfer, each of a half of the tensor.
  EXPECT_EQ(bytes_across("a=2 on 0-1", "P(sum)", "b=2 on 2-3", "S(0)"), Fraction(64 * mib));
  EXPECT_EQ(bytes_across("a=2 on 0-1", "P(sum)", "b=2 on 2-3", "P(sum)"), Fraction(64 * mib));
  EXPECT_EQ(bytes_across("a=2 on 0-1", "R", "b=2 on 2-3", "P(sum)"), Fraction(32 * mib));
}

}  // namespace
}  // namespace shardproof::plan_test
