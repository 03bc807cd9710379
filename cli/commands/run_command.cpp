// shardproof run: runs scenarios and reports the results. Steps: read the options and load all
// files; lower each program once to find the files that cannot run; start worker processes; run all
// cases of the other files; write record and reports.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/commands/watch_files.h"
#include "shardproof/cli/commands/write_reports.h"
#include "shardproof/cli/options/loading_options.h"
#include "shardproof/cli/options/machine_facts.h"
#include "shardproof/cli/options/parse_options.h"
#include "shardproof/cli/options/run_options.h"
#include "shardproof/cli/processes/process_options.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/record/record_directory.h"
#include "shardproof/scenarios/record/write_file.h"
#include "shardproof/scenarios/report/comparison_report.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/scenarios/report/report_html.h"
#include "shardproof/scenarios/run/accept.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

// A progress line on a terminal, which each update overwrites.
class ProgressLine {
 public:
  void show(const Progress& progress) {
    if (!stdout_redraws()) return;
    const std::string line =
        fmt::format("{} of {} cases, {} failing, {} to go", progress.done, progress.total,
                    progress.failing, progress.total - progress.done);
    fmt::print("\r{:<60}", line);
    std::fflush(stdout);
    shown_ = true;
  }
  void clear() {
    if (shown_) fmt::print("\r{:60}\r", "");
  }

 private:
  bool shown_ = false;
};

// True if every case was refused. Then no text report is written to standard output.
bool all_refused(const RunResult& result) {
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases)
      if (one.status != CaseStatus::refused) return false;
  return true;
}

void print_refusals(const RunResult& result) {
  constexpr size_t kShownCases = 10;
  std::set<std::string> printed;  // several backends may refuse the same
  int64_t more = 0;
  for (const ScenarioResult& scenario : result.scenarios) {
    printed.clear();
    for (const CaseResult& one : scenario.cases) {
      if (one.status != CaseStatus::refused) continue;
      const std::string which = one.name.empty() ? "" : fmt::format(" (case {})", one.name);
      const Error error(one.error->kind(), one.error->message() + which, one.error->where());
      if (printed.contains(error.what())) continue;
      if (printed.size() >= kShownCases) {
        ++more;
        continue;
      }
      printed.insert(error.what());
      print_error(error);
      for (const Error& other : one.more_errors) print_error(other);
    }
  }
  if (more > 0) std::fputs(fmt::format("and {} more cases\n", more).c_str(), stderr);
}

int64_t most_ranks(const std::vector<Scenario>& scenarios) {
  int64_t ranks = 1;
  for (const Scenario& scenario : scenarios)
    for (const Case& one : scenario.cases)
      for (const Phase& phase : one.phases) ranks = std::max(ranks, phase.job.world);
  return ranks;
}

// True if the run reached its end, so that its values can be compared. A run that hangs is
// described by its findings.
bool ran_to_end(const RecordedRun& run) {
  return run.error.empty() &&
         std::all_of(run.findings.begin(), run.findings.end(), [](const Finding& finding) {
           return finding.verdict == Verdict::wrong_values ||
                  finding.verdict == Verdict::replicas_differ ||
                  finding.verdict == Verdict::unwritten_redistribution;
         });
}

// Returns the tables that compare each backend with the first one: of the first cases, and of all
// cases whose values differ.
std::string tables_text(const ScenarioResult& scenario, size_t backends, const TextStyle& style) {
  constexpr int64_t kEqualOnesShown = 3;
  std::string out;
  int64_t equal = 0;
  for (size_t i = 0; i < scenario.cases.size(); ++i) {
    const auto &a = scenario.cases[i - i % backends].runs, &b = scenario.cases[i].runs;
    for (size_t run = 0; i % backends != 0 && run < std::min(a.size(), b.size()); ++run) {
      if (!ran_to_end(a[run]) || !ran_to_end(b[run])) continue;
      const RunComparison comparison = compare_runs(a[run], b[run]);
      const bool is_bit_equal =
          comparison.count(ValueMatch::bit_equal) == comparison.count(std::nullopt);
      if (is_bit_equal && ++equal > kEqualOnesShown) continue;
      out += comparison_text(comparison, style) + "\n";
    }
  }
  if (equal > kEqualOnesShown)
    out += fmt::format("  and {} more whose values are all bit-equal\n\n", equal - kEqualOnesShown);
  return out;
}

std::string times_text(const ScenarioResult& scenario, const TextStyle& style) {
  std::string out;
  for (const CaseResult& one : scenario.cases)
    for (const RecordedRun& run : one.runs)
      if (!run.measured.empty()) out += comparison_text(times_of_run(run), style) + "\n";
  return out;
}

// Outputs of a run in addition to its report: the record, and tables of backends and times.
class RunArtifacts {
 public:
  RunArtifacts(const po::variables_map& given, RunOptions& options)
      : tables_(options.backends.size() > 1),
        times_(given.count("iters") > 0 || given["cuda-graph"].as<bool>()) {
    if (!options.records_values) return;
    options.environment = read_environment(options);
    if (!given.count("record")) return;
    path_ = given["record"].as<std::string>();
    folder_.emplace(path_, SHARDPROOF_VERSION);
  }
  void add(CaseResult& result, size_t files) {
    if (folder_)
      for (const RecordedRun& run : result.runs) folder_->add(run);
    if (files > 1 || !(tables_ || times_)) result.runs.clear();
  }
  void finish() {
    if (folder_) folder_->finish();
  }
  std::string text(const RunResult& result, size_t backends, const TextStyle& style) const {
    std::string out;
    for (const ScenarioResult& scenario : result.scenarios)
      out += tables_ ? tables_text(scenario, backends, style) : times_text(scenario, style);
    if (folder_) out += fmt::format("  recorded in {}\n", path_);
    return out;
  }

 private:
  bool tables_, times_;
  std::string path_;
  std::optional<RecordFolder> folder_;
};

// The scenario files of a run. A file that cannot run has errors and no cases; the others run.
struct RunInput {
  FoundScenarios found;
  std::vector<LoadedFile> files;    // in the order of found.paths
  std::vector<Scenario> scenarios;  // of the files without errors
  std::vector<std::string> groups;  // one for each of `scenarios`
};

// Loads all files and lowers their programs. All processes of a run find the same errors.
RunInput load_input(const po::variables_map& given, const Registries& registries) {
  RunInput input;
  input.found = find_all_scenarios(given["path"].as<CommandArguments>());
  input.files = load_all(input.found.paths, read_loading_options(given));
  // The programs of a whole folder would take too much memory.
  const auto programs =
      input.files.size() == 1 ? LoweredPrograms::stored : LoweredPrograms::dropped;
  for (size_t i = 0; i < input.files.size(); ++i) {
    LoadedFile& file = input.files[i];
    if (file.errors.empty()) file.errors = program_errors(file.scenario, registries, programs);
    if (!file.errors.empty()) continue;
    input.scenarios.push_back(std::move(file.scenario));
    input.groups.push_back(input.found.paths[i].group);
  }
  return input;
}

// Writes the measured counts of clean cases into their files.
void accept_results(const RunInput& input, RunResult& result) {
  for (size_t i = 0; i < input.scenarios.size(); ++i) {
    const Scenario& scenario = input.scenarios[i];
    ScenarioResult& found = result.scenarios[i];
    const Accepted accepted = accept_counts(scenario, found.cases);
    if (!accepted.written.empty()) {
      write_whole_file(scenario.path, accepted.text);
      for (CaseResult& one : found.cases)
        if (one.expected == Verdict::clean && one.leading() == nullptr) drop_missed_counts(one);
      result.notes.push_back(
          fmt::format("accepted {}: {}", scenario.file, fmt::join(accepted.written, ", ")));
    }
    for (const std::string& reason : accepted.refused)
      result.notes.push_back(fmt::format("not accepted {}: {}", scenario.file, reason));
  }
}

void check_accept(const po::variables_map& given, const RunInput& input,
                  const RunOptions& options) {
  if (!given["accept"].as<bool>()) return;
  if (given.count("case") + given.count("filter") > 0 || options.fail_fast)
    throw_bad_input("--accept runs whole files; leave out --case, --filter and --fail-fast");
  if (options.backends.size() > 1) throw_bad_input("--accept: expected one backend");
  for (const ScenarioPath& path : input.found.paths)
    if (path.text) throw_bad_input("--accept: standard input cannot be written");
}

// Adds the files that did not run at their places.
void add_refused_files(const RunInput& input, const RunOptions& options, RunResult& result) {
  std::vector<ScenarioResult> ran = std::move(result.scenarios);
  result.scenarios.clear();
  size_t next = 0;
  for (size_t i = 0; i < input.files.size(); ++i) {
    const ScenarioPath& path = input.found.paths[i];
    if (input.files[i].errors.empty()) {
      if (next < ran.size()) result.scenarios.push_back(std::move(ran[next++]));
      continue;
    }
    if (path.file.find(options.filter) != std::string::npos)
      result.scenarios.push_back(
          refused_file(path.file, path.path, path.group, input.files[i].errors, options));
  }
}

// Returns the values of --print, each case under its title.
std::string printed_text(const RunResult& result) {
  std::string out;
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases)
      for (size_t i = 0; i < one.phases.size(); ++i) {
        if (one.phases[i].printed.empty()) continue;
        std::string title = scenario.file;
        if (!one.name.empty()) title += fmt::format(" [{}]", one.name);
        if (one.phases.size() > 1) title += fmt::format(", phase {}", i + 1);
        if (!one.backend.empty()) title += fmt::format(", {}", one.backend);
        out += title + "\n" + one.phases[i].printed + "\n";
      }
  return out;
}

RunResult run_all(const RunInput& input, const RunOptions& options, const Registries& registries,
                  RunArtifacts& artifacts, bool prints, bool accepts) {
  RunResult result;
  ProgressLine line;
  RunObserver watch;
  if (prints) watch.progress = [&](const Progress& progress) { line.show(progress); };
  if (options.records_values)
    watch.done = [&](CaseResult& one) { artifacts.add(one, input.scenarios.size()); };
  const bool stopped = options.fail_fast && input.scenarios.size() < input.files.size();
  if (!input.scenarios.empty() && !stopped)
    result = run_scenarios(input.scenarios, input.groups, options, registries, watch);
  line.clear();
  if (accepts) accept_results(input, result);
  add_refused_files(input, options, result);
  // A file of which --filter or --case chose nothing did not run, so it is neither clean nor
  // counted.
  if (options.only_case || !options.filter.empty())
    std::erase_if(result.scenarios,
                  [](const ScenarioResult& scenario) { return scenario.cases.empty(); });
  for (const SkippedFile& skipped : input.found.skipped)
    if (!skipped.own) result.skipped.push_back(skipped.file);
  return result;
}

// Adds the hash of each file, because paths may differ between machines.
void add_files(std::map<std::string, std::string>& terms, const std::vector<ScenarioPath>& paths) {
  for (const ScenarioPath& path : paths) {
    if (path.error) continue;
    const std::string text = path.text ? *path.text : read_file(path.path, path.file);
    const std::string name = path.path.substr(path.path.rfind('/') + 1);
    terms[name] += fmt::format("{:016x}", std::hash<std::string>()(text));
  }
}

// Throws the first error of the files.
[[noreturn]] void throw_first_error(const std::vector<LoadedFile>& files) {
  throw Error(files.front().errors.front());
}

void write_reports(const po::variables_map& given, const RunInput& input, const RunResult& result,
                   const RunOptions& options, const Registries& registries) {
  const ReportHead head{SHARDPROOF_VERSION, options, given["junit-times"].as<bool>()};
  write_report(given, "json", [&] { return json_report(result, head); });
  write_report(given, "junit", [&] { return junit_report(result, head); });
  write_report(given, "html",
               [&] { return html_report(result, head, input.scenarios, registries); });
  write_report(given, "sarif", [&] { return sarif_report(result, head); });
}

TextStyle report_style(const po::variables_map& given, const RunInput& input,
                       std::chrono::steady_clock::time_point began) {
  TextStyle style;
  style.color = stdout_has_colors();
  style.table = input.files.size() > 1;
  style.quiet = given["quiet"].as<bool>();
  style.here = true;
  style.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return style;
}

// Prints and writes the results of a run. Returns the exit code.
int report_run(const po::variables_map& given, const RunInput& input, const RunResult& result,
               const RunOptions& options, const Registries& registries,
               const RunArtifacts& artifacts, std::chrono::steady_clock::time_point began) {
  const bool prints = prints_for_terminal(given);
  if (all_refused(result) || !prints) {
    print_refusals(result);
  } else {
    const TextStyle style = report_style(given, input, began);
    const std::string tables =
        style.quiet ? "" : artifacts.text(result, options.backends.size(), style);
    print_out(printed_text(result) + tables + text_report(result, style));
  }
  if (given.count("annotate") > 0) print_out(github_annotations(result));
  write_reports(given, input, result, options, registries);
  return result.exit_code();
}

void check_graph(const po::variables_map& given, const RunOptions& options) {
  const bool has_graphs =
      std::find(options.backends.begin(), options.backends.end(), "nccl") != options.backends.end();
  if (given["cuda-graph"].as<bool>() && !has_graphs)
    throw_bad_input("--cuda-graph: expected --backend nccl, found {}, which has no CUDA graphs",
                    fmt::join(options.backends, ","));
}

int run_as_worker(const CommandArguments& words, const po::variables_map& given,
                  Registries registries, const ProcessRole& role) {
  const auto began = std::chrono::steady_clock::now();
  use_libraries(registries, given);
  RunOptions options = read_run_options(given, registries, role.viability());
  check_reports(given);
  const RunInput input = load_input(given, registries);
  if (input.scenarios.empty() && role.works()) throw_first_error(input.files);
  read_watching(given, input.files.size(), options);
  check_accept(given, input, options);
  if (!input.scenarios.empty()) {
    WorkerPoolRequest request{"run",        words, given, role, most_ranks(input.scenarios),
                              options.order};
    for (const ScenarioPath& path : input.found.paths)
      if (path.text) request.input = path.text;
    request.terms = agreed_options(given);
    add_files(request.terms, input.found.paths);
    if (attach_processes(registries, options, request) == PoolRole::follows) {
      run_scenarios_as_worker(input.scenarios, options, registries);
      return 0;
    }
  }
  check_graph(given, options);
  if (options.processes == 0 && !input.scenarios.empty() &&
      given.count("iters") + given.count("warmup") > 0)
    throw_bad_input("--iters and --warmup need real processes, such as --backend mpi; {} has none",
                    fmt::join(options.backends, ","));

  RunArtifacts artifacts(given, options);
  const RunResult result = run_all(input, options, registries, artifacts,
                                   prints_for_terminal(given), given["accept"].as<bool>());
  if (!input.scenarios.empty()) artifacts.finish();
  return report_run(given, input, result, options, registries, artifacts, began);
}

}  // namespace

int run_command(const CommandArguments& words, const Registries& registries) {
  const po::variables_map given = parse_words(words, run_options(), "path");
  if (!given.count("path")) throw_bad_input("run: expected scenario files or folders, found none");
  const auto run = [&] {
    return run_in_role(
        given, given["backend"].as<std::string>(), registries,
        [&](const ProcessRole& role) { return run_as_worker(words, given, registries, role); });
  };
  if (!given["watch"].as<bool>()) return run();
  if (given["backend"].as<std::string>() != "local")
    throw_bad_input("--watch runs on the local backend only");
  watch_files(given["path"].as<CommandArguments>(), [&] { run_and_report_errors(run); });
}

std::string run_help() {
  return R"text(shardproof run FILE|FOLDER ... [options]

Runs scenarios and compares the results with what they expect. FOLDER stands for every scenario (*.json)
below it, "-" for a scenario on standard input.

  --case NAME        run only this case of a sweep: --case "mesh=tp=3 tokens=7"; --case "tokens=7" runs
                     all with this setting
  --filter TEXT      run only files and cases whose title, such as mlp.json [tokens=7], has this text
  --fail-fast        stop after the first case that is not as expected
  --no-causes        search no causes of wrong values of rank programs, which takes most of the time of
                     a run with many findings; only where a file expects a number of findings
  --quiet            print only what is not as expected
  --watch            run again whenever one of the files changes
  --accept           write the measured calls and bytes into "expect" of each clean file
  --set NAME=VALUE   override a let; may be repeated
  --seed N           seed of tensor values and schedules (default 0)
  --schedule KIND    order in which ranks proceed: fifo, seeded, adversarial, side-first, main-first. By
                     default fifo, and for programs of several streams or with slots also the last three:
                     a difference is a race
  --order ORDER      order in which reductions add: rank (default: members in order), f32 (narrow
                     floats are added in f32), exact, or bit-equal to NCCL: ring, tree, pat, symmetric,
                     "ring(channels=24, protocol=ll)", "tree(channels=2, nodes=2)", before NCCL 2.29
                     "ring(channels=24, nccl=2.28)"; nvls adds as a switch does, without equal bits
  --moves MOVES      steps of redistributions, in place of "moves" of the files: all, or collectives
                     (no exchange)
  --backend NAMES    where ranks run (default local); shardproof list backends prints all. With several,
                     such as local,mpi, each case runs on each of them, and their results are compared
  --device DEVICE    where ops of the local backend run: host (default) or cuda, the first visible GPU.
                     Ops without a kernel there run on the host; the report lists them
  --matmul-precision P
                     precision of matrix products on GPUs, as in PyTorch: highest (default), or high
                     (f32 as TF32, sums of f8e4m3 in fewer bits), which verdicts take into account
  --processes N      processes of the mpi and nccl backends (default: one for each rank, at most 8)
  --timeout TIME     end a run that makes no progress for this time (default 30s)
  --hosts FILE       hosts of the mpi backend, in the format of mpirun
  --rendezvous WHERE  for processes that this program did not start: file:PATH or tcp:HOST:PORT where they
                     meet. Not needed below mpirun, or below srun on one machine
  --process I        number of this process among --processes N, unless mpirun or srun gives it
  --ranks-per-gpu N  nccl backend: processes that share a GPU (default 1)
  --gpus-per-process G
                     nccl backend: GPUs of each process, which share its ranks (default 1)
  --nccl-library PATH  NCCL library to load (default: the system's, then those of Python packages)
  --jobs N           cases at the same time (default: one for each core)
  --print NAMES      print values: y is the whole value, y@3 the part of rank 3; y,h@0 prints two
  --record DIR       write programs, values, times and environment to a new folder, for
                     shardproof compare (docs/record.md)
  --compare WHAT     lines (default): compare the value of every line; outputs: only the values that
                     names have at the end
  --warmup W, --iters N
                     repetitions in real processes, timed without a comparison of values; reports show
                     medians of N (default 0 and 1 with --record or several backends)
  --json FILE        write a report as JSON; "-": to standard output, which then has nothing else
  --cuda-graph       nccl backend: each repetition is one CUDA graph, whose whole time is measured. The
                     report states why where a graph cannot hold it
  --junit FILE       write a report as JUnit XML for CI; "-" as above
  --junit-times      add the seconds of each case to the JUnit report
  --html FILE        write a page with verdicts, pictures and lines; one file, no network
  --sarif FILE       write what is not as expected as SARIF 2.1.0, for code scanning
  --annotate github  print what is not as expected as annotations of a GitHub workflow
  --max-ranks N      refuse more ranks (default 1048576)
  --max-bytes SIZE   refuse more memory for tensors, such as 8GB (default: half of the machine's)

Exit code, the greatest of all cases: 0 as expected; 1 an unexpected finding or an expectation that is not
met; 2 bad input or a refused operation; 3 a bug of shardproof. If a file is bad input, the others still
run and all reports are written.
)text";
}

}  // namespace shardproof
