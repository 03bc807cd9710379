// Implements run_program.h.
//
// 1. Start a world of the backend with one cohort for each listing, execute, and collect what other
//    processes report. This run is left out if the job has faults, rank functions or a schedule
//    that explores orders of arrival, if ranks of one listing wait differently, or if it is known
//    to block (ranks_by_branch.h).
// 2. If there is no clean run, run with cohorts of ranks that take the same branches.
// 3. If there is no clean run, run with cohorts of one. A cohort issues the calls of all its ranks
//    together, so only this run shows which rank waits for which.
// 4. If the run is clean and the job measures time, run it once more with cohorts of one. Each
//    process then repeats its calls and kernels by itself. If calls may depend on values that the
//    host reads (C++ functions, faults), each repetition is a run with the coordinator.
//
// Example of 3: ranks 0 and 1 run one listing that receives from the other rank and then sends. One
// cohort of both would wait in both receives together. In the run with cohorts of one each rank
// waits in its own receive. The finding then names both: rank 0 waits for rank 1 to send, and rank
// 1 waits for rank 0 to send.
#include "shardproof/engine/execute/run_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "shardproof/backends/api/rank_functions.h"
#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/engine/execute/count_calls.h"
#include "shardproof/engine/execute/planned_calls_of_program.h"
#include "shardproof/engine/execute/ranks_by_branch.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

Backend& backend_named(const Job& job, const Registries& registries) {
  const std::string& name = job.backend;
  NearestName nearest(name);
  for (const std::shared_ptr<Backend>& target : registries.backends) {
    if (target->name() == name) {
      if (const std::optional<std::string> reason = target->not_viable())
        throw Error(ErrorKind::unsupported, fmt::format("backend {}: {}", name, *reason));
      if (const auto reason = job.device ? target->refuses_device() : std::nullopt)
        throw Error(ErrorKind::unsupported,
                    fmt::format("backend {} cannot use a device: {}", name, *reason));
      return *target;
    }
    nearest.offer(target->name());
  }
  throw_bad_input("unknown backend {}{}", name, nearest.hint());
}

struct Cohorts {
  std::vector<Lanes> sets;  // disjoint, each of ranks of one listing
  bool single = false;      // each rank of the sets is a cohort; else each set
};

Cohorts listings_of(const SpmdProgram& program) {
  Cohorts cohorts;
  for (const SpmdListing& listing : program.listings) cohorts.sets.push_back(listing.lanes);
  return cohorts;
}

Cohorts single_ranks(const SpmdProgram& program) {
  Cohorts cohorts = listings_of(program);
  cohorts.single = true;
  return cohorts;
}

// Returns the lanes of each cohort. Ranks of different devices are never in one.
std::vector<Lanes> on_devices(const Cohorts& cohorts, const std::vector<Lanes>& by_device) {
  std::vector<Lanes> result;
  for (const Lanes& set : cohorts.sets)
    for (const Lanes& here : by_device) {
      const Lanes lanes = set.intersect(here);
      if (!cohorts.single && !lanes.empty()) result.push_back(lanes);
      if (cohorts.single)
        for (int64_t i = 0; i < lanes.size(); ++i) result.push_back(Lanes::one(lanes[i]));
    }
  return result;
}

struct Attempt {
  ProgramRun run;
  bool finished = false;
  std::string on_graph;  // note on its repetitions as CUDA graphs; empty: none
  bool is_clean() const { return finished && run.outcome.world.findings.empty(); }
};

// Sends the watched values of worker processes to the process that judges, and returns the probe
// that does so. In the judging process, values that arrive are passed to `probe` or stored.
ProbeFunction probe_between(WorldProcesses& processes, const ValueFilter& watched,
                            ProbeFunction probe, std::map<ValueId, LocalTensor>& arrived) {
  processes.read([probe, &arrived](ValueEvent kind, int64_t id, LocalTensor contents) {
    const ValueId value = static_cast<ValueId>(id);
    if (kind == ValueEvent::made) {
      if (probe) probe(value, contents);
      return;
    }
    LocalTensor& known = arrived[value];
    known = known.empty() ? std::move(contents) : known.merged_with(contents);
  });
  if (!probe) return {};
  return [&processes, &watched](ValueId id, const LocalTensor& value) {
    if (watched.made(id)) processes.publish(ValueEvent::made, id, value);
  };
}

// Combines the results of all processes. An error of a kernel in any process ends the run.
void agree(WorldProcesses* processes, const ValueFilter& watched, Attempt& attempt) {
  HostResult conclusion{attempt.finished, attempt.run.executor->kernel_errors(),
                        attempt.run.world->unfired_faults()};
  if (processes != nullptr) conclusion = processes->conclude(std::move(conclusion));
  if (!conclusion.errors.empty()) throw conclusion.errors.front();
  attempt.finished = conclusion.finished;
  attempt.run.outcome.unfired_faults = std::move(conclusion.unfired_faults);
  std::sort(attempt.run.outcome.unfired_faults.begin(), attempt.run.outcome.unfired_faults.end());
  if (processes == nullptr) return;
  for (ValueId id : watched.at_end)
    if (const LocalTensor value = attempt.run.executor->value(id); !value.empty())
      processes->publish(ValueEvent::at_end, id, value);
}

// The inputs that all attempts share.
struct Stage {
  const SpmdProgram& program;
  const Job& job;
  const Registries& registries;
  Backend& target;
  std::vector<LocalTensor> inputs;
};

WorldOptions world_options(const SpmdProgram& program, const Job& job) {
  WorldOptions options;
  options.ranks = job.world;
  options.schedule = job.schedule;
  options.cost = job.cost;
  options.faults = job.faults;
  options.device = job.device;
  // The calls of rank functions are not known before they run.
  if (job.functions.empty())
    options.planned = [&program, &job] { return plan_calls(program, job.faults); };
  return options;
}

// Repeats a run and publishes the measured records of each repetition. Returns a note on the
// repetitions as CUDA graphs; empty: there is none.
std::string repeat(World& world, const Timing& timing, const std::set<std::string>& host_ops) {
  WorldProcesses& processes = *world.processes();
  Repetitions repetitions;
  repetitions.warmup = timing.warmup;
  repetitions.iterations = timing.iterations;
  repetitions.measured = [&] { processes.publish(world.measured_records()); };
  if (timing.as_graph) {
    repetitions.mode = Repetitions::Mode::graph;
    if (!host_ops.empty())
      repetitions.not_captured = fmt::format("the host computes {}", fmt::join(host_ops, ", "));
  }
  int64_t other_bits = 0;
  for (const BenchmarkResult& result : processes.repeat(repetitions)) {
    if (!result.not_captured.empty())
      return "the iterations cannot be a CUDA graph: " + result.not_captured;
    other_bits += result.other_bits;
  }
  return other_bits == 0 ? ""
                         : fmt::format(
                               "{} results of the CUDA graph differ in bits from those of "
                               "the same calls without it",
                               other_bits);
}

Attempt attempt(const Stage& stage, const WorldOptions& options, const ValueFilter& watched,
                ProbeFunction probe, const Cohorts& grouping) {
  const Job& job = stage.job;
  Attempt result;
  result.run.world = stage.target.start(options);
  WorldProcesses* const processes = result.run.world->processes();
  if (processes != nullptr)
    probe = probe_between(*processes, watched, std::move(probe), result.run.arrived);
  ExecutorOptions executing;
  executing.made = std::move(probe);
  executing.kernels = &stage.registries.kernels;
  executing.loads_kernels = processes != nullptr;
  executing.timed = job.cost != nullptr;
  executing.repeats = options.repeats;
  result.run.executor =
      std::make_unique<Executor>(stage.program, stage.registries.ops, *result.run.world, executing);
  const Lanes here = processes == nullptr ? Lanes::range(0, job.world) : processes->local_ranks();
  const std::vector<Lanes> by_device =
      processes == nullptr ? std::vector<Lanes>{here} : processes->local_ranks_by_device();
  result.run.executor->start(on_devices(grouping, by_device), stage.inputs);
  std::optional<RankFunctions> functions;
  std::function<bool()> advance_functions;
  if (!job.functions.empty()) {
    functions.emplace(*result.run.world, job.world, RankFunctionsOptions());
    for (const JobFunction& function : job.functions)
      if (const Lanes lanes = function.lanes.intersect(here); !lanes.empty())
        functions->start(lanes, function.program);
    advance_functions = [&] { return functions->advance(); };
  }
  result.finished = result.run.executor->run(advance_functions);
  agree(processes, watched, result);
  const std::set<std::string>& on_host = result.run.executor->host_ops();
  if (options.repeats && result.finished)
    result.on_graph = repeat(*result.run.world, job.timing, on_host);
  if (options.measures && !options.repeats)
    processes->publish(result.run.world->measured_records());
  Outcome& outcome = result.run.outcome;
  outcome.world = result.run.world->close();
  if (functions) outcome.world.rank_errors = functions->finish();
  outcome.findings = outcome.world.findings;
  outcome.on_host.assign(on_host.begin(), on_host.end());
  outcome.calls = count_calls(outcome.world.records);
  return result;
}

// True if what a rank does next may depend on values that it reads, or on a fault.
bool needs_coordinator(const Job& job) { return !job.functions.empty() || !job.faults.empty(); }

// Repeats the run to measure time: each rank is a cohort, and there are no probes. All processes of
// the run take the same decisions, because they receive the same outcome.
void repeat_to_measure(const Stage& stage, ProgramRun& run) {
  const Timing& timing = stage.job.timing;
  if (timing.iterations == 0 || run.world->processes() == nullptr) return;
  WorldOptions options = world_options(stage.program, stage.job);
  options.measures = true;
  options.repeats = !needs_coordinator(stage.job);
  if (!options.repeats)
    run.outcome.notes.push_back(
        "times include the coordinator, which orders every call: the calls may depend on what "
        "ranks read or on faults");
  if (timing.as_graph && !options.repeats)
    run.outcome.notes.push_back(
        "the iterations cannot be a CUDA graph: the coordinator orders calls");
  const int runs = options.repeats ? 1 : timing.warmup + timing.iterations;
  for (int i = 0; i < runs; ++i) {
    Attempt repetition = attempt(stage, options, {}, {}, single_ranks(stage.program));
    WorldReport& report = repetition.run.outcome.world;
    if (!repetition.finished || !report.findings.empty()) {
      run.outcome.findings = report.findings;
      run.outcome.world.broken = report.broken;
      return;
    }
    if (!options.repeats && i < timing.warmup) continue;
    if (!repetition.on_graph.empty()) run.outcome.notes.push_back(repetition.on_graph);
    for (std::vector<Record>& records : report.measured)
      run.outcome.timed.push_back(std::move(records));
  }
}

// True if some ranks of a listing wait or record an event and others do not. A cohort of all
// ranks of the listing would make each of them wait.
bool orders_streams_of_some(const SpmdProgram& program) {
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs) {
      const bool orders = std::holds_alternative<Wait>(instr.action) ||
                          std::holds_alternative<RecordEvent>(instr.action);
      if (orders && !(instr.lanes == listing.lanes)) return true;
    }
  return false;
}

// Returns cohorts of the ranks of each branch. Returns none if they are those of the listings,
// which have been tried, or if they are so many that they save less than a run that blocks takes.
Cohorts cohorts_by_branch(const Stage& stage, bool tried_listings) {
  const SpmdProgram& program = stage.program;
  const bool always = stage.job.grouping == CohortPolicy::by_branch;
  constexpr int64_t kRanksEach = 16;
  Cohorts cohorts{ranks_by_branch(program, stage.job.world / (always ? 1 : kRanksEach))};
  return tried_listings && cohorts.sets.size() == program.listings.size() ? Cohorts{} : cohorts;
}

}  // namespace

bool ProgramRun::is_of_worker() const {
  const WorldProcesses* const processes = world->processes();
  return processes != nullptr && !processes->is_coordinator();
}

LocalTensor ProgramRun::value(ValueId id) const {
  const auto found = arrived.find(id);
  return found == arrived.end() ? executor->value(id) : found->second;
}

std::vector<LocalTensor> split_inputs(const Job& job) {
  std::vector<LocalTensor> inputs;
  for (const JobInput& input : job.inputs) {
    // Parts of two inputs of one shape differ: the largest elements may lie on other ranks.
    const uint64_t seed = job.seed + hash_text(input.name);
    LocalTensor locals = split(input.data, input.spec, PartialFill::exact, seed);
    const bool all = input.on == input.spec.mesh().ranks();
    inputs.push_back(all ? std::move(locals) : locals.restrict_to(input.on));
  }
  return inputs;
}

ProgramRun run_program(const SpmdProgram& program, const Job& job, const Registries& registries,
                       const ValueFilter& watched, const std::function<ProbeFunction()>& make_probe,
                       const std::vector<LocalTensor>* inputs) {
  const Stage stage{program, job, registries, backend_named(job, registries),
                    inputs != nullptr ? *inputs : split_inputs(job)};
  const WorldOptions options = world_options(program, job);
  const auto run_with = [&](const Cohorts& cohorts) {
    return attempt(stage, options, watched, make_probe(), cohorts);
  };
  const bool shares = job.grouping != CohortPolicy::one_by_one && job.faults.empty() &&
                      job.functions.empty() && !job.schedule.defers();
  std::optional<Attempt> last;
  // True if there is no run yet, or if cohorts of fewer ranks may give another outcome.
  const auto is_open = [&] {
    const bool open = !last || !(last->is_clean() || last->run.outcome.world.broken);
    if (open) last.reset();
    return open;
  };
  // Worker processes have few ranks each.
  const bool here = stage.target.pool() == nullptr;
  const bool listings = shares && job.grouping == CohortPolicy::coarse_first &&
                        !orders_streams_of_some(program) && !(here && blocks_as_cohort(program));
  if (listings) last = run_with(listings_of(program));
  if (shares && here && is_open())
    if (const Cohorts cohorts = cohorts_by_branch(stage, listings); !cohorts.sets.empty())
      last = run_with(cohorts);
  if (is_open()) last = run_with(single_ranks(program));
  const WorldReport& report = last->run.outcome.world;
  SP_CHECK(!shares || last->finished || !report.findings.empty() || report.broken,
           "the run does not end and no finding explains it");
  if (last->is_clean() && !report.broken) repeat_to_measure(stage, last->run);
  return std::move(last->run);
}

}  // namespace shardproof
