// Compares the text of every finding of the corpus with an approved text. The files run without
// their expectations, so that each finding is printed. Also compares the reports of runs on several
// threads.
#include <gtest/gtest.h>

#include <string>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/tests/approval.h"
#include "shardproof/tests/few_draws.h"

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

RunResult run_all(const std::vector<Scenario>& scenarios, int jobs) {
  const Registries registries{builtin_ops(), builtin_backends()};
  RunOptions options;
  options.jobs = jobs;
  return run_scenarios(scenarios, std::vector<std::string>(scenarios.size()), options, registries);
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

// The first and the last letter of the files that a test runs.
struct Letters {
  char first, last;
};

class FindingTexts_OfBugs : public testing::TestWithParam<Letters> {};

// Neither the number of threads nor a second run changes a byte of the reports.
TEST_P(FindingTexts_OfBugs, WithAnyNumberOfThreads) {
  const auto [first, last] = GetParam();
  const std::vector<Scenario> scenarios = scenarios_of("bugs", first, last);
  const RunResult one = run_all(scenarios, 1);
  const std::string approved = std::string("findings/bugs_") + first + "_to_" + last;
  expect_approved(approved, texts_of(scenarios, one));
  if (kFewDraws) return;
  const RunResult again = run_all(scenarios, 3);
  EXPECT_EQ(text_report(again, {}), text_report(one, {}));
  EXPECT_EQ(json_report(again, {"0", {}}), json_report(one, {"0", {}}));
  EXPECT_EQ(junit_report(again, {"0", {}}), junit_report(one, {"0", {}}));
}

INSTANTIATE_TEST_SUITE_P(Files, FindingTexts_OfBugs,
                         testing::Values(Letters{'a', 'f'}, Letters{'g', 'm'}, Letters{'n', 'r'},
                                         Letters{'s', 'z'}));

TEST(FindingTexts, OfFaults) {
  const std::vector<Scenario> scenarios = scenarios_of("faults");
  expect_approved("findings/faults", texts_of(scenarios, run_all(scenarios, 1)));
}

}  // namespace
}  // namespace shardproof::finding_texts_test
