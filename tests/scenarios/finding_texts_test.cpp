// Compares the text of every finding of the corpus with an approved text, and applies its fix. The
// files run without their expectations, so that each finding is printed. Also compares the reports
// of runs on several threads.
#include <gtest/gtest.h>

#include <string>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/tests/approval.h"
#include "shardproof/tests/scenarios/printed_fixes.h"

namespace shardproof::finding_texts_test {
namespace {

// The scenarios of a folder of the corpus whose files begin with a letter from first to last,
// without expectations.
std::vector<Scenario> scenarios_of(const std::string& folder, char first = 'a', char last = 'z') {
  const std::string source = SHARDPROOF_SOURCE_DIR, inside = "scenarios/corpus/" + folder;
  std::vector<Scenario> scenarios;
  for (const ScenarioPath& path : find_scenarios(source + "/" + inside).paths) {
    const std::string file = path.path.substr(path.path.find(inside));  // wherever this test runs
    const char letter = file[inside.size() + 1];
    if (letter < first || letter > last) continue;
    scenarios.push_back(load_file(path.path, file));
    for (Case& one : scenarios.back().cases) {
      one.refusal = {};
      for (Phase& phase : one.phases) phase.expect = {};
    }
  }
  return scenarios;
}

const Registries& registries() {
  static const Registries kAll{builtin_ops(), builtin_backends()};
  return kAll;
}

RunResult run_all(const std::vector<Scenario>& scenarios, int threads) {
  RunOptions options;
  options.jobs = threads;
  return run_scenarios(scenarios, std::vector<std::string>(scenarios.size()), options,
                       registries());
}

std::string texts_of(const std::vector<Scenario>& scenarios, const RunResult& result) {
  TextStyle style;
  style.table = false;
  std::string texts;
  for (size_t i = 0; i < scenarios.size(); ++i) {
    texts += "// " + scenarios[i].about + "\n";
    for (const CaseResult& one : result.scenarios[i].cases) texts += case_text(one, style) + "\n";
  }
  return texts;
}

// Applies the printed fixes and returns their number.
int64_t applied_fixes(const std::vector<Scenario>& scenarios, const RunResult& result) {
  printed_fixes::FixCounts fixes;
  for (size_t i = 0; i < scenarios.size(); ++i)
    fixes.check(scenarios[i], result.scenarios[i], registries());
  fmt::print("{} fixes applied, {} leave a choice\n", fixes.applied, fixes.left_out);
  return fixes.applied;
}

// A part of the corpus of bugs: the first and the last letter of its files, and the number of
// threads that run it.
struct Part {
  char first, last;
  int threads;
};

class FindingTexts_OfBugs : public testing::TestWithParam<Part> {};

TEST_P(FindingTexts_OfBugs, AreApproved_AndFixesCorrectTheirValues) {
  const auto [first, last, threads] = GetParam();
  const std::vector<Scenario> scenarios = scenarios_of("bugs", first, last);
  const RunResult result = run_all(scenarios, threads);
  const std::string approved = std::string("findings/bugs_") + first + "_to_" + last;
  expect_approved(approved, texts_of(scenarios, result));
  EXPECT_GT(applied_fixes(scenarios, result), 10);
}

INSTANTIATE_TEST_SUITE_P(Files, FindingTexts_OfBugs,
                         testing::Values(Part{'a', 'f', 1}, Part{'g', 'm', 3}, Part{'n', 'r', 1},
                                         Part{'s', 'z', 3}));

TEST(FindingTexts, OfGradients_HaveFixesThatCorrectTheirValues) {
  const std::vector<Scenario> scenarios = scenarios_of("gradients");
  const RunResult result = run_all(scenarios, 1);
  EXPECT_GT(applied_fixes(scenarios, result), 4);
}

// Neither the number of threads nor a second run changes a byte of the reports.
TEST(FindingTexts, WithAnyNumberOfThreads_AreEqual) {
  const std::vector<Scenario> scenarios = scenarios_of("bugs", 's', 'z');
  const RunResult one = run_all(scenarios, 1), again = run_all(scenarios, 3);
  EXPECT_EQ(text_report(again, {}), text_report(one, {}));
  EXPECT_EQ(json_report(again, {"0", {}}), json_report(one, {"0", {}}));
  EXPECT_EQ(junit_report(again, {"0", {}}), junit_report(one, {"0", {}}));
}

TEST(FindingTexts, OfFaults) {
  const std::vector<Scenario> scenarios = scenarios_of("faults");
  expect_approved("findings/faults", texts_of(scenarios, run_all(scenarios, 1)));
}

}  // namespace
}  // namespace shardproof::finding_texts_test
