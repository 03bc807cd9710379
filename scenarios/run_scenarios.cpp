#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <thread>

#include "shardproof/backends/assembly.h"
#include "shardproof/localtensor/reduction_order.h"
#include "shardproof/scenarios/run.h"

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
  if (options.processes != 0) out += fmt::format(" --processes {}", options.processes);
  if (options.order != ReductionSchedule())
    out += " --order " + shell_word(to_string(options.order));
  if (options.schedule == ScheduleKind::seeded) out += " --schedule seeded";
  if (options.schedule == ScheduleKind::adversarial) out += " --schedule adversarial";
  return out + fmt::format(" --seed {}", options.seed);
}

PhaseResult run_phase(const Phase& phase, const std::string& backend, const RunOptions& options,
                      const Registries& registries) {
  Job job = filled(phase, options.seed);
  job.backend = backend;
  job.schedule = {options.schedule, options.seed};
  job.order = options.order;
  PhaseResult result;
  result.outcome = check(job, registries);
  result.missed = missed(phase.expect, result.outcome, job);
  // The rest is large and nobody reads it.
  result.outcome.world.records.clear();
  result.outcome.values.clear();
  if (job.program)
    result.listings.push_back({Lanes::range(0, job.world), *job.program, "/program"});
  for (JobListing& listing : job.ranks) result.listings.push_back(std::move(listing));
  return result;
}

void settle_error(CaseResult& result, const Expect& expect, const Error& error) {
  result.error = error.inside({result.file, "", 0, 0});
  result.status = CaseStatus::refused;
  if (expect.verdict != Verdict::bad_input || error.kind() == ErrorKind::unsupported) return;
  result.missed_refusal = missed(expect, error);
  result.status = result.missed_refusal.empty() ? CaseStatus::as_expected : CaseStatus::surprise;
}

Verdict expected_verdict(const Case& one) {
  if (one.refused) return one.refusal.verdict;
  for (const Phase& phase : one.phases)
    if (phase.expect.verdict != Verdict::clean) return phase.expect.verdict;
  return Verdict::clean;
}

struct Task {
  size_t scenario, index;  // of the result
  const Case* one;
  std::string backend;
};

CaseResult blank_result(const Scenario& scenario, const Task& task, const RunOptions& options) {
  CaseResult result;
  result.file = scenario.file;
  result.name = task.one->name;
  if (options.backends.size() > 1) result.backend = task.backend;
  result.expected = expected_verdict(*task.one);
  return result;
}

CaseResult run_case(const Scenario& scenario, const Task& task, const RunOptions& options,
                    const Registries& registries) {
  const Case& one = *task.one;
  CaseResult result = blank_result(scenario, task, options);
  result.repeat = repeat_command(scenario.file, one.name, options);
  result.repeat_here =
      repeat_command(scenario.path.empty() ? scenario.file : scenario.path, one.name, options);
  set_repeat_command(result.repeat_here);
  if (one.refused) {
    settle_error(result, one.refusal, *one.refused);
    return result;
  }
  const Expect* current = nullptr;
  try {
    for (const Phase& phase : one.phases) {
      current = &phase.expect;
      result.phases.push_back(run_phase(phase, task.backend, options, registries));
      if (!result.phases.back().missed.empty()) result.status = CaseStatus::surprise;
      if (result.phases.back().outcome.world.broken) break;
    }
  } catch (const Error& error) {
    settle_error(result, *current, error);
  } catch (const std::bad_alloc&) {
    settle_error(result, *current,
                 Error(ErrorKind::limit, "the machine has too little memory for this case"));
  }
  return result;
}

std::string without_spaces(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c != ' ') out += c;
  return out;
}

bool is_chosen(const Case& one, const RunOptions& options) {
  return !options.only_case || without_spaces(one.name) == without_spaces(*options.only_case);
}

std::vector<Task> plan_tasks(const std::vector<Scenario>& scenarios, const RunOptions& options,
                             RunResult& result) {
  std::vector<Task> tasks;
  NearestName nearest(options.only_case.value_or(""));
  for (size_t s = 0; s < scenarios.size(); ++s) {
    for (const Case& one : scenarios[s].cases) {
      nearest.offer(one.name);
      if (!is_chosen(one, options)) continue;
      for (const std::string& backend : options.backends) {
        tasks.push_back({s, result.scenarios[s].cases.size(), &one, backend});
        result.scenarios[s].cases.emplace_back();
      }
    }
  }
  if (tasks.empty() && options.only_case)
    throw_bad_input("--case \"{}\": no such case{}", *options.only_case, nearest.hint());
  return tasks;
}

Crew* crew_of(const std::string& backend, const Registries& registries) {
  for (const std::shared_ptr<Launcher>& launcher : registries.backends)
    if (launcher->name() == backend) return launcher->crew();
  return nullptr;
}

// With the crew in step, if there is one.
CaseResult run_task(const std::vector<Task>& tasks, size_t index, const Scenario& scenario,
                    const RunOptions& options, const Registries& registries) {
  const Task& task = tasks[index];
  Crew* const crew = crew_of(task.backend, registries);
  if (crew == nullptr) return run_case(scenario, task, options, registries);
  try {
    crew->begin(static_cast<int64_t>(index));
  } catch (const Error& error) {
    CaseResult result = blank_result(scenario, task, options);
    result.error = error;
    result.status = CaseStatus::refused;
    return result;
  }
  CaseResult result = run_case(scenario, task, options, registries);
  crew->end();
  return result;
}

// What a case came to, for the comparison of backends.
std::string outcome_text(const CaseResult& result) {
  if (result.error) return fmt::format("refused: {}", result.error->message());
  std::string text;
  for (const PhaseResult& phase : result.phases)
    for (const Finding& finding : phase.outcome.findings)
      text += fmt::format("{}{} (line {}, ranks {})", text.empty() ? "" : "; ",
                          name(finding.verdict), finding.line, to_string(finding.ranks));
  return text.empty() ? "clean" : text;
}

// Each backend compares its values with the truth; here what they found is laid side by side.
void compare_backends(RunResult& result, size_t backends) {
  if (backends < 2) return;
  for (ScenarioResult& scenario : result.scenarios)
    for (size_t first = 0; first < scenario.cases.size(); first += backends)
      for (size_t i = first + 1; i < first + backends; ++i) {
        CaseResult& other = scenario.cases[i];
        const std::string expected = outcome_text(scenario.cases[first]), got = outcome_text(other);
        if (expected == got) continue;
        other.status = std::max(other.status, CaseStatus::surprise);
        const Missed missed{"as on " + scenario.cases[first].backend, expected, got};
        (other.phases.empty() ? other.missed_refusal : other.phases.back().missed)
            .push_back(missed);
      }
}

size_t thread_count(int asked, size_t tasks) {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::min(asked > 0 ? static_cast<size_t>(asked) : cores, std::max<size_t>(tasks, 1));
}

}  // namespace

RunResult run_scenarios(const std::vector<Scenario>& scenarios,
                        const std::vector<std::string>& groups, const RunOptions& options,
                        const Registries& registries,
                        const std::function<void(const Progress&)>& progress) {
  RunResult result;
  for (size_t s = 0; s < scenarios.size(); ++s)
    result.scenarios.push_back({scenarios[s].file, groups[s], scenarios[s].about, {}});
  const std::vector<Task> tasks = plan_tasks(scenarios, options, result);

  bool crewed = false;
  for (const std::string& backend : options.backends)
    crewed = crewed || crew_of(backend, registries) != nullptr;
  std::atomic<size_t> next{0};
  std::mutex mutex;
  Progress state;
  state.total = static_cast<int64_t>(tasks.size());
  const auto work = [&] {
    for (size_t i = next++; i < tasks.size(); i = next++) {
      const Task& task = tasks[i];
      CaseResult one = run_task(tasks, i, scenarios[task.scenario], options, registries);
      const std::lock_guard<std::mutex> lock(mutex);
      ++state.done;
      if (one.status != CaseStatus::as_expected) ++state.failing;
      result.scenarios[task.scenario].cases[task.index] = std::move(one);
      if (progress) progress(state);
    }
  };
  std::vector<std::thread> threads;
  const size_t count = crewed ? 1 : thread_count(options.jobs, tasks.size());
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  compare_backends(result, options.backends.size());
  return result;
}

void follow_scenarios(const std::vector<Scenario>& scenarios, const RunOptions& options,
                      const Registries& registries) {
  RunResult result;
  result.scenarios.resize(scenarios.size());
  const std::vector<Task> tasks = plan_tasks(scenarios, options, result);
  Crew* crew = nullptr;
  for (const std::string& backend : options.backends)
    if (Crew* const own = crew_of(backend, registries)) crew = own;
  SP_CHECK(crew != nullptr, "a process of no crew follows one");
  while (const std::optional<int64_t> index = crew->next()) {
    const Task& task = tasks.at(static_cast<size_t>(*index));
    const CaseResult own = run_case(scenarios[task.scenario], task, options, registries);
    crew->done(own.error ? own.error->what() : "");
  }
}

}  // namespace shardproof
