// Runs every example file and the whole corpus. Each must end with the verdict that it states.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "shardproof/engine/check/check.h"
#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::examples_test {
namespace {

// Seeds of each schedule.
constexpr uint64_t kSeeds = kFewDraws ? 1 : 2;

namespace fs = std::filesystem;

const Registries& registries() {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  return kRegistries;
}

// Without options.searches_causes, findings are not counted: each number needs the causes.
RunResult run_all(const std::vector<ScenarioPath>& paths, const RunOptions& options) {
  std::vector<Scenario> scenarios;
  std::vector<std::string> groups;
  for (const ScenarioPath& path : paths) {
    scenarios.push_back(load_file(path.path, path.file));
    groups.push_back(path.group);
    if (!options.searches_causes)
      for (Case& one : scenarios.back().cases)
        for (Phase& phase : one.phases) phase.expect.findings = {};
  }
  return run_scenarios(scenarios, groups, options, registries());
}

RunResult run_one(const ScenarioPath& path) { return run_all({path}, {}); }

std::string name_of(const testing::TestParamInfo<ScenarioPath>& info) {
  std::string name = info.param.group + "_" + fs::path(info.param.path).stem().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

std::vector<ScenarioPath> below(const std::string& folder) {
  return find_scenarios(std::string(SHARDPROOF_SOURCE_DIR) + "/" + folder).paths;
}

bool is_known(const ScenarioPath& path) {
  return fs::path(path.path).filename().string().starts_with("a");
}
std::vector<ScenarioPath> examples(bool known) {
  std::vector<ScenarioPath> out;
  for (const ScenarioPath& path : below("tests/scenarios"))
    if (is_known(path) == known) out.push_back(path);
  return out;
}

class Corpus : public testing::TestWithParam<ScenarioPath> {};
TEST_P(Corpus, File_EndsAsExpected) {
  const RunResult result = run_one(GetParam());
  EXPECT_EQ(result.exit_code(), 0) << text_report(result, {});
  EXPECT_FALSE(result.scenarios[0].about.empty())
      << "a scenario of the corpus states why it exists";
}
INSTANTIATE_TEST_SUITE_P(Scenarios, Corpus, testing::ValuesIn(below("scenarios/corpus")), name_of);
INSTANTIATE_TEST_SUITE_P(Examples, Corpus, testing::ValuesIn(examples(true)), name_of);

int64_t calls_of(const LoweredJob& lowered) {
  const Instrs& instrs = lowered.program.listings.at(0).instrs;
  return std::count_if(instrs.begin(), instrs.end(), [](const Instr& instr) {
    return std::holds_alternative<Communicate>(instr.action);
  });
}

// True if the program binds a tensor of the file again, which then keeps its placement. The output
// of `show` gives each binding a name of its own, so it does not state this.
bool has_state(const Job& job) {
  const GlobalProgram program =
      lower_global(*job.program, context_of(job, registries().ops), "/program");
  return std::any_of(program.values.begin(), program.values.end(),
                     [](const GlobalValue& value) { return value.state_of != kNoValue; });
}

// Returns the lines of a program. An op that is printed inside a later line has no line of its own.
std::vector<std::string> lines_of(const LoweredJob& lowered) {
  std::vector<std::string> lines = lowered.global_lines;
  std::erase(lines, "");
  return lines;
}

// The global program that `show` prints parses back to the same program.
TEST(Show, GlobalProgramsParseBack) {
  int shown = 0;
  for (const ScenarioPath& path : below("scenarios/corpus")) {
    for (const Case& one : load_file(path.path, path.file).cases) {
      if (one.refused || one.phases[0].expect.verdict == Verdict::bad_input) continue;
      Job job = one.phases[0].job;
      if (!job.program) continue;
      SCOPED_TRACE(path.file + " " + one.name);
      const LoweredJob first = lower_job(job, registries());
      job.program = parse_listing(first.global_lines);
      const LoweredJob again = lower_job(job, registries());
      EXPECT_EQ(lines_of(again), lines_of(first));
      if (!has_state(one.phases[0].job)) {
        EXPECT_EQ(calls_of(again), calls_of(first));
      }
      ++shown;
    }
  }
  EXPECT_GT(shown, 100);
}

// Examples with unsupported features are refused, never run without these features.
class Later : public testing::TestWithParam<ScenarioPath> {};
TEST_P(Later, File_IsRefusedOrEndsAsExpected) {
  try {
    const RunResult result = run_one(GetParam());
    const std::string report = text_report(result, {});
    const bool refused = report.find("is not supported by this version") != std::string::npos;
    // The simulator gives each value memory of its own, so reuse after `free` shows no race.
    const bool missed = GetParam().file.find("c02_reuse_in_flight") != std::string::npos &&
                        report.find("clean; expected race") != std::string::npos;
    EXPECT_TRUE(result.exit_code() == 0 || (result.exit_code() == 2 && refused) || missed)
        << report;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
    EXPECT_NE(error.message().find("is not supported by this version"), std::string::npos)
        << error.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Examples, Later, testing::ValuesIn(examples(false)), name_of);

// Returns the files of the corpus that expect no race. Only two schedules show a race.
std::vector<ScenarioPath> without_races() {
  std::vector<ScenarioPath> paths = below("scenarios/corpus");
  std::erase_if(paths, [](const ScenarioPath& path) {
    const Scenario scenario = load_file(path.path, path.file);
    return std::any_of(scenario.cases.begin(), scenario.cases.end(),
                       [](const Case& one) { return expected_verdict(one) == Verdict::race; });
  });
  return paths;
}

// Verdicts depend neither on the schedule of the ranks nor on the data.
TEST(Run, Corpus_EndsAsExpected_UnderEverySchedule) {
  const std::vector<ScenarioPath> paths = without_races();
  EXPECT_GT(paths.size(), 200U);
  for (const ScheduleKind kind : {ScheduleKind::adversarial, ScheduleKind::seeded}) {
    if (kFewDraws && kind == ScheduleKind::seeded) continue;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      RunOptions options;
      options.schedule = kind;
      options.schedule_is_chosen = true;
      options.seed = seed;
      options.searches_causes = false;
      const RunResult result = run_all(paths, options);
      EXPECT_EQ(result.exit_code(), 0) << "seed " << seed << "\n" << text_report(result, {});
    }
  }
}

}  // namespace
}  // namespace shardproof::examples_test
