// Tests the programs that `show` prints. Each parses back, and the rank program gives the same bits
// on every rank, with the same findings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "shardproof/engine/check/print_job.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof::shown_programs_test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostCases = 6;  // of a file; others differ only in sizes

const Registries& registries() {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  return kRegistries;
}

std::vector<ScenarioPath> all_files() {
  std::vector<ScenarioPath> files;
  for (const char* folder : {"scenarios", "tests/scenarios"})
    for (ScenarioPath& path :
         find_scenarios(std::string(SHARDPROOF_SOURCE_DIR) + "/" + folder).paths)
      files.push_back(std::move(path));
  return files;
}

std::string name_of(const testing::TestParamInfo<ScenarioPath>& info) {
  const fs::path path(info.param.path);
  std::string name = path.parent_path().filename().string() + "_" + path.stem().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

struct RankValues {
  std::set<std::string> verdicts;
  bool ended = false;
  std::map<std::string, LocalTensor> values;  // by name and dtype, at the end
};

RankValues run_ranks(const SpmdProgram& program, const NamesAtEnd& names, const Job& job) {
  ValueFilter watched;
  for (const auto& [name, parts] : names)
    for (const auto& [lanes, id] : parts) watched.at_end.push_back(id);
  const ProgramRun run =
      run_program(program, job, registries(), watched, [] { return ProbeFunction{}; });
  RankValues result;
  for (const Finding& finding : run.outcome.findings)
    result.verdicts.insert(std::string(name(finding.verdict)));
  result.ended = !has_unfinished_ranks(run.outcome.findings);
  for (const auto& [name, parts] : names)
    for (const auto& [lanes, id] : parts) {
      const LocalTensor part = run.value(id).restrict_to(lanes);
      if (part.empty()) continue;
      // A name may have another dtype on other ranks.
      LocalTensor& whole =
          result.values[fmt::format("{} ({})", name, shardproof::name(part.dtype()))];
      whole = whole.empty() ? part : whole.merged_with(part);
    }
  return result;
}

std::string text_of(const PrintedJob& printed) {
  std::string text;
  for (const RankText& ranks : printed.ranks) {
    text += "# ranks " + to_string(ranks.lanes) + "\n";
    for (const std::string& line : with_remarks(ranks.lines)) text += line + "\n";
  }
  return text;
}

void expect_equal(const RankValues& again, const RankValues& first) {
  EXPECT_EQ(again.verdicts, first.verdicts);
  EXPECT_EQ(again.ended, first.ended);
  if (!first.ended) return;
  for (const auto& [name, value] : first.values) {
    const auto found = again.values.find(name);
    ASSERT_NE(found, again.values.end()) << name << " has no value at the end";
    ASSERT_EQ(to_string(found->second.lanes()), to_string(value.lanes())) << name;
    for (int64_t i = 0; i < value.lanes().size(); ++i) {
      const int64_t rank = value.lanes()[i];
      EXPECT_TRUE(bit_equal(found->second.of_rank(rank), 0, value.of_rank(rank), 0))
          << name << " differs on rank " << rank;
    }
  }
}

// Returns the cases of the file that lower, each with its name.
std::vector<std::pair<std::string, Job>> jobs_of(const ScenarioPath& path) {
  std::vector<std::pair<std::string, Job>> jobs;
  try {
    size_t cases = 0;
    for (const Case& one : load_file(path.path, path.file).cases) {
      if (one.refused || cases++ == kMostCases) continue;
      for (const Phase& phase : one.phases)
        if (phase.expect.verdict != Verdict::bad_input)
          jobs.emplace_back(one.name, filled(phase, 0));
    }
  } catch (const Error&) {
    // The file is refused, which other tests check.
  }
  return jobs;
}

class Shown : public testing::TestWithParam<ScenarioPath> {};

TEST_P(Shown, RankProgram_RunAgain_GivesTheSameValues) {
  for (const auto& [name, job] : jobs_of(GetParam())) {
    const bool by_line =
        std::any_of(job.faults.begin(), job.faults.end(),
                    [](const std::string& fault) { return fault.find("line=") != fault.npos; });
    if (by_line) continue;  // lines have other numbers in the printed program
    const PrintedJob printed = print_job(job, registries());
    SCOPED_TRACE(name + "\n" + text_of(printed));
    const RankValues first = run_ranks(printed.program, printed.at_end, job);
    try {
      const Job again = job_of_printed(job, printed);
      const RankProgram lowered = lower_ranks(again, registries().ops);
      NamesAtEnd names;
      for (const auto& [bound, parts] : lowered.names)
        for (const NamedPart& part : parts) names[bound].emplace_back(part.lanes, part.value);
      expect_equal(run_ranks(lowered.program, names, again), first);
    } catch (const Error& error) {
      FAIL() << error.what();
    }
  }
}

TEST_P(Shown, GlobalProgram_RunAgain_GivesTheSameValues) {
  for (const auto& [name, job] : jobs_of(GetParam())) {
    if (!job.program) continue;
    const PrintedJob printed = print_job(job, registries());
    std::string text;
    for (const std::string& line : with_remarks(printed.global)) text += line + "\n";
    SCOPED_TRACE(name + "\n" + text);
    const RankValues first = run_ranks(printed.program, printed.at_end, job);
    try {
      Job again = job;
      again.program = parse_listing(with_remarks(printed.global));
      const PrintedJob read = print_job(again, registries());
      expect_equal(run_ranks(read.program, read.at_end, again), first);
    } catch (const Error& error) {
      FAIL() << error.what();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Files, Shown, testing::ValuesIn(all_files()), name_of);

}  // namespace
}  // namespace shardproof::shown_programs_test
