// Tests lines check(x, 'name', placements) of rank programs: their lowering, the values that they
// leave undecided, and the refusal of bad ones. A check must not change a run.
#include <gtest/gtest.h>

#include "shardproof/engine/check/check.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/sim/cost/cost_model.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::rank_checks_test {
namespace {

using Lines = std::vector<std::string>;

Job with_truth(Job job, const Lines& truth) {
  job.truth = parse_listing(truth);
  return job;
}

// Returns a job with x of [4, 4] on each rank of pp=2, tp=2, and `d` in f64.
Job ranks_job(const Lines& lines, const Lines& truth) {
  Job job = with_truth(job_of("pp=2, tp=2", {}), truth);
  add_input(job, "x", Dims{4, 4});
  add_input(job, "d", Dims{4, 4}, "", DType::f64);
  add_ranks(job, "all", Lanes::range(0, 4), lines);
  return job;
}

std::string without_values_of_checks(const Job& job) {
  const Outcome outcome = check(job, builtin_registries());
  std::string text =
      fmt::format("peak {} time {}\n", outcome.world.peak_bytes, to_string(outcome.world.time));
  for (const Duration& time : outcome.world.rank_times) text += to_string(time) + " ";
  for (const CallCount& call : outcome.calls)
    text += fmt::format("{} {} {} {}\n", call.kind, call.group, to_string(call.lanes), call.count);
  for (const auto& [name, info] : outcome.values)
    for (const RecordedShard& part : info.copies)
      for (const double value : values_of(part.tensor)) text += fmt::format(" {:a}", value);
  return text;
}

TEST(RankChecks, AtAnyLine_ChangeNeitherCallsNorMemoryNorTimesNorValues) {
  const std::vector<Lines> programs = {
      {"y = all_reduce(x, sum, group=tp)", "x = y * 2", "add_(x, y)", "z = x @ y"},
      {"on comm:", "  y = all_reduce(x, sum)", "  e = record()", "z = x * 2", "wait(e)",
       "u = y + z", "x = u * 1"},
      {"on comm:", "  y = all_reduce(x, sum)", "  e = record()", "keep(x, comm)",
       "u = zeros([768])", "x = u[0:16] * 2", "x = reshape(x, [4, 4])", "wait(e)", "z = y * 3"},
      {"for i in range(3):", "  if rank > i: x = x * 2", "  all_reduce_(x, sum, group=pp)"},
      {"if rank < 2:", "  send(x, to=1, group=pp)", "else:", "  x = recv(like=x, from=0, group=pp)",
       "y = x + 1"},
  };
  for (const Lines& lines : programs)
    for (const CohortPolicy grouping :
         {CohortPolicy::coarse_first, CohortPolicy::by_branch, CohortPolicy::one_by_one}) {
      Job job = ranks_job(lines, {"y = x"});
      job.cost = flat_machine({Duration{10'000'000}, 1e9});
      job.grouping = grouping;
      job.keep = {"x", "y", "z", "u"};
      const std::string plain = without_values_of_checks(job);
      for (size_t at = 0; at <= lines.size(); ++at) {
        Lines with = lines;
        const size_t indent = at < lines.size() ? lines[at].find_first_not_of(' ') : 0;
        if (at < lines.size() && lines[at] == "else:") continue;
        if (at < lines.size() && lines[at].starts_with("x = reshape")) continue;  // another shape
        with.insert(with.begin() + static_cast<std::ptrdiff_t>(at),
                    std::string(indent, ' ') + "check(x, 'x')");
        job.ranks[0].listing = parse_listing(with);
        EXPECT_EQ(without_values_of_checks(job), plain)
            << with[at] << " at line " << at + 1 << " of " << lines[0];
      }
    }
}

TEST(RankChecks, OfALoop_HaveOneEntryEachPass) {
  const Job job = ranks_job({"for i in range(2):", "  x = x * 2",
                             "  if index(pp) == 0: check(x + 1, 'h_{i}', R on pp=0)"},
                            {"h_0 = x", "h_1 = x"});
  const RankProgram ranks = lower_ranks(job, builtin_registries().ops);
  ASSERT_EQ(ranks.checks.size(), 2u);
  const RankCheck& second = ranks.checks[1];
  EXPECT_EQ(second.name, "h_1");
  EXPECT_EQ(second.placements, "R");
  EXPECT_EQ(second.mesh, "");
  EXPECT_EQ(to_string(second.on), "0 1");
  EXPECT_EQ(to_string(second.lanes), "0 1");
  EXPECT_EQ(second.shown, "x + 1");
  EXPECT_EQ(second.origin.line, 3);
  EXPECT_EQ(second.origin.column, 22);
  EXPECT_EQ(second.origin.instance, "i=1");
  EXPECT_EQ(second.path, "/ranks/all");
  EXPECT_EQ(ranks.program.values[static_cast<size_t>(second.value)].dtype, DType::f32);
}

TEST(RankChecks, OnRanksThatDoNotHoldTheValue_HaveNoCopy) {
  const RankProgram ranks =
      lower_ranks(ranks_job({"if index(pp) == 1: check(x, 'x', on pp=0)"}, {"y = x"}),
                  builtin_registries().ops);
  ASSERT_EQ(ranks.checks.size(), 1u);
  EXPECT_TRUE(ranks.checks[0].lanes.empty());
  EXPECT_EQ(ranks.checks[0].value, kNoValue);
}

TEST(RankChecks, InWiderFloats_CopyWiderFloats) {
  const OpRegistry& ops = builtin_registries().ops;
  RankProgram ranks =
      lower_ranks(ranks_job({"h = cast(x, bf16)", "check(h, 'h')"}, {"h = cast(x, bf16)"}), ops);
  const auto copy = static_cast<size_t>(ranks.checks.at(0).value);
  EXPECT_EQ(ranks.program.values[copy].dtype, DType::bf16);
  widen_floats(ranks.program, ops);
  EXPECT_EQ(ranks.program.values[copy].dtype, DType::f64);
  EXPECT_EQ(ranks.program.values[copy].spec->dtype(), DType::f64);
}

// If two meshes have equal axes, a check takes the mesh of the ranks that reach its line.
TEST(RankChecks, OfTwoMeshes_TakeThatOfTheirRanks) {
  Job job = with_truth(job_of("tp=2", {}), {"y = x"});
  job.world = 4;
  job.meshes = {{"enc", Mesh::parse("tp=2")}, {"dec", Mesh::parse("tp=2 on 2-3")}};
  job.inputs.clear();
  for (const auto& [key, mesh] : job.meshes) {
    JobInput input;
    input.name = key == "enc" ? "x" : "z";
    input.spec = Spec::parse("tp:S(0)", mesh, Dims{4}, DType::f32);
    input.on = mesh.ranks();
    input.data = tensor_of(DType::f32, Dims{4}, {1, 2, 3, 4});
    job.inputs.push_back(std::move(input));
  }
  add_ranks(job, "0-1", Lanes::range(0, 2), {"check(x, 'x', tp:S(0))"});
  add_ranks(job, "2-3", Lanes::range(2, 4), {"check(z, 'z', tp:S(0))", "check(z, 'x', tp:S(0))"});
  const Outcome outcome = check(job, builtin_registries());
  EXPECT_EQ(outcome.values_compared, 3);
  EXPECT_TRUE(outcome.findings.empty());
  EXPECT_TRUE(outcome.undecided.empty());
}

TEST(RankChecks, OfOnePass_AreWrongAtTheirLineAndInstance) {
  const Job job =
      ranks_job({"for i in range(3):", "  y = x * 2", "  if i == 1 and rank == 2: add_(y, 1)",
                 "  check(y, 'y_{i}')", "  add_(y, 1)"},
                {"for i in range(3):", "  y_{i} = x * 2"});
  const Outcome outcome = check(job, builtin_registries());
  ASSERT_EQ(outcome.findings.size(), 1u);
  const Finding& finding = outcome.findings[0];
  EXPECT_EQ(finding.verdict, Verdict::wrong_values);
  EXPECT_EQ(finding.line, 4);
  EXPECT_EQ(finding.instance, "i=1");
  EXPECT_EQ(finding.name, "y_1");
  EXPECT_EQ(to_string(finding.ranks), "2");
  EXPECT_EQ(outcome.values_compared, 3);
}

struct Undecided {
  Lines lines;
  std::string instance, reason;
};

TEST(RankChecks, NotReachedEquallyOften_AreUndecided) {
  const std::vector<Undecided> cases = {
      {{"if rank == 1: check(x + 1, 'x')"},
       "",
       "rank 1 reaches the check once, ranks 0 2 3 never does; name those that hold it with a last "
       "\"on\""},
      {{"for i in range(3):", "  if rank < 3 or i < 1: check(x + 1, 'x')"},
       "i=0",
       "ranks 0-2 reach the check 3 times, rank 3 reaches it once; let all reach it equally often"},
      {{"if index(pp) == 1: check(x, 'x', on pp=0)"},
       "",
       "no rank that has to hold it reaches the check; name those that do with a last \"on\""},
  };
  for (const Undecided& one : cases) {
    const Outcome outcome = check(ranks_job(one.lines, {"y = x"}), builtin_registries());
    EXPECT_TRUE(outcome.findings.empty());
    EXPECT_EQ(outcome.values_compared, 0);
    ASSERT_EQ(outcome.undecided.size(), 1u);
    const UndecidedValue& value = outcome.undecided[0];
    EXPECT_EQ(value.name, "x");
    EXPECT_EQ(value.line, static_cast<int>(one.lines.size()));
    EXPECT_EQ(value.instance, one.instance);
    EXPECT_EQ(value.elements, 16);
    EXPECT_EQ(value.of, 16);
    EXPECT_EQ(value.reason, one.reason);
  }
}

// Ranks reach the check in passes of different numbers, or in different listings.
TEST(RankChecks, ReachedEquallyOften_AreCompared) {
  Job job = with_truth(job_of("pp=2, tp=2", {}), {"y = x * 2"});
  add_input(job, "x", Dims{4, 4}, "pp:S(0)");
  add_ranks(job, "pp=0", Lanes::range(0, 2),
            {"y = x * 2", "for i in range(index(tp), index(tp) + 2): check(y, 'y', pp:S(0))"});
  add_ranks(job, "pp=1", Lanes::range(2, 4),
            {"y = x + x", "check(y, 'y', pp:S(0) tp:R)", "check(y * 1, 'y', pp:S(0))"});
  const Outcome outcome = check(job, builtin_registries());
  EXPECT_EQ(outcome.values_compared, 2);
  EXPECT_TRUE(outcome.findings.empty());
  EXPECT_TRUE(outcome.undecided.empty());
}

TEST(RankChecks, OfARankThatDies_AreUndecided) {
  Job job = ranks_job({"barrier()", "sync(main)", "check(x, 'x')"}, {"y = x"});
  for (int rank = 0; rank < 4; ++rank)
    job.faults.push_back(fmt::format("die(rank={}, call=1)", rank));
  const Outcome outcome = check(job, builtin_registries());
  ASSERT_EQ(outcome.undecided.size(), 1u);
  EXPECT_EQ(outcome.undecided[0].reason,
            "the run ended before ranks 0-3 reached the check; correct the error that ended it");
}

struct Bad {
  std::string line;
  int column;
  std::string message;
};

std::string refusal(const Job& job) {
  try {
    lower_job(job, builtin_registries());
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RankChecks, ThatAreBadInput_AreRefusedWithTheirPlace) {
  const std::vector<Bad> cases = {
      {"y = check(x, 'h_0')", 5,
       "check returns no value; write it alone on a line, as in check(x, 'h')"},
      {"check(x)", 1, "check needs a tensor and a name of the truth, as in check(x, 'h', dp:S(0))"},
      {"check(x, h_0)", 10,
       "expected a name of the truth in quotes, as in check(x, 'h', dp:S(0)), found h_0"},
      {"check(x, 'h_1')", 10, "the truth does not bind h_1; did you mean \"h_0\"?"},
      {"check(x, 'h_{rank}')", 10,
       "a name must be equal on all ranks: this is h_0 on rank 0 and h_1 on rank 1"},
      {"check(2 * rank, 'h_0')", 7, "check compares a tensor; 2 * rank is a number"},
      {"check(dd, 'h_0')", 7, "unknown name dd; did you mean \"d\"?"},
      {"check(d, 'h_0')", 7, "d is f64 on rank 0, but h_0 is f32 in the truth; cast one of them"},
      {"check(x, 'h_0', tp:S(0))", 7,
       "x has shape [4, 4] on rank 0; h_0 placed as tp:S(0) would be [2, 4] there"},
      {"check(x, 'h_0', tp:S(2))", 17,
       "dim 2 is out of range for a tensor of 2 dims; write a dim from -2 to 1"},
      {"check(x, 'h_0', tq:R)", 17, "no mesh axis 'tq' in \"pp=2, tp=2\"; did you mean \"tp\"?"},
      {"check(x, 'h_0', tp:R on pp=7)", 25, "pp=7 is out of range: axis pp has size 2"},
      {"check(x, 'h_0', on pp=0, tp:R)", 20, "expected \"on pp=0\" after the last placements"},
      {"check(x, 'h_0', tp:P(sum) on 0)", 17,
       "h_0 placed as tp:P(sum) cannot be reduced without the part of rank 1"},
      {"check(x, 'h_0', 3)", 17, "expected placements such as tp:S(0), found 3"},
      {"check(x, 'h_0', dim=3)", 17, "check has no argument dim; write check(x, 'h', dp:S(0))"},
      {"group: check(x, 'h_0')", 8,
       "check cannot stand inside group:, whose calls start together at its end; write it before "
       "or after the group"},
      {"y = redistribute(x, tp:R on pp=0)", 5,
       "redistribute belongs to global programs; in a rank program write the call, such as "
       "all_gather(x, dim=0, group=tp)"},
  };
  for (const Bad& bad : cases)
    EXPECT_EQ(refusal(ranks_job({bad.line}, {"h_0 = x * 2"})),
              fmt::format("/ranks/all line 1, column {}: {}", bad.column, bad.message));
}

// rank / 2 is 0 on rank 0 and 0.5 on rank 1, so the results would be i64 and f32.
TEST(NumbersOfBothKinds, ThatDecideADtype_AreBadInput) {
  const std::vector<Bad> cases = {
      {"y = full([2], rank / 2)", 5,
       "full gives i64 on rank 0 and f32 on rank 1, because the ranks give it numbers of both "
       "kinds; write the dtype, such as dtype=f32"},
      {"y = sum(arange(rank / 2, rank / 2 + 3))", 9,
       "arange gives i64 on rank 0 and f32 on rank 1, because the ranks give it numbers of both "
       "kinds; write the dtype, such as dtype=f32"}};
  for (const Bad& bad : cases)
    EXPECT_EQ(refusal(ranks_job({bad.line}, {"y = x"})),
              fmt::format("/ranks/all line 1, column {}: {}", bad.column, bad.message));
  EXPECT_EQ(refusal(ranks_job({"y = full([2], rank / 2, dtype=f32)"}, {"y = x"})), "accepted");
}

TEST(RankChecks, InALoop_OfANameThatTheTruthBindsAgain_AreRefused) {
  const std::vector<std::string> loop{"for i in range(2): check(x, 'h')"};
  EXPECT_EQ(refusal(ranks_job(loop, {"h = x * 2", "h = h * 2"})),
            "/ranks/all line 1, column 20: the truth binds h more than once, and each pass of "
            "this loop would be compared with the last value; write h_{i} = h in the truth's loop, "
            "and check(.., 'h_{i}') here, where i is the variable of the loop");
  EXPECT_EQ(refusal(ranks_job(loop, {"h = x * 2"})), "accepted");
  EXPECT_EQ(refusal(ranks_job({"check(x, 'h')"}, {"h = x * 2", "h = h * 2"})), "accepted");
}

// A value inside a line has no name.
TEST(NotFiniteNote, OfAValueInsideALine_NamesTheLine) {
  Job job = job_of("dp=2", {"y = x * 2", "z = sum(sqrt(y - y - 1))"});
  add_input(job, "x", Dims{4}, "dp:S(0)");
  const std::vector<std::string> notes = check(job, builtin_registries()).notes;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(notes[0].starts_with("a value of line 2 and z have no finite element")) << notes[0];
}

// The sums of rank 0 pass the range of f16. They become the reference of z.
TEST(NotFiniteNote, OfAReferenceThatRanksHold_IsNotGiven) {
  Job job = job_of("tp=2", {"y = sum(x, dim=0)", "z = redistribute(y, tp:R)"});
  std::vector<double> values(8, 30000);
  std::fill(values.begin() + 4, values.end(), -30000);
  add_input(job, "x", Dims{8}, "tp:S(0)", DType::f16);
  job.inputs.back().data = tensor_of(DType::f16, Dims{8}, values);
  const Outcome outcome = check(job, builtin_registries());
  ASSERT_EQ(outcome.findings.size(), 1U);
  EXPECT_EQ(outcome.findings[0].verdict, Verdict::imprecise);
  EXPECT_EQ(outcome.notes, Lines{});
}

// Every NaN agrees with any other one.
TEST(RankChecks, OfAValueWithoutAFiniteElement_AreNotedOnce) {
  const Outcome outcome =
      check(ranks_job({"for i in range(2): check(log(x - x - 2), 'h')"}, {"h = log(x - x - 1)"}),
            builtin_registries());
  EXPECT_TRUE(outcome.findings.empty());
  EXPECT_EQ(outcome.notes,
            std::vector<std::string>{"h has no finite element on one device; errors of the lines "
                                     "before it do not show in it"});
}

// A sum that is left out does not change zeros.
TEST(RankChecks, OfZeros_AreNoted) {
  EXPECT_EQ(
      check(ranks_job({"check(x * 0, 'h')"}, {"h = x * 0"}), builtin_registries()).notes,
      std::vector<std::string>{"h has no element but zeros on one device; errors of the lines "
                               "before it do not show in it"});
}

TEST(RankChecks, ThatNoRankReaches_AreNoted) {
  const auto notes = [](const Lines& lines) {
    const Lines truth{"for i in range(6): h_{i} = x * (i + 1)", "h_out = x + 7", "g = x * 2"};
    return check(ranks_job(lines, truth), builtin_registries()).notes;
  };
  EXPECT_EQ(notes({"for i in range(6): check(x * (i + 1), 'h_{i}')"}), Lines{});
  EXPECT_EQ(
      notes({"for i in range(5): check(x * (i + 1), 'h_{i}')"}),
      Lines{"h_5 of the truth is not compared: no rank reaches check(x * (i + 1), 'h_{i}') on line "
            "1"});
  EXPECT_EQ(notes({"if rank > 3:", "  check(x * 2, 'g')", "check(x * 2, 'h_2')"}),
            Lines{"g of the truth is not compared: no rank reaches check(x * 2, 'g') on line 2"});
  // No rank reads the arguments of this one.
  EXPECT_EQ(notes({"if rank > 3: check(x, 3)", "check(x * 2, 'h_2')"}), Lines{});
  EXPECT_EQ(notes({"for i in range(0): check(x * (i + 1), 'h_{i}')"}),
            Lines{"h_0, h_1, h_2, h_3 and 2 more of the truth are not compared: no rank reaches "
                  "check(x * (i + 1), 'h_{i}') on line 1"});
}

TEST(RankChecks, WithoutATruth_AreRefused) {
  Job job = ranks_job({"check(x, 'x')"}, {});
  job.truth.reset();
  EXPECT_EQ(
      refusal(job),
      "/ranks/all line 1, column 1: check compares with the truth, and this scenario has none; "
      "expected the key \"truth\"");
}

TEST(RankChecks, OutsideOfRankPrograms_AreRefused) {
  Job global = job_of("tp=2", {"check(x, 'x')"});
  add_input(global, "x", Dims{4});
  EXPECT_EQ(
      refusal(global),
      "/program line 1, column 1: check belongs to rank programs; all lines of a global program "
      "are compared anyway");
  EXPECT_EQ(refusal(ranks_job({"check(x, 'x')"}, {"check(x, 'x')"})),
            "/truth line 1, column 1: check belongs to rank programs: it compares them with this "
            "truth");
  global.program = parse_listing({"y = redistribute(x, tp:R on 0)"});
  EXPECT_EQ(
      refusal(global),
      "/program line 1, column 29: redistribute applies to all ranks of a mesh; remove \"on 0\"");
}

}  // namespace
}  // namespace shardproof::testing::rank_checks_test
