#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <set>
#include <sstream>

#include "shardproof/backends/api/library_choice.h"
#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/options/machine_facts.h"
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

// Digits only: what takes a sign would read -1 as the largest.
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
  constexpr int kMost = 1000000;
  const int count = given[option].as<int>();
  if (count < least || count > kMost)
    throw_bad_input("--{} must be between {} and {}", option, least, kMost);
  return count;
}

// Values and times are kept for a record, and for the table of a single file on several backends.
void read_watching(const po::variables_map& given, size_t files, RunOptions& options) {
  const bool asked = given.count("iters") + given.count("warmup") > 0;
  options.sees =
      given.count("record") > 0 || (files == 1 && (asked || options.backends.size() > 1));
  if (given.count("compare")) options.compared = read_compared(given["compare"].as<std::string>());
  if (options.sees || asked) options.timing.iterations = 1;
  if (given.count("warmup")) options.timing.warmup = read_repetitions(given, "warmup", 0);
  if (given.count("iters")) options.timing.iterations = read_repetitions(given, "iters", 1);
}

// Refused before any case runs: for want of a GPU, or by a backend that could not use it.
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

// Only products on GPUs may have another one.
MatmulPrecision read_matmul(const po::variables_map& given, const RunOptions& options,
                            const Registries& registries) {
  const MatmulPrecision precision = matmul_precision(given);
  bool on_gpus = options.device == "cuda";
  for (const auto& backend : registries.backends)
    if (std::find(options.backends.begin(), options.backends.end(), backend->name()) !=
        options.backends.end())
      on_gpus = on_gpus || backend->with_libraries({}) != nullptr;
  if (given.count("matmul-precision") && !on_gpus)
    throw_bad_input("--matmul-precision is of GPUs: with --device cuda or --backend nccl");
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
    if (options.jobs < 1) throw_bad_input("--jobs must be at least 1");
  }
  if (given.count("case")) options.only_case = given["case"].as<std::string>();
  if (given.count("set")) options.set = given["set"].as<CommandArguments>();
  return options;
}

// One line that is written over, on a terminal only.
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

// Bad input writes nothing; a report of other cases is worth having all the same.
bool all_refused(const RunResult& result) {
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases)
      if (one.status != CaseStatus::refused) return false;
  return true;
}

void print_refusals(const RunResult& result) {
  constexpr int kShown = 5;
  int count = 0;
  std::set<std::string> said;  // several backends refuse the same
  for (const ScenarioResult& scenario : result.scenarios)
    for (const CaseResult& one : scenario.cases) {
      const std::string which = one.name.empty() ? "" : fmt::format(" (case {})", one.name);
      const Error error(one.error->kind(), one.error->message() + which, one.error->where());
      if (!said.insert(error.what()).second || ++count > kShown) continue;
      print_error(error);
    }
  if (count > kShown)
    std::fputs(fmt::format("and {} cases more\n", count - kShown).c_str(), stderr);
}

int64_t most_ranks(const std::vector<Scenario>& scenarios) {
  int64_t ranks = 1;
  for (const Scenario& scenario : scenarios)
    for (const Case& one : scenario.cases)
      for (const Phase& phase : one.phases) ranks = std::max(ranks, phase.job.world);
  return ranks;
}

}  // namespace

namespace {

// How far a run came that hangs is told by its findings.
bool came_through(const RecordedRun& run) {
  return run.error.empty() &&
         std::all_of(run.findings.begin(), run.findings.end(), [](const Finding& finding) {
           return finding.verdict == Verdict::wrong_values ||
                  finding.verdict == Verdict::replicas_differ ||
                  finding.verdict == Verdict::unwritten_redistribution;
         });
}

// Each backend beside the first one. Of many cases only the first ones, and those that differ.
std::string tables_text(const ScenarioResult& scenario, size_t backends, const TextStyle& style) {
  constexpr int64_t kEqualOnesShown = 3;
  std::string out;
  int64_t equal = 0;
  for (size_t i = 0; i < scenario.cases.size(); ++i) {
    const auto &a = scenario.cases[i - i % backends].runs, &b = scenario.cases[i].runs;
    for (size_t run = 0; i % backends != 0 && run < std::min(a.size(), b.size()); ++run) {
      if (!came_through(a[run]) || !came_through(b[run])) continue;
      const RunComparison comparison = compare_runs(a[run], b[run]);
      const bool alike = comparison.count(ValueMatch::bit_equal) == comparison.count(std::nullopt);
      if (alike && ++equal > kEqualOnesShown) continue;
      out += comparison_text(comparison, style) + "\n";
    }
  }
  if (equal > kEqualOnesShown)
    out += fmt::format("  and {} more with equal bits in all values\n\n", equal - kEqualOnesShown);
  return out;
}

std::string times_text(const ScenarioResult& scenario, const TextStyle& style) {
  std::string out;
  for (const CaseResult& one : scenario.cases)
    for (const RecordedRun& run : one.runs)
      if (!run.measured.empty()) out += comparison_text(times_of_run(run), style) + "\n";
  return out;
}

// What a run leaves beside its report: a record, the tables of its backends.
class Keeping {
 public:
  Keeping(const po::variables_map& given, RunOptions& options)
      : tables_(options.backends.size() > 1), times_(given.count("iters") > 0) {
    if (!options.sees) return;
    options.environment = read_environment(options);
    if (!given.count("record")) return;
    path_ = given["record"].as<std::string>();
    folder_.emplace(path_, SHARDPROOF_VERSION);
  }
  void take(CaseResult& result, size_t files) {
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
                  const RunOptions& options, const Registries& registries, Keeping& keeping,
                  bool told) {
  ProgressLine line;
  std::vector<std::string> groups;
  for (const ScenarioPath& path : paths) groups.push_back(path.group);
  RunObserver watch;
  if (told) watch.progress = [&](const Progress& progress) { line.show(progress); };
  if (options.sees)
    watch.done = [&](CaseResult& result) { keeping.take(result, scenarios.size()); };
  RunResult result = run_scenarios(scenarios, groups, options, registries, watch);
  line.clear();
  return result;
}

}  // namespace

namespace {

std::vector<ScenarioPath> find_all(const po::variables_map& given) {
  std::vector<ScenarioPath> paths;
  for (const std::string& path : given["path"].as<CommandArguments>())
    for (ScenarioPath& found : find_scenarios(path)) paths.push_back(std::move(found));
  return paths;
}

// By what is in them: paths differ between machines.
void add_files(std::map<std::string, std::string>& terms, const std::vector<ScenarioPath>& paths) {
  for (const ScenarioPath& path : paths) {
    const std::string text = path.text ? *path.text : read_file(path.path, path.file);
    const std::string name = path.path.substr(path.path.rfind('/') + 1);
    terms[name] += fmt::format("{:016x}", std::hash<std::string>()(text));
  }
}

// One bad file of several: nothing runs and nothing is reported, as when it cannot be read. True
// when there is one.
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
  const std::vector<ScenarioPath> paths = find_all(given);
  const ErrorHandling refusal = role.works() ? ErrorHandling::thrown : ErrorHandling::told;
  const std::vector<Scenario> scenarios = load_all(paths, read_loading_options(given), refusal);
  if (scenarios.empty() || any_refused(scenarios, registries, refusal)) return 2;
  read_watching(given, scenarios.size(), options);
  WorkerPoolRequest request{"run", words, given, role, most_ranks(scenarios), options.order};
  for (const ScenarioPath& path : paths)
    if (path.text) request.input = path.text;
  request.terms = terms_of(given);
  add_files(request.terms, paths);
  if (attach_processes(registries, options, request) == PoolRole::follows) {
    run_scenarios_as_worker(scenarios, options, registries);
    return 0;
  }
  if (options.processes == 0 && given.count("iters") + given.count("warmup") > 0)
    throw_bad_input("--iters and --warmup measure real processes; {} has none",
                    fmt::join(options.backends, ","));

  Keeping keeping(given, options);
  check_reports(given);
  const RunResult result =
      run_all(scenarios, paths, options, registries, keeping, prints_for_terminal(given));
  if (all_refused(result)) {
    print_refusals(result);
    return 2;
  }
  keeping.finish();
  TextStyle style;
  style.color = stdout_is_terminal();
  style.table = paths.size() > 1;
  style.here = true;
  style.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (prints_for_terminal(given))
    print_out(keeping.text(result, options.backends.size(), style) + text_report(result, style));
  write_reports(given, result, options);
  return result.exit_code();
}

}  // namespace

int run_command(const CommandArguments& words, const Registries& registries) {
  const po::variables_map given = parse_words(words, run_options(), "path");
  if (!given.count("path")) throw_bad_input("run: expected scenario files or folders");
  return run_in_role(
      given, given["backend"].as<std::string>(), registries,
      [&](const ProcessRole& role) { return run_as_worker(words, given, registries, role); });
}

std::string run_help() {
  return R"text(shardproof run FILE|FOLDER ... [options]

Runs scenarios and compares what they find with what they expect. A folder means every *.json below it,
"-" the scenario on standard input.

  --case NAME        only this case of a sweep: --case "mesh=tp=3 tokens=7"
  --set NAME=VALUE   override a let; may be repeated
  --seed N           seed of tensor values and schedules (default 0)
  --schedule KIND    fifo (default), seeded or adversarial: the order in which ranks get on
  --order ORDER      how reductions add: rank (default: members in order), f32 (wider sums of
                     narrow floats), exact, or to the bits of NCCL: ring, tree, pat, symmetric,
                     "ring(channels=24, protocol=ll)", "tree(channels=2, nodes=2)", before NCCL 2.29
                     "ring(channels=24, nccl=2.28)"; or as a switch adds (nvls), whose bits nobody
                     promises
  --backend NAMES    where ranks run (default local); see shardproof list backends. With several, as in
                     local,mpi, each case runs on each, and what they find is compared
  --device DEVICE    where ops of the local backend run: host (default) or cuda, the first GPU that is
                     visible. What has no kernel there runs on the host, and the report says so
  --matmul-precision P
                     of products of matrices on GPUs, in PyTorch's words: highest (default), or high:
                     f32 as TF32, sums of f8e4m3 in fewer bits. Precision is judged by that unit
  --processes N      of the mpi and nccl backends (default: one a rank, at most 8)
  --timeout TIME     ends a run in which nothing moves for so long (default 30s)
  --hosts FILE       hosts for the mpi backend, as mpirun reads them
  --rendezvous WHERE  of processes that somebody else has started: file:PATH or tcp:HOST:PORT is where
                     they meet. Not needed below mpirun, or srun on one machine
  --process I        the number of this process there, of --processes N, where no mpirun or srun says so
  --ranks-per-gpu N  of the nccl backend: so many processes share a GPU (default 1)
  --gpus-per-process G
                     of the nccl backend: each process drives so many GPUs, which share its ranks
                     (default 1)
  --nccl-library PATH  the NCCL to open (default: the system's, then those of Python's packages)
  --jobs N           cases at the same time (default: one a core)
  --record DIR       keep programs, values, times and environment in a new folder, for compare
                     (docs/record.md)
  --compare WHAT     lines (default): the value of every line; outputs: only what names mean at
                     the end
  --warmup W, --iters N
                     repetitions in real processes, timed without looking at values; medians of N
                     are told (default 0 and 1 with --record or several backends)
  --json FILE        write a report for programs; "-": to standard output, and nothing else there
  --junit FILE       write a JUnit XML report for CI; "-" as above
  --max-ranks N      refuse more ranks (default 1048576)
  --max-bytes SIZE   refuse more memory for tensors, such as 8GB (default: half of the machine's)

Exit code: 0 every case as expected; 1 a finding that was not expected, or an expectation not met;
2 bad input, or something that was refused; 3 a bug of shardproof. The greatest of all cases. One file
of several that is bad input as a whole: 2, before anything runs, and no report.
)text";
}

}  // namespace shardproof
