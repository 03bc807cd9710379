// Tests a case on several backends: each is compared with the truth, and disagreements are
// reported.
#include <gtest/gtest.h>

#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/comparison_report.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof::two_backends_test {
namespace {

// The local backend, in which rank 1 skips its first call.
class Forgetful : public Backend {
 public:
  std::string name() const override { return "forgetful"; }
  std::string summary() const override { return "rank 1 leaves out its first call"; }
  std::optional<std::string> not_viable() const override { return std::nullopt; }
  std::optional<std::string> unsupported_reason(const Collective&) const override {
    return std::nullopt;
  }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    WorldOptions faulty = options;
    faulty.faults.emplace_back("skip(rank=1, call=1)");
    return instrumented(local_backend())->start(faulty);
  }
};

RunResult run_on(const std::vector<std::string>& backends, const std::string& expect) {
  Registries registries{builtin_ops(), builtin_backends()};
  registries.backends.push_back(std::make_shared<Forgetful>());
  const std::string text =
      R"json({"version": 1, "mesh": "dp=2", "tensors": {"x": {"shape": [4]}},
        "ranks": {"0": ["y = all_reduce(x, sum)"], "1": ["y = all_reduce(x, sum)"]},
        "expect": {)json" +
      expect + "}}";
  RunOptions options;
  options.backends = backends;
  return run_scenarios({load_text(text, "f.json")}, {""}, options, registries);
}

// A killed process gives a missing rank, which must not satisfy an expected missing rank.
TEST(TwoBackends, LostProcess_DoesNotMeetAnExpectedMissingRank) {
  const Scenario scenario = load_text(R"json({"version": 1, "mesh": "dp=2",
      "tensors": {"x": {"shape": [4]}}, "ranks": {"0": ["y = all_reduce(x, sum)"], "1": ["y = x + 1"]},
      "expect": {"verdict": "missing rank"}})json",
                                      "f.json");
  const Phase& phase = scenario.cases.at(0).phases.at(0);
  Outcome outcome;
  outcome.findings.emplace_back().verdict = Verdict::missing_rank;
  EXPECT_TRUE(unmet_expectations(phase.expect, outcome, phase.job).empty());
  outcome.world.broken = true;
  const std::vector<ExpectationFailure> misses =
      unmet_expectations(phase.expect, outcome, phase.job);
  ASSERT_EQ(misses.size(), 1u);
  EXPECT_EQ(misses[0].got, "missing rank, because a process was lost");
}

TEST(TwoBackends, EqualOutcomes_AreAsExpected) {
  const RunResult result = run_on({"local", "local"}, "");
  ASSERT_EQ(result.scenarios[0].cases.size(), 2u);
  EXPECT_EQ(result.exit_code(), 0);
}

TEST(TwoBackends, FindingOfOneBackend_IsUnexpectedOnTheOther) {
  const RunResult result = run_on({"local", "forgetful"}, "");
  const CaseResult& other = result.scenarios[0].cases.at(1);
  EXPECT_EQ(result.scenarios[0].cases[0].status, CaseStatus::as_expected);
  EXPECT_EQ(other.status, CaseStatus::unexpected);
  EXPECT_EQ(other.backend, "forgetful");
  EXPECT_EQ(result.exit_code(), 1);
  const std::string report = text_report(result, {});
  EXPECT_NE(report.find("f.json on forgetful   backends differ: clean on local, missing rank on "
                        "forgetful"),
            std::string::npos)
      << report;
  EXPECT_NE(report.find("rank 1 never makes call 1"), std::string::npos) << report;
}

TEST(TwoBackends, ExpectedFinding_OfOneBackendOnly_IsUnexpected) {
  const RunResult result = run_on({"forgetful", "local"}, "\"verdict\": \"missing rank\"");
  EXPECT_EQ(result.scenarios[0].cases[0].status, CaseStatus::as_expected);
  EXPECT_EQ(result.scenarios[0].cases[1].status, CaseStatus::unexpected);
}

// The local backend, in which rank 0 sends other values to its first call than it holds.
class Corrupt : public Forgetful {
 public:
  std::string name() const override { return "corrupt"; }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    WorldOptions faulty = options;
    faulty.faults.emplace_back("corrupt(rank=0, call=1, element=2)");
    return instrumented(local_backend())->start(faulty);
  }
};

// Without a truth each run alone is clean.
TEST(TwoBackends, UnexplainedDifference_IsUnexpected) {
  Registries registries{builtin_ops(), builtin_backends()};
  registries.backends.push_back(std::make_shared<Corrupt>());
  RunOptions options;
  options.backends = {"local", "corrupt"};
  options.records_values = true;
  const Scenario scenario = load_text(R"json({"version": 1, "mesh": "dp=2",
    "tensors": {"x": {"shape": [4]}}, "ranks": {"all": ["y = broadcast(x, root=0)"]}})json",
                                      "f.json");
  const RunResult result = run_scenarios({scenario}, {""}, options, registries);
  EXPECT_EQ(result.exit_code(), 1);
  const std::string report = text_report(result, {});
  EXPECT_NE(report.find("differences from local: expected none without a cause, got 1"),
            std::string::npos)
      << report;
}

// Recorded runs are compared in the same way.
TEST(TwoBackends, FindingsAtDifferentPlaces_AreUnexpected) {
  RecordedRun a;
  a.verdict = "mismatch";
  Finding& finding = a.findings.emplace_back();
  finding.verdict = Verdict::mismatch;
  finding.line = 2;
  finding.ranks = Lanes::range(0, 2);
  EXPECT_TRUE(compare_runs(a, a).agrees());
  RecordedRun line = a, ranks = a, kind = a;
  line.findings[0].line = 3;
  ranks.findings[0].ranks = Lanes::range(1, 2);
  kind.findings.push_back(finding);
  for (const RecordedRun& b : {line, ranks, kind}) {
    const RunComparison comparison = compare_runs(a, b);
    EXPECT_FALSE(comparison.agrees());
    const std::string text = comparison_text(comparison, {});
    EXPECT_NE(text.find("findings differ\n  A mismatch (line 2, ranks 0 1)\n  B mismatch"),
              std::string::npos)
        << text;
  }
}

TEST(TwoBackends, SingleBackend_IsNotNamedInTheReport) {
  const RunResult result = run_on({"local"}, "");
  EXPECT_EQ(result.scenarios[0].cases.at(0).backend, "");
}

}  // namespace
}  // namespace shardproof::two_backends_test
