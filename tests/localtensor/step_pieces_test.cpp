// Laws of steps in pieces and of peak limits: what ranks really hold, and the values.
#include "shardproof/localtensor/plan/step_pieces.h"

#include <gtest/gtest.h>

#include <charconv>
#include <random>

#include "shardproof/localtensor/plan/planner.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/tests/few_draws.h"
#include "shardproof/tests/localtensor/spec_corpus.h"

namespace shardproof::step_pieces_test {
namespace {

using corpus::all_specs;
using corpus::numbered;

const Block& block_of(const LocalTensor& value, int32_t rank) { return *value.find(rank); }

// Returns the bytes of a rank's part of `value`; 0 if it lies in the buffer of `other`.
int64_t own_bytes(const LocalTensor& value, const LocalTensor& other, int32_t rank) {
  const Tensor& tensor = block_of(value, rank).tensor;
  if (tensor.buffer == block_of(other, rank).tensor.buffer) return 0;
  return tensor.elements() * size_of(tensor.dtype);
}

// Runs a plan, and stores the most bytes that a rank holds at a time. These are source, target, and
// the input and output of the current call.
struct MeasuredReplay {
  LocalTensor source, value;  // the source is held until the plan ends
  int64_t peak = 0, calls = 0;

  MeasuredReplay(const Plan& plan, const LocalTensor& input) : source(input), value(input) {
    for (const PlanStep& step : plan.steps) run(step);
  }
  void run(const PlanStep& step) {
    LocalTensor result;
    for (int64_t piece = 0; piece < step.pieces; ++piece) {
      const LocalTensor packed = pack(step, value, piece);
      const bool call = step.kind != StepKind::local;
      if (call) ++calls;
      const LocalTensor received = reference(step, packed, piece);
      if (piece == 0)
        result = unpack(step, received);
      else
        unpack_more(step, piece, received, result);
      const Lanes ranks = step.from.mesh().ranks();
      for (int64_t i = 0; i < ranks.size(); ++i) {
        const int32_t rank = ranks[i];
        int64_t held = element_count(step.from.local_shape(rank)) * size_of(step.from.dtype()) +
                       element_count(step.to.local_shape(rank)) * size_of(step.from.dtype());
        held += own_bytes(source, value, rank);
        if (call) held += own_bytes(packed, value, rank) + own_bytes(received, result, rank);
        peak = std::max(peak, held);
      }
    }
    value = std::move(result);
  }
};

// Returns the limit that the message of a refused plan states.
int64_t stated_limit(const std::string& message) {
  const std::string_view before = "the smallest peak limit that works is ";
  const size_t at = message.find(before);
  int64_t limit = -1;
  if (at != std::string::npos)
    std::from_chars(message.data() + at + before.size(), message.data() + message.size(), limit);
  return limit;
}

// Returns the smallest limit of a pair by the message of a limit of 0; -1 if there is none.
int64_t smallest_limit_of(const Spec& from, const Spec& to, PlannerOptions options) {
  options.peak_limit = 0;
  try {
    plan_redistribution(from, to, options);
  } catch (const Error& error) {
    return stated_limit(error.message());
  }
  return -1;
}

// Checks one plan, and returns the most pieces of its steps.
int64_t expect_kept(const Spec& from, const Spec& to, const PlannerOptions& options) {
  PlannerResult result;
  EXPECT_NO_THROW(result = plan_redistribution(from, to, options));
  const std::string what = to_string(from) + " -> " + to_string(to) + "\n" + to_string(result.plan);
  const Tensor x = numbered(from.dtype(), from.shape());
  const MeasuredReplay run(result.plan, split(x, from, PartialFill::exact, 11));
  int64_t most = 1;
  for (const PlanStep& step : result.plan.steps) most = std::max(most, step.pieces);
  EXPECT_LE(run.peak, peak_of(result.plan)) << what;
  EXPECT_LE(peak_of(result.plan), options.peak_limit.value_or(peak_of(result.plan))) << what;
  EXPECT_EQ(run.calls, price_of(result.plan, price_by_bytes).calls) << what;
  EXPECT_TRUE(bit_equal(assemble(run.value, to), 0, x, 0)) << what;
  EXPECT_EQ(parse_plan(to_string(result.plan), from, to), result.plan) << what;
  return most;
}

// Draws pairs of specs, and for each pair limits from the smallest one to the peak without a limit.
// Returns the plans in pieces.
int64_t check_pairs(const char* mesh_text, const Dims& shape, DType dtype,
                    const std::vector<Placement>& choices, int64_t draws) {
  const std::vector<Spec> specs = all_specs(Mesh::parse(mesh_text), shape, dtype, choices);
  std::mt19937_64 random(static_cast<uint64_t>(element_count(shape)));
  int64_t cut = 0;
  for (int64_t i = 0; i < draws; ++i) {
    const auto draw = [&](int64_t count) {
      return static_cast<size_t>(random() % static_cast<uint64_t>(count));
    };
    const Spec& from = specs[draw(static_cast<int64_t>(specs.size()))];
    const Spec& to = specs[draw(static_cast<int64_t>(specs.size()))];
    PlannerOptions options;
    options.moves = draw(2) == 0 ? PlanMoves::all : PlanMoves::collectives;
    int64_t unlimited = 0;
    try {
      unlimited = peak_of(plan_redistribution(from, to, options).plan);
    } catch (const Error&) {
      continue;  // between two partials
    }
    if (unlimited == 0) continue;
    expect_kept(from, to, options);
    const int64_t smallest = smallest_limit_of(from, to, options);
    if (smallest < 0) {
      ADD_FAILURE() << to_string(from) << " -> " << to_string(to);
      continue;
    }
    options.peak_limit = smallest - 1;
    EXPECT_THROW(plan_redistribution(from, to, options), Error)
        << to_string(from) << " -> " << to_string(to) << " " << smallest;
    for (const int64_t limit :
         {smallest, smallest + (unlimited - smallest) / 2,
          smallest + static_cast<int64_t>(draw(std::max<int64_t>(unlimited - smallest, 1)))}) {
      SCOPED_TRACE(fmt::format("{} -> {} {}", to_string(from), to_string(to), limit));
      options.peak_limit = limit;
      if (expect_kept(from, to, options) > 1) ++cut;
    }
  }
  return cut;
}

TEST(StepPieces, PeakLimits_AreKeptByWhatRanksHold) {
  const int64_t draws = kFewDraws ? 5 : 40;
  int64_t cut = 0;
  const std::vector<Placement> cuts = {R(), S(0), S(1), S(0, 2)};
  cut += check_pairs("a=4", {12, 8}, DType::f32, cuts, draws);
  cut += check_pairs("a=2, b=2", {8, 6}, DType::f32, {R(), S(0), S(1), P()}, draws);
  cut += check_pairs("a=2, b=3", {13, 7}, DType::i32, {R(), S(0), S(1), P(ReduceOp::max)}, draws);
  cut += check_pairs("a=3, b=2", {5, 9}, DType::f64, {R(), S(0), S(1), P(ReduceOp::avg)}, draws);
  cut += check_pairs("a=2, b=2, c=2", {9, 5, 4}, DType::f32, {R(), S(0), S(1), S(2)}, draws / 2);
  cut += check_pairs("a=2, b=2", {31}, DType::bf16, {R(), S(0), P()}, draws);
  EXPECT_GT(cut, 2 * draws);
}

// Between two meshes every limit from the smallest one on has a plan, which keeps to it.
TEST(StepPieces, LimitsBetweenMeshes_AreKept) {
  const Mesh source = Mesh::parse("a=2, b=2"), target = Mesh::parse("e=3, f=2 on 20-25");
  const std::vector<Placement> choices = {R(), S(0), P()};
  const std::vector<Spec> sources = all_specs(source, {8}, DType::f32, choices);
  std::mt19937_64 random(7);
  int64_t limited = 0;
  for (const Spec& from : sources)
    for (const Spec& to : all_specs(target, {8}, DType::f32, choices)) {
      if (random() % (kFewDraws ? 8 : 2) != 0) continue;
      PlannerOptions options;
      const int64_t unlimited = peak_of(plan_redistribution(from, to, options).plan);
      const int64_t smallest = smallest_limit_of(from, to, options);
      ASSERT_GT(smallest, 0) << to_string(from) << " -> " << to_string(to);
      for (int64_t limit = smallest; limit <= unlimited; limit += 2) {
        SCOPED_TRACE(fmt::format("{} -> {} {}", to_string(from), to_string(to), limit));
        options.peak_limit = limit;
        EXPECT_LE(peak_of(plan_redistribution(from, to, options).plan), limit);
        ++limited;
      }
    }
  EXPECT_GT(limited, 50);
}

// A step over an axis of one rank holds the value twice, too.
TEST(StepPieces, LimitBelowSourceAndTarget_IsRefused_WithReplicasToo) {
  const Mesh mesh = Mesh::parse("a=1, b=2");
  const Spec from = Spec::parse("a:S(0)", mesh, {8}, DType::f32), to = from.with_placement(0, R());
  PlannerOptions options;
  options.peak_limit = 63;
  for (const bool use_replicas : {false, true}) {
    options.use_replicas = use_replicas;
    EXPECT_THROW(plan_redistribution(from, to, options), Error) << use_replicas;
  }
}

// A plan in pieces costs 64 KiB for each of its calls; among plans that keep to a limit the
// cheapest is taken. A smaller limit never makes a plan cheaper.
TEST(StepPieces, Price_CountsEachCall) {
  const Mesh mesh = Mesh::parse("tp=4");
  const auto spec = [&](const char* text) { return Spec::parse(text, mesh, {64, 48}, DType::f32); };
  const Spec from = spec("tp:S(0)"), to = spec("tp:S(1)");
  PlannerOptions options;
  double last = plan_redistribution(from, to, options).price.primary;
  const double bytes = last - kBytesOfCall;
  const int64_t part = 64 * 48;  // bytes of a quarter
  for (int64_t pieces = 2; pieces <= 8; ++pieces) {
    options.peak_limit = 2 * part + 2 * part / pieces + (pieces == 5 || pieces == 7 ? part : 0);
    const PlannerResult result = plan_redistribution(from, to, options);
    EXPECT_EQ(
        result.price.primary,
        bytes + static_cast<double>(price_of(result.plan, price_by_bytes).calls * kBytesOfCall));
    EXPECT_LE(peak_of(result.plan), *options.peak_limit);
  }
  options.peak_limit = 3 * part;
  const PlannerResult halves = plan_redistribution(from, to, options);
  EXPECT_EQ(to_string(halves.plan), "1  all_to_all over tp in 2 pieces  tp:S(0) -> tp:S(1)\n");
  EXPECT_EQ(cost_of(halves.plan.steps[0]).calls, 2);
  EXPECT_EQ(halves.price.primary, last + kBytesOfCall);
}

// The pieces of a box are its rows in order, each in one piece.
TEST(StepPieces, PartsOfABox_AreAllOfIt) {
  const Mesh mesh = Mesh::parse("a=2");
  PlanStep step{StepKind::all_gather,
                {0},
                Spec::parse("a:S(0)", mesh, {14, 3}, DType::f32),
                Spec::parse("R", mesh, {14, 3}, DType::f32)};
  const std::vector<Runs> box = {{{0, 2}, {5, 4}, {10, 1}}, {{0, 3}}};
  for (step.pieces = 1; step.pieces <= 9; ++step.pieces) {
    Runs all;
    for (int64_t piece = 0; piece < step.pieces; ++piece) {
      const std::vector<Runs> part = part_of_box(step, piece, box);
      EXPECT_EQ(part[1], box[1]);
      EXPECT_LE(length(part[0]), (7 + step.pieces - 1) / step.pieces);
      for (const shardproof::Run& run : part[0]) {
        if (!all.empty() && all.back().start + all.back().length == run.start)
          all.back().length += run.length;
        else
          all.push_back(run);
      }
    }
    EXPECT_EQ(all, box[0]) << step.pieces;
  }
}

}  // namespace
}  // namespace shardproof::step_pieces_test
