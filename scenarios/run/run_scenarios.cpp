// Implements refused_file, run_scenarios and run_scenarios_as_worker of run.h. Steps of a run: list
// one task for each chosen case and backend. Worker threads run tasks and store results at their
// place. Then the backends of each case are compared. With a backend of worker processes one thread
// runs all cases, and every process runs the same case at the same time.
#include "shardproof/scenarios/run/run.h"

#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <set>
#include <string_view>
#include <thread>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/engine/check/check.h"
#include "shardproof/localtensor/collective/reduction_schedule.h"
#include "shardproof/scenarios/load/load_context.h"
#include "shardproof/scenarios/record/run_comparison.h"
#include "shardproof/scenarios/run/impossible_expectations.h"
#include "shardproof/scenarios/run/record_phase.h"
#include "shardproof/scenarios/run/tensor_text.h"

namespace shardproof {
namespace {

std::string shell_word(const std::string& text) {
  const bool plain =
      !text.empty() &&
      text.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%") ==
          std::string::npos;
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '$' || c == '`') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string repeat_command(const std::string& file, const std::string& name,
                           const RunOptions& options) {
  std::string out = options.program + " run " + shell_word(file);
  if (!name.empty())
    out +=
        " --case " + (name.find('"') == std::string::npos ? "\"" + name + "\"" : shell_word(name));
  for (const std::string& set : options.set) out += " --set " + shell_word(set);
  const std::string backends = fmt::format("{}", fmt::join(options.backends, ","));
  if (backends != "local") out += " --backend " + backends;
  if (options.device != "host") out += " --device " + options.device;
  if (options.matmul == MatmulPrecision::high) out += " --matmul-precision high";
  if (options.processes != 0) out += fmt::format(" --processes {}", options.processes);
  if (options.order != ReductionSchedule())
    out += " --order " + shell_word(to_string(options.order));
  if (options.schedule_is_chosen)
    out += fmt::format(" --schedule {}", shardproof::name(options.schedule));
  if (options.moves) out += fmt::format(" --moves {}", shardproof::name(*options.moves));
  if (options.compared == CompareScope::outputs) out += " --compare outputs";
  const bool times = options.processes != 0;  // only real processes are timed
  if (times && options.timing.warmup != 0)
    out += fmt::format(" --warmup {}", options.timing.warmup);
  if (times && options.timing.iterations != 0)
    out += fmt::format(" --iters {}", options.timing.iterations);
  if (times && options.timing.as_graph) out += " --cuda-graph";
  return out + fmt::format(" --seed {}", options.seed);
}

Job job_of(const Phase& phase, const std::string& backend, const RunOptions& options) {
  Job job = filled(phase, options.seed);
  job.backend = backend;
  job.schedule = {options.schedule, options.seed};
  job.schedule_is_chosen = options.schedule_is_chosen;
  job.order = options.order;
  job.matmul = options.matmul;
  if (options.moves) job.moves = *options.moves;
  job.compared = options.compared;
  job.searches_causes = options.searches_causes;
  job.records_values = options.records_values;
  job.timing = options.timing;
  for (const std::string& text : options.print) job.keep.push_back(parse_printed_name(text).name);
  return job;
}

// Returns the values that --print names, of those that the phase has. In a worker process the
// values are with the process that judges.
std::string printed_values(const Outcome& outcome, const RunOptions& options,
                           std::set<std::string>& found) {
  std::string text;
  for (const std::string& wanted : options.print) {
    const PrintedName printed = parse_printed_name(wanted);
    if (!outcome.values.contains(printed.name)) continue;
    text += (text.empty() ? "" : "\n") + value_text(printed, outcome);
    found.insert(wanted);
  }
  return text;
}

SourcePlace source_place(const Scenario& scenario, const Case& one, const Where& where) {
  const Where placed = placed_in(scenario, one, Error(ErrorKind::bad_input, "", where)).where();
  return {placed.path, placed.file_line, placed.file_column};
}

// Returns the numbers after "line" or "lines" in a text: 3 and 4 of "lines 3 and 4 reduce".
std::set<int> lines_named(const std::string& text) {
  std::set<int> lines;
  const auto is_digit = [&](size_t at) { return at < text.size() && std::isdigit(text[at]) != 0; };
  for (size_t at = text.find("line"); at != text.npos; at = text.find("line", at)) {
    at = text.find_first_not_of(' ', at + (text.compare(at, 5, "lines") == 0 ? 5 : 4));
    while (is_digit(at)) {
      size_t digits = 0;
      lines.insert(std::stoi(text.substr(at, 9), &digits));
      at += digits;
      for (const std::string_view next : {" and ", ", "})
        if (text.compare(at, next.size(), next) == 0 && is_digit(at + next.size()))
          at += next.size();
    }
  }
  return lines;
}

// Notes which lines that a finding names are those of `train`: the file has none of these numbers.
void note_lines_of_training(const Phase& phase, Finding& finding) {
  if (phase.train_path.empty()) return;
  std::vector<std::string> texts = finding.details;
  texts.push_back(finding.fix);
  std::set<int> lines;
  for (const std::string& text : texts)
    for (const int line : lines_named(text))
      if (is_of_training(phase, line)) lines.insert(line);
  if (lines.empty()) return;
  finding.details.push_back(fmt::format(
      "\"program\" has {} line{}; line{} {} {} of the training step that \"train\" adds",
      phase.program_lines, phase.program_lines == 1 ? "" : "s", lines.size() == 1 ? "" : "s",
      fmt::join(lines, ", "), lines.size() == 1 ? "is" : "are"));
}

// Adds the places of findings and of the expectation in the text of the file. A line that `train`
// adds has the place of `train`.
void add_places(const Scenario& scenario, const Case& one, const Phase& phase,
                PhaseResult& result) {
  if (result.missed.empty() && result.outcome.findings.empty()) return;
  result.expect_place = source_place(scenario, one, {.path = "/expect"});
  for (Finding& finding : result.outcome.findings) {
    note_lines_of_training(phase, finding);
    const JobListing* const listing = result.listing_of(finding);
    if (listing != nullptr && is_of_training(phase, finding.line)) {
      result.places.push_back(source_place(scenario, one, {.path = phase.train_path}));
      continue;
    }
    result.places.push_back(
        listing == nullptr
            ? SourcePlace{}
            : source_place(scenario, one, {.path = listing->path, .line = finding.line}));
  }
}

// Returns why a phase without a finding compares no value; "" if it compares some.
std::string note_of_no_comparison(const Job& job, const Expect& expect, const Outcome& outcome) {
  if (outcome.values_compared > 0 || !outcome.findings.empty() || !outcome.undecided.empty() ||
      !expect.values.empty())
    return "";
  if (job.program) return "no value is compared: the program computes none";
  if (job.truth)
    return "no value is compared: no output and no check names a value of the truth; add "
           "\"outputs\" or check(x, 'x', R)";
  return fmt::format(
      "no value is compared, because the ranks have no truth: only calls{} and races are checked; "
      "add \"truth\"{}",
      job.outputs.empty() ? "" : ", replicas", job.outputs.empty() ? " and \"outputs\"" : "");
}

void run_phase(const Phase& phase, const std::string& backend, const RunOptions& options,
               const Registries& registries, CaseResult& into, std::set<std::string>& found,
               bool is_last) {
  Job job = job_of(phase, backend, options);
  if (options.device == "cuda") job.device = open_device(registries.cuda, 0);
  PhaseResult result;
  try {
    // A program that should be refused has no values to limit.
    if (!job.precision_limits.empty() && phase.expect.verdict != Verdict::bad_input)
      check_limited_values(job, lower_job(job, registries));
    // A confirmed cause joins the findings that it explains.
    job.searches_causes = job.searches_causes || phase.expect.findings.has_value();
    result.outcome = check(job, registries, phase.lowered);
    refuse_impossible_expectations(phase.expect, result.outcome);
    result.printed = printed_values(result.outcome, options, found);
    // The last phase refuses each name of --print that no phase has: value_text throws.
    for (const std::string& wanted : options.print)
      if (is_last && !found.contains(wanted))
        value_text(parse_printed_name(wanted), result.outcome);
  } catch (const Error& error) {
    throw placed_in(phase, error);
  }
  result.missed = unmet_expectations(phase.expect, result.outcome, job);
  if (std::string text = note_of_no_comparison(job, phase.expect, result.outcome); !text.empty()) {
    result.compares_nothing = true;
    result.outcome.notes.push_back(std::move(text));
  }
  if (job.program)
    result.listings.push_back({Lanes::range(0, job.world), *job.program, phase.program_path});
  for (JobListing& listing : job.ranks) result.listings.push_back(std::move(listing));
  if (options.records_values) into.runs.push_back(make_recorded_run(job, result));
  // Records and values are large and no report reads them.
  if (!options.draws || !result.outcome.world.timed) result.outcome.world.records.clear();
  result.outcome.world.measured.clear();
  result.outcome.values.clear();
  if (!result.missed.empty()) into.status = CaseStatus::unexpected;
  into.phases.push_back(std::move(result));
}

void set_refusal(CaseResult& result, const Expect& expect, Error error) {
  result.error = std::move(error);
  result.status = CaseStatus::refused;
  if (expect.verdict != Verdict::bad_input || result.error->kind() == ErrorKind::unsupported)
    return;
  result.missed_refusal = unmet_expectations(expect, *result.error);
  result.status = result.missed_refusal.empty() ? CaseStatus::as_expected : CaseStatus::unexpected;
}

struct CaseTask {
  size_t scenario, index;  // place of the result
  const Case* one;
  std::string backend;
};

CaseResult blank_result(const Scenario& scenario, const CaseTask& task, const RunOptions& options) {
  CaseResult result;
  result.file = scenario.file;
  result.name = task.one->name;
  if (options.backends.size() > 1) result.backend = task.backend;
  result.expected = expected_verdict(*task.one);
  result.repeat = repeat_command(scenario.file, result.name, options);
  result.repeat_here =
      repeat_command(scenario.path.empty() ? scenario.file : scenario.path, result.name, options);
  return result;
}

CaseResult run_case(const Scenario& scenario, const CaseTask& task, const RunOptions& options,
                    const Registries& registries) {
  const Case& one = *task.one;
  const auto began = std::chrono::steady_clock::now();
  CaseResult result = blank_result(scenario, task, options);
  set_repeat_command(result.repeat_here);
  if (one.refused) {
    set_refusal(result, one.refusal, placed_in(scenario, one, *one.refused));
    return result;
  }
  const Expect* current = nullptr;
  std::set<std::string> found;  // names of --print that a phase has
  try {
    for (const Phase& phase : one.phases) {
      current = &phase.expect;
      run_phase(phase, task.backend, options, registries, result, found,
                &phase == &one.phases.back());
      add_places(scenario, one, phase, result.phases.back());
      if (result.phases.back().outcome.world.broken) break;
    }
  } catch (const Error& error) {
    set_refusal(result, *current, placed_in(scenario, one, error));
  } catch (const std::bad_alloc&) {
    set_refusal(result, *current,
                Error(ErrorKind::limit, "the machine has too little memory for this case",
                      {.file = scenario.file}));
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

// True if the title "file [case]" contains the text of --filter.
bool passes_filter(const Scenario& scenario, const Case& one, const RunOptions& options) {
  const std::string title =
      one.name.empty() ? scenario.file : fmt::format("{} [{}]", scenario.file, one.name);
  return title.find(options.filter) != std::string::npos;
}

// Returns the cases that --case and --filter choose.
std::vector<size_t> chosen_cases(const Scenario& scenario, const RunOptions& options) {
  std::vector<size_t> chosen;
  if (options.only_case) {
    chosen = choose_cases(scenario.cases, *options.only_case);
  } else {
    for (size_t i = 0; i < scenario.cases.size(); ++i) chosen.push_back(i);
  }
  std::erase_if(chosen,
                [&](size_t i) { return !passes_filter(scenario, scenario.cases[i], options); });
  return chosen;
}

[[noreturn]] void refuse_choice(const std::vector<Scenario>& scenarios, const RunOptions& options) {
  if (!options.only_case)
    throw_bad_input(
        "--filter \"{}\": no file and no case has this text; shardproof list cases "
        "prints all",
        options.filter);
  NearestName nearest(*options.only_case);
  for (const Scenario& scenario : scenarios)
    for (const Case& one : scenario.cases) nearest.offer(one.name);
  std::string hint = nearest.hint();
  if (hint.empty() && !scenarios.empty() && !scenarios[0].cases[0].name.empty())
    hint = fmt::format("; the first is \"{}\"", scenarios[0].cases[0].name);
  if (hint.empty()) hint = "; the file has no sweep";
  throw_bad_input("--case \"{}\": no such case{}", *options.only_case, hint);
}

std::vector<CaseTask> plan_tasks(const std::vector<Scenario>& scenarios, const RunOptions& options,
                                 RunResult& result) {
  std::vector<CaseTask> tasks;
  for (size_t s = 0; s < scenarios.size(); ++s)
    for (const size_t i : chosen_cases(scenarios[s], options))
      for (const std::string& backend : options.backends) {
        tasks.push_back({s, result.scenarios[s].cases.size(), &scenarios[s].cases[i], backend});
        result.scenarios[s].cases.emplace_back();
      }
  if (tasks.empty()) refuse_choice(scenarios, options);
  return tasks;
}

WorkerPool* pool_of(const std::string& backend, const Registries& registries) {
  for (const std::shared_ptr<Backend>& target : registries.backends)
    if (target->name() == backend) return target->pool();
  return nullptr;
}

std::vector<std::string> notes_of(const RunOptions& options, const Registries& registries) {
  std::vector<std::string> notes;
  for (const std::string& backend : options.backends)
    for (const std::shared_ptr<Backend>& target : registries.backends) {
      if (target->name() != backend) continue;
      std::vector<std::string> words;
      if (target->pool() != nullptr)
        words.push_back(
            fmt::format("{} process{}", options.processes, options.processes == 1 ? "" : "es"));
      if (!target->report_note().empty()) words.push_back(target->report_note());
      if (!words.empty()) notes.push_back(fmt::format("{}: {}", backend, fmt::join(words, "; ")));
    }
  return notes;
}

// Runs a case. If its backend has worker processes, sends them the case and waits for them.
CaseResult run_task(const std::vector<CaseTask>& tasks, size_t index, const Scenario& scenario,
                    const RunOptions& options, const Registries& registries) {
  const CaseTask& task = tasks[index];
  WorkerPool* const pool = pool_of(task.backend, registries);
  if (pool == nullptr) return run_case(scenario, task, options, registries);
  try {
    pool->begin(static_cast<int64_t>(index));
  } catch (const Error& error) {
    CaseResult result = blank_result(scenario, task, options);
    result.error = error.inside({result.file, "", 0, 0});
    result.status = CaseStatus::refused;
    return result;
  }
  CaseResult result = run_case(scenario, task, options, registries);
  pool->end();
  return result;
}

// Adds to the recorded runs of a case which run they are: file, case, backend, seed, order,
// environment and command.
void label_runs(CaseResult& result, const Scenario& scenario, const CaseTask& task,
                const RunOptions& options, const Registries& registries) {
  if (result.runs.empty()) result.runs.emplace_back();
  int phase = 0;
  for (RecordedRun& run : result.runs) {
    run.file = result.file;
    run.name = result.name;
    run.phase = ++phase;
    run.backend = task.backend;
    run.seed = options.seed;
    run.pins = nccl_environment(options.order);
    run.repeat = result.repeat;
    run.scenario = scenario.text;
    run.environment.insert(run.environment.begin(), options.environment.begin(),
                           options.environment.end());
    for (const std::shared_ptr<Backend>& target : registries.backends)
      if (target->name() == task.backend)
        for (auto& fact : target->environment()) run.environment.push_back(std::move(fact));
    const bool real = pool_of(task.backend, registries) != nullptr;
    if (real) run.processes = options.processes;
    run.order = real && options.order == ReductionSchedule() ? "library" : to_string(options.order);
    run.status = result.status_text();
    run.verdict = name(result.verdict());
    if (result.error) run.error = result.error->what();
    // NCCL adds in this order only under these environment variables.
    if (real && !run.pins.empty()) run.repeat = run.pins + " " + run.repeat;
  }
}

// Returns the error or findings of a case as text, to compare backends.
std::string outcome_text(const CaseResult& result) {
  if (result.error) return fmt::format("refused: {}", result.error->message());
  std::vector<Finding> all;
  for (const PhaseResult& phase : result.phases)
    all.insert(all.end(), phase.outcome.findings.begin(), phase.outcome.findings.end());
  return findings_text(all);
}

// Adds an unmet expectation if each backend's values are right, but values of two backends differ
// without a cause such as the reduction order.
void add_unexplained_differences(const CaseResult& first, CaseResult& other) {
  for (size_t i = 0; i < std::min(first.runs.size(), other.runs.size()); ++i) {
    const RunComparison comparison = compare_runs(first.runs[i], other.runs[i]);
    const int64_t bugs = comparison.count(Cause::bug);
    if (bugs == 0 || i >= other.phases.size()) continue;
    other.status = std::max(other.status, CaseStatus::unexpected);
    other.phases[i].missed.push_back(
        {"differences from " + first.backend, "none without a cause", std::to_string(bugs)});
  }
}

std::string case_verdict(const CaseResult& result) {
  return result.error ? "refused" : std::string(name(result.verdict()));
}

// Adds the finding `backends differ` to a case that has run to its end on both backends.
void add_backend_difference(const CaseResult& first, CaseResult& other) {
  Finding finding;
  finding.verdict = Verdict::backends_differ;
  if (const Finding* own = other.leading() != nullptr ? other.leading() : first.leading()) {
    finding.line = own->line;
    finding.ranks = own->ranks;
  }
  finding.headline = fmt::format("backends differ: {} on {}, {} on {}", case_verdict(first),
                                 first.backend, case_verdict(other), other.backend);
  finding.details = {fmt::format("on {}: {}", first.backend, outcome_text(first)),
                     fmt::format("on {}: {}", other.backend, outcome_text(other))};
  finding.fix = fmt::format(
      "run each backend alone; if the program has no race, report this as an error of {}",
      other.backend);
  PhaseResult& phase = other.phases.back();
  phase.outcome.findings.insert(phase.outcome.findings.begin(), std::move(finding));
  phase.places.insert(phase.places.begin(), SourcePlace{});
}

// Compares the outcome of each backend with that of the first one.
void compare_backends(RunResult& result, size_t backends) {
  if (backends < 2) return;
  for (ScenarioResult& scenario : result.scenarios)
    for (size_t first = 0; first < scenario.cases.size(); first += backends)
      for (size_t i = first + 1; i < first + backends; ++i) {
        const CaseResult& one = scenario.cases[first];
        CaseResult& other = scenario.cases[i];
        const std::string expected = outcome_text(one), got = outcome_text(other);
        if (expected == got) {
          add_unexplained_differences(one, other);
          continue;
        }
        other.status = std::max(other.status, CaseStatus::unexpected);
        if (!one.error && !other.error && one.verdict() != other.verdict()) {
          add_backend_difference(one, other);
          continue;
        }
        const ExpectationFailure missed{"outcome on " + other.backend + ", as on " + one.backend,
                                        expected, got};
        (other.phases.empty() ? other.missed_refusal : other.phases.back().missed)
            .push_back(missed);
      }
}

size_t thread_count(int requested, size_t tasks) {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(requested > 0 ? static_cast<size_t>(requested) : cores,
                  std::max<size_t>(tasks, 1));
}

// Runs all cases on several threads. The first exception ends the run and is rethrown.
class TaskRun {
 public:
  TaskRun(const std::vector<Scenario>& scenarios, const RunOptions& options,
          const Registries& registries, const RunObserver& watch, RunResult& result)
      : scenarios_(scenarios),
        options_(options),
        registries_(registries),
        watch_(watch),
        result_(result),
        tasks_(plan_tasks(scenarios, options, result)) {
    state_.total = static_cast<int64_t>(tasks_.size());
  }

  void run() {
    bool has_pool = false;
    for (const std::string& backend : options_.backends)
      has_pool = has_pool || pool_of(backend, registries_) != nullptr;
    const size_t count = has_pool ? 1 : thread_count(options_.jobs, tasks_.size());
    {
      std::vector<std::jthread> threads;  // joined on return and on exceptions
      threads.reserve(count);
      try {
        while (threads.size() + 1 < count) threads.emplace_back([this] { work(); });
      } catch (const std::exception&) {  // the system has no more threads; fewer are enough
      }
      work();
    }
    if (error_) std::rethrow_exception(error_);
    if (stopped_) drop_cases_not_run();
  }

 private:
  void work() {
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    try {
      for (size_t i = next_++; i < tasks_.size(); i = next_++) {
        const CaseTask& task = tasks_[i];
        const Scenario& scenario = scenarios_[task.scenario];
        CaseResult one = run_task(tasks_, i, scenario, options_, registries_);
        if (options_.records_values) label_runs(one, scenario, task, options_, registries_);
        lock.lock();
        end(task, std::move(one));
        lock.unlock();
      }
    } catch (...) {
      // The lock is still held if watch_.done threw.
      if (!lock) lock.lock();
      if (!error_) error_ = std::current_exception();
      next_ = tasks_.size();
    }
  }

  void end(const CaseTask& task, CaseResult one) {
    if (error_) return;
    if (watch_.done) watch_.done(one);
    ++state_.done;
    if (one.status != CaseStatus::as_expected) {
      ++state_.failing;
      if (options_.fail_fast) {
        stopped_ = true;
        next_ = tasks_.size();
      }
    }
    result_.scenarios[task.scenario].cases[task.index] = std::move(one);
    if (watch_.progress) watch_.progress(state_);
  }

  // A case that did not run has no file. Backends are compared for cases that ran on all of them.
  void drop_cases_not_run() {
    result_.not_run = state_.total - state_.done;
    const size_t backends = options_.backends.size();
    for (ScenarioResult& scenario : result_.scenarios) {
      std::vector<CaseResult> ran;
      for (size_t i = 0; i < scenario.cases.size(); i += backends) {
        const auto first = scenario.cases.begin() + static_cast<long>(i);
        const auto last = first + static_cast<long>(backends);
        if (std::all_of(first, last, [](const CaseResult& one) { return !one.file.empty(); }))
          std::move(first, last, std::back_inserter(ran));
      }
      scenario.cases = std::move(ran);
    }
  }

  const std::vector<Scenario>& scenarios_;
  const RunOptions& options_;
  const Registries& registries_;
  const RunObserver& watch_;
  RunResult& result_;
  const std::vector<CaseTask> tasks_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  Progress state_;
  bool stopped_ = false;
  std::exception_ptr error_;
};

}  // namespace

Verdict expected_verdict(const Case& one) {
  if (one.refused) return one.refusal.verdict;
  for (const Phase& phase : one.phases)
    if (phase.expect.verdict != Verdict::clean) return phase.expect.verdict;
  return Verdict::clean;
}

ScenarioResult refused_file(const std::string& file, const std::string& path,
                            const std::string& group, std::vector<Error> errors,
                            const RunOptions& options) {
  CaseResult result;
  result.file = file;
  result.status = CaseStatus::refused;
  result.error = std::move(errors.front());
  errors.erase(errors.begin());
  result.more_errors = std::move(errors);
  result.repeat = repeat_command(file, "", options);
  result.repeat_here = repeat_command(path.empty() ? file : path, "", options);
  return {file, group, "", {std::move(result)}};
}

RunResult run_scenarios(const std::vector<Scenario>& scenarios,
                        const std::vector<std::string>& groups, const RunOptions& options,
                        const Registries& registries, const RunObserver& watch) {
  RunResult result;
  for (size_t s = 0; s < scenarios.size(); ++s)
    result.scenarios.push_back({scenarios[s].file, groups[s], scenarios[s].about, {}});
  TaskRun(scenarios, options, registries, watch, result).run();
  compare_backends(result, options.backends.size());
  result.notes = notes_of(options, registries);
  return result;
}

void run_scenarios_as_worker(const std::vector<Scenario>& scenarios, const RunOptions& options,
                             const Registries& registries) {
  RunResult result;
  result.scenarios.resize(scenarios.size());
  const std::vector<CaseTask> tasks = plan_tasks(scenarios, options, result);
  WorkerPool* pool = nullptr;
  for (const std::string& backend : options.backends)
    if (WorkerPool* const own = pool_of(backend, registries)) pool = own;
  SP_CHECK(pool != nullptr, "a worker process needs a backend with a worker pool");
  while (const std::optional<int64_t> index = pool->next()) {
    const CaseTask& task = tasks.at(static_cast<size_t>(*index));
    const CaseResult own = run_case(scenarios[task.scenario], task, options, registries);
    pool->done(own.error ? own.error->what() : "");
  }
}

}  // namespace shardproof
