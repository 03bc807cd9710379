// Compares the text of every finding of the corpus with an approved text, as if no finding were
// expected, and the reports of runs on several threads.
#include <gtest/gtest.h>

#include <string>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/tests/approval.h"

namespace shardproof::finding_texts_test {
namespace {

// The scenarios of a folder of the corpus, without expectations.
std::vector<Scenario> scenarios_of(const std::string& folder) {
  const std::string source = SHARDPROOF_SOURCE_DIR, inside = "scenarios/corpus/" + folder;
  std::vector<Scenario> scenarios;
  for (const ScenarioPath& path : find_scenarios(source + "/" + inside).paths) {
    const std::string file = path.path.substr(path.path.find(inside));  // wherever this test runs
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

// Neither the number of threads nor a second run changes a byte of the reports.
TEST(FindingTexts, OfBugs_WithAnyNumberOfThreads) {
  const std::vector<Scenario> scenarios = scenarios_of("bugs");
  const RunResult one = run_all(scenarios, 1), again = run_all(scenarios, 3);
  expect_approved("findings/bugs", texts_of(scenarios, one));
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
