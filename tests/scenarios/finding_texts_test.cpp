// Compares the text of every finding of the corpus with an approved text, as if no finding were
// expected.
#include <gtest/gtest.h>

#include <string>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/tests/approval.h"

namespace shardproof::finding_texts_test {
namespace {

std::string folder_texts(const std::string& folder) {
  const std::string source = SHARDPROOF_SOURCE_DIR, inside = "scenarios/corpus/" + folder;
  const Registries registries{builtin_ops(), builtin_backends()};
  TextStyle style;
  style.table = false;
  std::string texts;
  for (const ScenarioPath& path : find_scenarios(source + "/" + inside).paths) {
    const std::string file = path.path.substr(path.path.find(inside));  // wherever this test runs
    Scenario scenario = load_file(path.path, file);
    for (Case& one : scenario.cases) {
      one.refusal = {};
      for (Phase& phase : one.phases) phase.expect = {};
    }
    const RunResult result = run_scenarios({scenario}, {""}, {}, registries);
    texts += "// " + scenario.about + "\n";
    for (const CaseResult& one : result.scenarios[0].cases) texts += case_text(one, style) + "\n";
  }
  return texts;
}

TEST(FindingTexts, OfBugs) { expect_approved("findings/bugs", folder_texts("bugs")); }

TEST(FindingTexts, OfFaults) { expect_approved("findings/faults", folder_texts("faults")); }

}  // namespace
}  // namespace shardproof::finding_texts_test
