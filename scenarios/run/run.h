// Running: executes the cases of scenarios and compares outcomes with expectations. Cases run on
// several threads, each case on one. Results are in the order of files and cases.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/scenarios/model/scenario.h"
#include "shardproof/scenarios/record/recorded_run.h"
#include "shardproof/scenarios/run/check_expectations.h"

namespace shardproof {

struct RunOptions {
  uint64_t seed = 0;
  ScheduleKind schedule = ScheduleKind::fifo;
  bool schedule_is_chosen = false;             // by --schedule: no other schedule is tried
  ReductionSchedule order;                     // order in which reductions add
  std::vector<std::string> backends{"local"};  // each case runs on each of them
  std::string device = "host";                 // where kernels run: "host" or "cuda"
  MatmulPrecision matmul = MatmulPrecision::highest;
  int processes = 0;                     // worker processes of the backend; 0: it has none
  int jobs = 0;                          // threads; 0: one for each core
  std::optional<std::string> only_case;  // of --case; see choose_cases
  std::string filter;                    // text that "file [case]" must contain
  bool fail_fast = false;                // true: stop after the first case that is not as expected
  std::optional<PlanMoves> moves;        // steps of redistributions, in place of those of the files
  std::vector<std::string> print;        // "y", "y@3": values of --print
  std::vector<std::string> set;        // "hidden=4096": --set options, for the command that repeats
  std::string program = "shardproof";  // first word of that command
  CompareScope compared = CompareScope::lines;
  bool searches_causes = true;  // false: only where a file expects a number of findings
  Timing timing;
  bool draws = false;  // true: results keep the records of simulated times, for the timeline
  bool records_values = false;  // true: results contain a RecordedRun for each phase
  Environment environment;      // facts about this machine, for recorded runs
};

enum class CaseStatus {
  as_expected,
  unexpected,  // an unexpected finding, or an expectation that is not met
  refused,     // bad input or a refused operation
};

// The place of a finding in its scenario file.
struct SourcePlace {
  std::string listing;  // JSON pointer of the listing in the file: "/ranks/pp=0"; or empty
  int file_line = 0, file_column = 0;  // in the text of the file, from 1; 0: not known
};

struct PhaseResult {
  Outcome outcome;  // its records and values are cleared to save memory
  std::vector<ExpectationFailure> missed;
  std::vector<JobListing> listings;  // program lines, for reports
  std::vector<SourcePlace> places;   // one for each finding
  SourcePlace expect_place;          // of "expect", for unmet expectations
  std::string printed;               // the values of RunOptions::print, as text
  bool compares_nothing = false;     // no finding, and no value was compared; a note states why
  // Returns the listing that holds the line of a finding, or null.
  const JobListing* listing_of(const Finding& finding) const;
  // Returns the program line of a finding, or "".
  std::string line_text(const Finding& finding) const;
};

struct CaseResult {
  std::string file, name;  // scenario file, name of the case
  std::string backend;     // set if the run has several backends
  double seconds = 0;      // duration of the case
  CaseStatus status = CaseStatus::as_expected;
  std::vector<PhaseResult> phases;
  std::vector<RecordedRun>
      runs;  // if RunOptions::records_values: one for each phase, or one with the error
  std::optional<Error> error;
  std::vector<Error> more_errors;  // of the same file, after `error`
  std::vector<ExpectationFailure>
      missed_refusal;       // how `error` differs from the expected bad input
  std::string repeat;       // command that repeats the case, with `file`
  std::string repeat_here;  // the same command with the path that was opened

  Verdict expected = Verdict::clean;  // verdict of the first phase that is not expected clean
  // Returns the leading finding of the first phase in which it is not `imprecise`, else of the
  // first phase with a finding. Null if there is none.
  const Finding* leading() const;
  Verdict verdict() const;  // verdict of leading(), or bad_input if the case was refused
  int64_t values_compared() const;
  bool compares_nothing() const;  // true of all phases of a case that ran
  // Returns "as expected", "unexpected", "bad input", or "refused" for a feature or a size that
  // this version or machine does not support.
  std::string_view status_text() const;
};

struct ScenarioResult {
  std::string file, group, about;
  std::vector<CaseResult> cases;
};

struct RunResult {
  std::vector<ScenarioResult> scenarios;
  std::vector<std::string> notes;    // notes of backends, such as the GPUs used
  int64_t not_run = 0;               // cases that --fail-fast left out
  std::vector<std::string> skipped;  // *.json files of a folder that are not scenarios
  int exit_code() const;             // maximum over all cases: 0, 1 or 2
  int64_t cases() const;
  int64_t unexpected_results() const;  // number of cases that are not as expected
  int64_t values_compared() const;
  int64_t cases_without_values() const;  // number of cases that compare nothing
};

struct Progress {
  int64_t done = 0, failing = 0, total = 0;
};
// Callbacks of a run. One thread at a time calls them. An exception of a callback ends the run and
// is rethrown by run_scenarios.
struct RunObserver {
  std::function<void(const Progress&)> progress;
  std::function<void(CaseResult&)> done;  // called when a case has ended on one backend
};
enum class LoweredPrograms : uint8_t { dropped, stored };
// Lowers the program of each case without running it. Returns at most kMaxFileErrors errors of the
// first case if no case can be lowered, and nothing otherwise or if a case expects bad input.
// Stored programs of ranks need not be lowered again by a run; they take memory as long as the
// scenario exists.
std::vector<Error> program_errors(Scenario& scenario, const Registries& registries,
                                  LoweredPrograms programs = LoweredPrograms::dropped);
// Returns the result of a file that cannot run. Requires at least one error.
ScenarioResult refused_file(const std::string& file, const std::string& path,
                            const std::string& group, std::vector<Error> errors,
                            const RunOptions& options);
// Returns the verdict of the first phase that is not expected clean.
Verdict expected_verdict(const Case& one);

// Runs all cases. `groups` has one entry for each scenario: its row in the table of a folder.
// Throws Error(bad_input) if `only_case` and `filter` choose no case.
//
// A backend with worker processes runs one case after another; its workers call
// run_scenarios_as_worker.
RunResult run_scenarios(const std::vector<Scenario>& scenarios,
                        const std::vector<std::string>& groups, const RunOptions& options,
                        const Registries& registries, const RunObserver& watch = {});

// Runs in a worker process: takes part in each case that the coordinator's run_scenarios starts.
// Requires the same scenarios and options as the coordinator. Reports nothing but errors.
void run_scenarios_as_worker(const std::vector<Scenario>& scenarios, const RunOptions& options,
                             const Registries& registries);

}  // namespace shardproof
