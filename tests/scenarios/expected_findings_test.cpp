// Tests the keys of `expect` about findings, values not decided and precision: reading, refusals,
// and comparison with an outcome.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof::expected_findings_test {
namespace {

// A global program with values of several dtypes, in loops too.
std::string global_file(const std::string& expect, const std::string& more = "") {
  return fmt::format(
      R"json({{"version": 1, "mesh": "dp=2", "let": {{"most": 500}},
          "tensors": {{"x": {{"shape": [4]}}, "wide": {{"shape": [4], "dtype": "f64"}},
                       "ids": {{"shape": [4], "dtype": "i64"}}}},
          "program": ["y = x * 2", "z = wide * 2", "n = ids + 1", "m = y > 0", "same = n",
                      "for i in range(2):", "  h{{i}} = y"]{}, "expect": {{{}}}}})json",
      more, expect);
}

std::string rank_file(const std::string& expect, const std::string& truth) {
  return fmt::format(
      R"json({{"version": 1, "mesh": "dp=2", "tensors": {{"x": {{"shape": [4]}}}},
          "ranks": {{"all": ["p = x * 2", "y = p + 1"]}}, "outputs": {{"y": "R"}}{},
          "expect": {{{}}}}})json",
      truth, expect);
}

CaseResult run_first(const std::string& text) {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  return run_scenarios({load_text(text, "f.json")}, {""}, {}, kRegistries).scenarios[0].cases[0];
}

// Returns the message of a refusal while reading or running, without line and column, or "".
std::string refusal(const std::string& text) {
  std::string message;
  try {
    const CaseResult result = run_first(text);
    if (result.error) message = result.error->what();
  } catch (const Error& error) {
    message = error.what();
  }
  return std::regex_replace(message, std::regex("^f.json:[0-9]+:[0-9]+: "), "f.json: ");
}

std::vector<PrecisionLimit> limits_of(const std::string& text) {
  return load_text(text, "f.json").cases[0].phases[0].job.precision_limits;
}

TEST(Precision_OfAllOrSomeValues, BecomesLimitsOfTheJob) {
  const std::vector<PrecisionLimit> all = limits_of(global_file(R"("precision": "<= 1000")"));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "");
  EXPECT_EQ(to_string(all[0].condition), "<= 1000");
  EXPECT_EQ(all[0].path, "/expect/precision");

  const std::vector<PrecisionLimit> some =
      limits_of(global_file(R"("precision": {"y": "<= 2 * most", "h1": "< 64"})"));
  ASSERT_EQ(some.size(), 2U);
  EXPECT_EQ(some[0].name, "y");
  EXPECT_EQ(to_string(some[0].condition), "<= 1000");
  EXPECT_EQ(some[1].name, "h1");
  EXPECT_EQ(some[1].path, "/expect/precision/h1");
  EXPECT_TRUE(limits_of(global_file("")).empty());
  EXPECT_EQ(refusal(global_file(R"("precision": {"y": "<= 1000", "h1": "< 64"})")), "");
}

TEST(Precision_InASweep_IsOfItsCase, EachCaseHasItsOwn) {
  const Scenario scenario = load_text(
      R"json({"version": 1, "mesh": "dp=2", "tensors": {"x": {"shape": [4]}}, "program": ["y = x"],
          "sweep": [{"mesh": "dp=2", "expect": {"precision": {"y": "< 64"}, "findings": 0}},
                    {"mesh": "dp=4", "expect": {"undecided": "<= 3"}}]})json",
      "f.json");
  const Phase& first = scenario.cases[0].phases[0];
  ASSERT_EQ(first.job.precision_limits.size(), 1U);
  EXPECT_EQ(to_string(*first.expect.findings), "0");
  EXPECT_TRUE(scenario.cases[1].phases[0].job.precision_limits.empty());
  EXPECT_EQ(to_string(*scenario.cases[1].phases[0].expect.undecided), "<= 3");
}

TEST(Precision_OfAnUnknownName, IsRefusedWithTheNearest) {
  EXPECT_EQ(refusal(global_file(R"("precision": {"wid": "< 64"})")),
            "f.json: /expect/precision/wid: expected the name of a value, found \"wid\", which no "
            "line binds; did you mean \"wide\"?");
  EXPECT_EQ(refusal(global_file(R"("precision": {"h7": "< 64"})")),
            "f.json: /expect/precision/h7: expected the name of a value, found \"h7\", which no "
            "line binds; did you mean \"h0\"?");
  const std::string truth = R"(, "truth": ["q = x * 2", "y = q + 1"])";
  EXPECT_EQ(refusal(rank_file(R"("precision": {"y": "< 64", "q": "< 64"})", truth)), "");
  EXPECT_EQ(
      refusal(rank_file(R"("precision": {"p": "< 64"})", truth)),
      "f.json: /expect/precision/p: the truth does not compute p; limit the precision of a name "
      "that it binds");
  EXPECT_EQ(refusal(rank_file(R"("precision": {"y": "< 64"})", "")),
            "f.json: /expect/precision/y: precision is compared with one device; add a \"truth\"");
}

TEST(Precision_OfAnExactValue, IsRefused) {
  const std::string no_rounding = "which has no rounding; limit the precision of floats only";
  EXPECT_EQ(refusal(global_file(R"("precision": {"n": "< 64"})")),
            "f.json: /expect/precision/n: n is i64, " + no_rounding);
  EXPECT_EQ(refusal(global_file(R"("precision": {"same": "< 64"})")),
            "f.json: /expect/precision/same: same is i64, " + no_rounding);
  EXPECT_EQ(refusal(global_file(R"("precision": {"m": "< 64"})")),
            "f.json: /expect/precision/m: m is bool, " + no_rounding);
  EXPECT_EQ(refusal(global_file(R"("precision": {"z": "< 64"})")),
            "f.json: /expect/precision/z: z is f64; limit the precision of dtypes narrower than "
            "f64 only");
}

TEST(Precision_ThatIsNoCondition, IsRefused) {
  const std::string wanted = "expected a condition such as \"<= 1000\"";
  EXPECT_EQ(refusal(global_file(R"("precision": 1000)")),
            "f.json: /expect/precision: " + wanted +
                ", or an object of names and conditions, found 1000");
  EXPECT_EQ(refusal(global_file(R"("precision": {"y": 1000})")),
            "f.json: /expect/precision/y: " + wanted + ", found 1000");
  EXPECT_EQ(refusal(global_file(R"("precision": "1000")")),
            "f.json: /expect/precision: " + wanted + ", found \"1000\"");
  EXPECT_EQ(refusal(global_file(R"("precision": {"y": "< 0"})")),
            "f.json: /expect/precision/y: expected a condition that a number from 0 upwards can "
            "meet, found \"< 0\"");
  EXPECT_EQ(refusal(global_file(R"("precision": {"y": "< 4 KiB"})")),
            "f.json: /expect/precision/y: expected a number such as \"<= 4\", found \"< 4 KiB\"");
}

TEST(Counts_ThatNothingMeets, AreRefused) {
  EXPECT_EQ(refusal(global_file(R"("undecided": -1)")),
            "f.json: /expect/undecided: expected a condition that a number from 0 upwards can "
            "meet, found -1");
  EXPECT_EQ(refusal(global_file(R"("verdict": "wrong values", "findings": -1)")),
            "f.json: /expect/findings: expected a condition that a number from 0 upwards can meet, "
            "found -1");
  EXPECT_EQ(refusal(global_file(R"("verdict": "wrong values", "findings": 0)")),
            "f.json: /expect/findings: expected a condition that a number from 1 upwards can meet, "
            "found 0");
  EXPECT_EQ(refusal(global_file(R"("findings": 2)")),
            "f.json: /expect/findings: \"findings\" counts findings; add the \"verdict\" that is "
            "expected, which is clean here");
  EXPECT_EQ(refusal(global_file(R"("undecided": 1.5)")),
            "f.json: /expect/undecided: expected a whole number or a condition such as \"<= 4\", "
            "found 1.5");
}

TEST(UnknownVerdict, IsRefusedWithTheValidOnes) {
  EXPECT_EQ(
      refusal(global_file(R"("verdict": "inprecise")")),
      "f.json: /expect/verdict: unknown verdict \"inprecise\"; did you mean \"imprecise\"? The "
      "verdicts are clean, wrong values, replicas differ, mismatch, deadlock, missing "
      "rank, not a member, race, unwritten redistribution, imprecise, bad input");
  EXPECT_EQ(
      refusal(global_file(R"("verdict": "nothing at all")")).substr(0, 88),
      "f.json: /expect/verdict: unknown verdict \"nothing at all\"; the verdicts are clean, wrong");
}

Finding finding_of(Verdict verdict, int line, const std::string& name) {
  Finding finding;
  finding.verdict = verdict;
  finding.line = line;
  finding.name = name;
  return finding;
}

// Returns the unmet expectations of an outcome as lines "what: expected, got".
std::string missed_text(const std::string& expect, const Outcome& outcome) {
  const Phase phase = load_text(global_file(expect), "f.json").cases[0].phases[0];
  std::string out;
  for (const ExpectationFailure& miss : unmet_expectations(phase.expect, outcome, phase.job))
    out += miss.what + ": " + miss.expected + ", " + miss.got + "\n";
  return out;
}

Outcome outcome_of(std::vector<Finding> findings) {
  Outcome outcome;
  outcome.findings = std::move(findings);
  return outcome;
}

const Finding kImprecise = finding_of(Verdict::imprecise, 1, "y");
const Finding kWrong = finding_of(Verdict::wrong_values, 2, "z");

TEST(Imprecise_AsTheOnlyFinding, IsTheVerdict) {
  const Outcome outcome = outcome_of({kImprecise});
  EXPECT_EQ(missed_text(R"("verdict": "imprecise", "line": 1, "name": "y")", outcome), "");
  EXPECT_EQ(missed_text(R"("verdict": "imprecise", "line": 2)", outcome), "line: 2, 1\n");
  EXPECT_EQ(missed_text("", outcome), "verdict: clean, imprecise\n");
  EXPECT_EQ(missed_text(R"("verdict": "wrong values")", outcome),
            "verdict: wrong values, imprecise\n");
  EXPECT_EQ(missed_text(R"("verdict": "imprecise")", {}), "verdict: imprecise, clean\n");
}

TEST(Imprecise_WithAnotherFinding, CountsLast) {
  for (const Outcome& outcome :
       {outcome_of({kWrong, kImprecise}), outcome_of({kImprecise, kWrong})}) {
    EXPECT_EQ(missed_text(R"("verdict": "wrong values", "line": 2, "name": "z")", outcome), "");
    EXPECT_EQ(missed_text(R"("verdict": "imprecise")", outcome),
              "verdict: imprecise, wrong values\n");
    EXPECT_EQ(missed_text(R"("verdict": "wrong values", "name": "y")", outcome), "name: y, z\n");
  }
  // If a deadlock is expected, any of several deadlocks meets it, but an imprecise value never
  // does.
  const Outcome hangs = outcome_of({finding_of(Verdict::deadlock, 3, ""), kImprecise});
  EXPECT_EQ(missed_text(R"("verdict": "deadlock", "line": 3)", hangs), "");
  EXPECT_EQ(missed_text(R"("verdict": "deadlock", "line": 1)", hangs), "line: 1, 3\n");
}

TEST(Findings_AreCounted, OfAllKinds) {
  const Outcome outcome = outcome_of({kWrong, kWrong, kImprecise});
  EXPECT_EQ(missed_text(R"("verdict": "wrong values", "findings": 3)", outcome), "");
  EXPECT_EQ(missed_text(R"("verdict": "wrong values", "findings": "<= 2")", outcome),
            "findings: <= 2, 3\n");
  EXPECT_EQ(missed_text(R"("findings": 0)", {}), "");
}

TEST(Undecided_IsCounted, AndByDefaultAnyNumberMayBe) {
  Outcome outcome;
  outcome.undecided = {{"y", 1, "", 3, 4, "r"}, {"m", 4, "", 1, 4, "r"}};
  EXPECT_EQ(missed_text("", outcome), "");
  EXPECT_EQ(missed_text(R"("undecided": "<= 2")", outcome), "");
  EXPECT_EQ(missed_text(R"("undecided": 0)", outcome), "values not decided: 0, 2\n");
}

TEST(VerdictOfACase_ComesAfterAllOtherPhases, WhenImprecise) {
  CaseResult result;
  result.phases.resize(3);
  EXPECT_EQ(result.verdict(), Verdict::clean);
  result.phases[1].outcome = outcome_of({kImprecise});
  EXPECT_EQ(result.verdict(), Verdict::imprecise);
  result.phases[2].outcome = outcome_of({kWrong});
  EXPECT_EQ(result.verdict(), Verdict::wrong_values);
  EXPECT_EQ(result.leading(), &result.phases[2].outcome.findings[0]);
}

}  // namespace
}  // namespace shardproof::expected_findings_test
