// shardproof run: runs scenarios and reports the results. Steps: read the options, load all files,
// lower each program once to find bad input before anything runs, start worker processes, run all
// cases, write record and reports.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <set>
#include <sstream>

#include "shardproof/backends/api/library_choice.h"
#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/commands/write_reports.h"
#include "shardproof/cli/options/loading_options.h"
#include "shardproof/cli/options/machine_facts.h"
#include "shardproof/cli/options/parse_options.h"
#include "shardproof/cli/processes/process_options.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/reduction_schedule.h"
#include "shardproof/scenarios/record/record_directory.h"
#include "shardproof/scenarios/report/comparison_report.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

po::options_description run_options() {
  po::options_description options;
  options.add(loading_options());
  options.add(pool_options());
  options.add_options()                                              //
      ("path", po::value<CommandArguments>())                        //
      ("case", po::value<std::string>())                             //
      ("seed", po::value<std::string>()->default_value("0"))         //
      ("schedule", po::value<std::string>()->default_value("fifo"))  //
      ("order", po::value<std::string>()->default_value("rank"))     //
      ("backend", po::value<std::string>()->default_value("local"))  //
      ("device", po::value<std::string>()->default_value("host"))    //
      ("matmul-precision", po::value<std::string>())                 //
      ("jobs", po::value<int>())                                     //
      ("record", po::value<std::string>())                           //
      ("compare", po::value<std::string>())                          //
      ("warmup", po::value<int>())                                   //
      ("iters", po::value<int>())                                    //
      ("json", po::value<std::string>())                             //
      ("junit", po::value<std::string>());
  return options;
}

// Reads digits only: a parser that accepts a sign would read -1 as the largest number.
uint64_t read_seed(const std::string& text) {
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, seed);
  if (read.ec != std::errc() || read.ptr != end)
    throw_bad_input("--seed: expected a whole number from 0 to {}, found \"{}\"",
                    std::numeric_limits<uint64_t>::max(), text);
  return seed;
}

ScheduleKind read_schedule(const std::string& text) {
  if (text == "fifo") return ScheduleKind::fifo;
  if (text == "seeded") return ScheduleKind::seeded;
  if (text == "adversarial") return ScheduleKind::adversarial;
  throw_bad_input("--schedule: expected fifo, seeded or adversarial, found \"{}\"", text);
}

ReductionSchedule read_order(const std::string& text) {
  try {
    return parse_reduction_schedule(text);
  } catch (const Error& error) {
    throw_bad_input("--order: {}", error.message());
  }
}

CompareScope read_compared(const std::string& text) {
  if (text == "lines") return CompareScope::lines;
  if (text == "outputs") return CompareScope::outputs;
  throw_bad_input("--compare: expected lines or outputs, found \"{}\"", text);
}

int read_repetitions(const po::variables_map& given, const char* option, int least) {
  constexpr int kMaxRepetitions = 1000000;
  const int count = given[option].as<int>();
  if (count < least || count > kMaxRepetitions)
    throw_bad_input("--{}: expected {} to {}, found {}", option, least, kMaxRepetitions, count);
  return count;
}

// Sets which values and times are kept: for a record, and for the table of a single file.
void read_watching(const po::variables_map& given, size_t files, RunOptions& options) {
  const bool asked = given.count("iters") + given.count("warmup") > 0;
  options.sees =
      given.count("record") > 0 || (files == 1 && (asked || options.backends.size() > 1));
  if (given.count("compare")) options.compared = read_compared(given["compare"].as<std::string>());
  if (options.sees || asked) options.timing.iterations = 1;
  if (given.count("warmup")) options.timing.warmup = read_repetitions(given, "warmup", 0);
  if (given.count("iters")) options.timing.iterations = read_repetitions(given, "iters", 1);
}

// Refuses --device cuda before any case runs if there is no GPU or a backend cannot use it.
std::string read_device(const std::string& text, const std::vector<std::string>& backends,
                        const Registries& registries) {
  if (text == "host") return text;
  if (text != "cuda") throw_bad_input("--device: expected host or cuda, found \"{}\"", text);
  for (const auto& backend : registries.backends)
    if (std::find(backends.begin(), backends.end(), backend->name()) != backends.end())
      if (const auto reason = backend->refuses_device())
        throw_bad_input("--device cuda with the backend {}: {}", backend->name(), *reason);
  if (const auto reason = why_no_device(registries.cuda))
    throw Error(ErrorKind::unsupported, fmt::format("--device cuda: {}", *reason));
  return text;
}

// Refuses --matmul-precision if no GPU computes products.
MatmulPrecision read_matmul(const po::variables_map& given, const RunOptions& options,
                            const Registries& registries) {
  const MatmulPrecision precision = matmul_precision(given);
  bool on_gpus = options.device == "cuda";
  for (const auto& backend : registries.backends)
    if (std::find(options.backends.begin(), options.backends.end(), backend->name()) !=
        options.backends.end())
      on_gpus = on_gpus || backend->with_libraries({}) != nullptr;
  if (given.count("matmul-precision") && !on_gpus)
    throw_bad_input("--matmul-precision needs a GPU; add --device cuda or --backend nccl");
  return precision;
}

RunOptions read_run_options(const po::variables_map& given, const Registries& registries,
                            Availability viability) {
  RunOptions options;
  options.seed = read_seed(given["seed"].as<std::string>());
  options.schedule = read_schedule(given["schedule"].as<std::string>());
  options.order = read_order(given["order"].as<std::string>());
  options.backends = read_backends(given["backend"].as<std::string>(), registries, viability);
  options.device = read_device(given["device"].as<std::string>(), options.backends, registries);
  options.matmul = read_matmul(given, options, registries);
  if (given.count("jobs")) {
    options.jobs = given["jobs"].as<int>();
    if (options.jobs < 1) throw_bad_input("--jobs: expected at least 1, found {}", options.jobs);
  }
  if (given.count("case")) options.only_case = given["case"].as<std::string>();
  if (given.count("set")) options.set = given["set"].as<CommandArguments>();
  return options;
}

// A progress line on a terminal, which each update overwrites.
class ProgressLine {
 public:
  void show(const Progress& progress) {
    if (!stdout_is_terminal()) return;
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

void write_reports(const po::variables_map& given, const RunResult& result,
                   const RunOptions& options) {
  const ReportHead head{SHARDPROOF_VERSION, options};
  write_report(given, "json", [&] { return json_report(result, head); });
  write_report(given, "junit", [&] { return junit_report(result, head); });
}

// True if every case was refused. Then no report is written.
bool all_refused(const RunResult& result) {
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases)
      if (one.status != CaseStatus::refused) return false;
  return true;
}

void print_refusals(const RunResult& result) {
  constexpr int kShown = 5;
  int count = 0;
  std::set<std::string> printed;  // several backends may refuse the same
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases) {
      const std::string which = one.name.empty() ? "" : fmt::format(" (case {})", one.name);
      const Error error(one.error->kind(), one.error->message() + which, one.error->where());
      if (!printed.insert(error.what()).second || ++count > kShown) continue;
      print_error(error);
    }
  if (count > kShown)
    std::fputs(fmt::format("and {} more cases\n", count - kShown).c_str(), stderr);
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
      const bool alike = comparison.count(ValueMatch::bit_equal) == comparison.count(std::nullopt);
      if (alike && ++equal > kEqualOnesShown) continue;
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

// Outputs of a run beside its report: the record, and tables of backends and times.
class RunArtifacts {
 public:
  RunArtifacts(const po::variables_map& given, RunOptions& options)
      : tables_(options.backends.size() > 1), times_(given.count("iters") > 0) {
    if (!options.sees) return;
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

RunResult run_all(const std::vector<Scenario>& scenarios, const std::vector<ScenarioPath>& paths,
                  const RunOptions& options, const Registries& registries, RunArtifacts& artifacts,
                  bool prints) {
  ProgressLine line;
  std::vector<std::string> groups;
  for (const ScenarioPath& path : paths) groups.push_back(path.group);
  RunObserver watch;
  if (prints) watch.progress = [&](const Progress& progress) { line.show(progress); };
  if (options.sees)
    watch.done = [&](CaseResult& result) { artifacts.add(result, scenarios.size()); };
  RunResult result = run_scenarios(scenarios, groups, options, registries, watch);
  line.clear();
  return result;
}

std::vector<ScenarioPath> find_all_scenarios(const po::variables_map& given) {
  std::vector<ScenarioPath> paths;
  for (const std::string& path : given["path"].as<CommandArguments>())
    for (ScenarioPath& found : find_scenarios(path)) paths.push_back(std::move(found));
  return paths;
}

// Adds the hash of each file, because paths may differ between machines.
void add_files(std::map<std::string, std::string>& terms, const std::vector<ScenarioPath>& paths) {
  for (const ScenarioPath& path : paths) {
    const std::string text = path.text ? *path.text : read_file(path.path, path.file);
    const std::string name = path.path.substr(path.path.rfind('/') + 1);
    terms[name] += fmt::format("{:016x}", std::hash<std::string>()(text));
  }
}

// True if a program of several files is bad input, which is printed or thrown. Then nothing runs.
bool any_refused(const std::vector<Scenario>& scenarios, const Registries& registries,
                 ErrorHandling refusal) {
  if (scenarios.size() < 2) return false;
  bool any = false;
  for (const Scenario& scenario : scenarios) {
    const std::optional<Error> error = refusal_of(scenario, registries);
    if (!error) continue;
    if (refusal == ErrorHandling::thrown) throw Error(*error);
    print_error(*error);
    any = true;
  }
  return any;
}

int run_as_worker(const CommandArguments& words, const po::variables_map& given,
                  Registries registries, const ProcessRole& role) {
  const auto began = std::chrono::steady_clock::now();
  use_libraries(registries, given);
  RunOptions options = read_run_options(given, registries, role.viability());
  const std::vector<ScenarioPath> paths = find_all_scenarios(given);
  const ErrorHandling refusal = role.works() ? ErrorHandling::thrown : ErrorHandling::told;
  const std::vector<Scenario> scenarios = load_all(paths, read_loading_options(given), refusal);
  if (scenarios.empty() || any_refused(scenarios, registries, refusal)) return 2;
  read_watching(given, scenarios.size(), options);
  WorkerPoolRequest request{"run", words, given, role, most_ranks(scenarios), options.order};
  for (const ScenarioPath& path : paths)
    if (path.text) request.input = path.text;
  request.terms = agreed_options(given);
  add_files(request.terms, paths);
  if (attach_processes(registries, options, request) == PoolRole::follows) {
    run_scenarios_as_worker(scenarios, options, registries);
    return 0;
  }
  if (options.processes == 0 && given.count("iters") + given.count("warmup") > 0)
    throw_bad_input("--iters and --warmup need real processes, such as --backend mpi; {} has none",
                    fmt::join(options.backends, ","));

  RunArtifacts artifacts(given, options);
  check_reports(given);
  const RunResult result =
      run_all(scenarios, paths, options, registries, artifacts, prints_for_terminal(given));
  if (all_refused(result)) {
    print_refusals(result);
    return 2;
  }
  artifacts.finish();
  TextStyle style;
  style.color = stdout_is_terminal();
  style.table = paths.size() > 1;
  style.here = true;
  style.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (prints_for_terminal(given))
    print_out(artifacts.text(result, options.backends.size(), style) + text_report(result, style));
  write_reports(given, result, options);
  return result.exit_code();
}

}  // namespace

int run_command(const CommandArguments& words, const Registries& registries) {
  const po::variables_map given = parse_words(words, run_options(), "path");
  if (!given.count("path")) throw_bad_input("run: expected scenario files or folders, found none");
  return run_in_role(
      given, given["backend"].as<std::string>(), registries,
      [&](const ProcessRole& role) { return run_as_worker(words, given, registries, role); });
}

std::string run_help() {
  return R"text(shardproof run FILE|FOLDER ... [options]

Runs scenarios and compares the results with what they expect. FOLDER stands for every *.json file below
it, "-" for a scenario on standard input.

  --case NAME        run only this case of a sweep: --case "mesh=tp=3 tokens=7"
  --set NAME=VALUE   override a let; may be repeated
  --seed N           seed of tensor values and schedules (default 0)
  --schedule KIND    order in which ranks proceed: fifo (default), seeded or adversarial
  --order ORDER      order in which reductions add: rank (default: members in order), f32 (narrow
                     floats are added in f32), exact, or bit-equal to NCCL: ring, tree, pat, symmetric,
                     "ring(channels=24, protocol=ll)", "tree(channels=2, nodes=2)", before NCCL 2.29
                     "ring(channels=24, nccl=2.28)"; nvls adds as a switch does, without equal bits
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
  --record DIR       write programs, values, times and environment to a new folder, for
                     shardproof compare (docs/record.md)
  --compare WHAT     lines (default): compare the value of every line; outputs: only the values that
                     names have at the end
  --warmup W, --iters N
                     repetitions in real processes, timed without a comparison of values; reports show
                     medians of N (default 0 and 1 with --record or several backends)
  --json FILE        write a report as JSON; "-": to standard output, which then has nothing else
  --junit FILE       write a report as JUnit XML for CI; "-" as above
  --max-ranks N      refuse more ranks (default 1048576)
  --max-bytes SIZE   refuse more memory for tensors, such as 8GB (default: half of the machine's)

Exit code, the greatest of all cases: 0 as expected; 1 an unexpected finding or an expectation that is not
met; 2 bad input or a refused operation; 3 a bug of shardproof. If one of several files is bad input as a
whole, nothing runs, no report is written, and the exit code is 2.
)text";
}

}  // namespace shardproof
