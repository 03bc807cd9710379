// Running: scenarios to results. Cases run on several threads, each case on one; results are in the
// order of files and cases, whatever ran first.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/scenarios/model/scenario.h"
#include "shardproof/scenarios/record/recorded_run.h"

namespace shardproof {

struct RunOptions {
  uint64_t seed = 0;
  ScheduleKind schedule = ScheduleKind::fifo;
  ReductionSchedule order;                     // in which every reduction adds
  std::vector<std::string> backends{"local"};  // each case runs on each of them
  std::string device = "host";                 // where kernels run: or "cuda"
  MatmulPrecision matmul = MatmulPrecision::highest;
  int processes = 0;  // of a backend that has some; 0: it has none
  int jobs = 0;       // threads; 0: one a core
  std::optional<std::string> only_case;
  std::vector<std::string> set;        // "hidden=4096", as given, for the command that repeats
  std::string program = "shardproof";  // first word of that command
  CompareScope compared = CompareScope::lines;
  Timing timing;
  bool sees = false;        // results keep what was compared
  Environment environment;  // of this machine, for those
};

enum class CaseStatus {
  as_expected,
  surprise,  // a finding that was not expected, or an expectation that was not met
  refused,   // bad input, or an operation that was refused
};

std::string_view status_text(CaseStatus status);

struct PhaseResult {
  Outcome outcome;  // without records and values
  std::vector<ExpectationFailure> missed;
  std::vector<JobListing> listings;                     // what ran, for reports
  std::string line_text(const Finding& finding) const;  // source of its line, or ""
};

struct CaseResult {
  std::string file, name;  // of the scenario, of the case
  std::string backend;     // where it ran, when that is one of several
  CaseStatus status = CaseStatus::as_expected;
  std::vector<PhaseResult> phases;
  std::vector<RecordedRun> runs;  // of a run that sees: one a phase, or one that says the error
  std::optional<Error> error;
  std::vector<ExpectationFailure> missed_refusal;  // what the error misses of an expected one
  std::string repeat;                              // the command that repeats it, by `file`
  std::string repeat_here;                         // the same by the path that was opened

  Verdict expected = Verdict::clean;  // of the first phase that expects something
  // The leading finding of the first phase whose own is not `imprecise`, else of the first phase
  // that found something; null: none.
  const Finding* leading() const;
  Verdict verdict() const;  // of that finding
  int64_t values_compared() const;
};

struct ScenarioResult {
  std::string file, group, about;
  std::vector<CaseResult> cases;
};

struct RunResult {
  std::vector<ScenarioResult> scenarios;
  std::vector<std::string> notes;  // of backends, on what they ran
  int exit_code() const;           // the greatest of all cases: 0, 1 or 2
  int64_t cases() const;
  int64_t unexpected_results() const;  // cases that did not end as expected
  int64_t values_compared() const;
};

struct Progress {
  int64_t done = 0, failing = 0, total = 0;
};
// What looks on; each is called by one thread at a time. What one throws ends the run and leaves
// it.
struct RunObserver {
  std::function<void(const Progress&)> progress;
  std::function<void(CaseResult&)> done;  // a case is through, on one backend
};
// Why none of its cases can begin, when that is so: its program is bad input. Nothing of a file
// that expects to be refused. Runs nothing.
std::optional<Error> refusal_of(const Scenario& scenario, const Registries& registries);

// `groups` has one entry a scenario: its row in the table of a folder. Throws Error when
// `only_case` names no case.
//
// A backend with a crew (backends/api/worker_pool.h) runs one case after another, and its processes
// follow.
RunResult run_scenarios(const std::vector<Scenario>& scenarios,
                        const std::vector<std::string>& groups, const RunOptions& options,
                        const Registries& registries, const RunObserver& watch = {});

// In a process of the crew that does not judge: takes part in the cases of run_scenarios over the
// same scenarios with the same options, as they are asked for. Tells nobody what came out.
void run_scenarios_as_worker(const std::vector<Scenario>& scenarios, const RunOptions& options,
                             const Registries& registries);

}  // namespace shardproof
