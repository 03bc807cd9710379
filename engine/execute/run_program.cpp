#include "shardproof/engine/execute/run_program.h"

#include <algorithm>

#include "shardproof/backends/api/rank_functions.h"
#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/engine/execute/count_calls.h"
#include "shardproof/engine/execute/planned_calls_of_program.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/sim/cost/cost_model.h"

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
                    fmt::format("backend {} and a device: {}", name, *reason));
      return *target;
    }
    nearest.offer(target->name());
  }
  throw_bad_input("unknown backend {}{}", name, nearest.hint());
}

std::vector<Lanes> cohorts(const SpmdProgram& program, const std::vector<Lanes>& by_device,
                           bool coarse) {
  std::vector<Lanes> result;
  for (const SpmdListing& listing : program.listings)
    for (const Lanes& here : by_device) {
      const Lanes lanes = listing.lanes.intersect(here);
      if (coarse && !lanes.empty()) result.push_back(lanes);
      if (!coarse)
        for (int64_t i = 0; i < lanes.size(); ++i) result.push_back(Lanes::one(lanes[i]));
    }
  return result;
}

struct Attempt {
  ProgramRun run;
  bool finished = false;
};

// Values go from the processes of the hosts to the one that judges.
ProbeFunction probe_between(Assembly& assembly, const ValueFilter& watched, ProbeFunction probe,
                            std::map<ValueId, LocalTensor>& arrived) {
  assembly.read([probe, &arrived](ValueEvent kind, int64_t id, LocalTensor contents) {
    const ValueId value = static_cast<ValueId>(id);
    if (kind == ValueEvent::made) {
      if (probe) probe(value, contents);
      return;
    }
    LocalTensor& known = arrived[value];
    known = known.empty() ? std::move(contents) : known.merged_with(contents);
  });
  if (!probe) return {};
  return [&assembly, &watched](ValueId id, const LocalTensor& value) {
    if (watched.made(id)) assembly.publish(ValueEvent::made, id, value);
  };
}

// What a kernel said ends the run, on whichever process it happened.
void agree(Assembly* assembly, const ValueFilter& watched, Attempt& attempt) {
  HostResult conclusion{attempt.finished, attempt.run.executor->kernel_errors(),
                        attempt.run.world->unfired_faults()};
  if (assembly != nullptr) conclusion = assembly->conclude(std::move(conclusion));
  if (!conclusion.errors.empty()) throw conclusion.errors.front();
  attempt.finished = conclusion.finished;
  attempt.run.outcome.unfired_faults = std::move(conclusion.unfired_faults);
  std::sort(attempt.run.outcome.unfired_faults.begin(), attempt.run.outcome.unfired_faults.end());
  if (assembly == nullptr) return;
  for (ValueId id : watched.at_end)
    if (const LocalTensor value = attempt.run.executor->value(id); !value.empty())
      assembly->publish(ValueEvent::at_end, id, value);
}

// What all attempts have in common.
struct Stage {
  const SpmdProgram& program;
  const Job& job;
  const Registries& registries;
  Backend& target;
  std::vector<LocalTensor> inputs;
};
enum class Cohorts : uint8_t { coarse, single };

WorldOptions world_options(const SpmdProgram& program, const Job& job) {
  WorldOptions options;
  options.ranks = job.world;
  options.schedule = job.schedule;
  options.cost = job.cost;
  options.faults = job.faults;
  options.device = job.device;
  // Rank functions call what they like.
  if (job.functions.empty())
    options.planned = [&program, &job] { return plan_calls(program, job.faults); };
  return options;
}

Attempt attempt(const Stage& stage, const WorldOptions& options, const ValueFilter& watched,
                ProbeFunction probe, Cohorts grouping) {
  const Job& job = stage.job;
  Attempt result;
  result.run.world = stage.target.start(options);
  Assembly* const assembly = result.run.world->assembly();
  if (assembly != nullptr)
    probe = probe_between(*assembly, watched, std::move(probe), result.run.arrived);
  ExecutorOptions executing;
  executing.made = std::move(probe);
  executing.kernels = &stage.registries.kernels;
  executing.loads_kernels = assembly != nullptr;
  executing.timed = job.cost != nullptr;
  result.run.executor =
      std::make_unique<Executor>(stage.program, stage.registries.ops, *result.run.world, executing);
  const Lanes here = assembly == nullptr ? Lanes::range(0, job.world) : assembly->here();
  const std::vector<Lanes> by_device =
      assembly == nullptr ? std::vector<Lanes>{here} : assembly->here_by_device();
  result.run.executor->start(cohorts(stage.program, by_device, grouping == Cohorts::coarse),
                             stage.inputs);
  std::optional<RankFunctions> functions;
  std::function<bool()> beside;
  if (!job.functions.empty()) {
    functions.emplace(*result.run.world, job.world, RankFunctionsOptions());
    for (const JobFunction& function : job.functions)
      if (const Lanes lanes = function.lanes.intersect(here); !lanes.empty())
        functions->start(lanes, function.program);
    beside = [&] { return functions->advance(); };
  }
  result.finished = result.run.executor->run(beside);
  agree(assembly, watched, result);
  Outcome& outcome = result.run.outcome;
  outcome.world = result.run.world->close();
  if (functions) outcome.world.rank_errors = functions->finish();
  outcome.findings = outcome.world.findings;
  const std::set<std::string>& on_host = result.run.executor->host_ops();
  outcome.on_host.assign(on_host.begin(), on_host.end());
  outcome.calls = count_calls(outcome.world.records, job.world);
  return result;
}

// Every rank by itself, so that each is measured alone, and nobody looks at values. All processes
// of the run come to the same decision.
void repeat_for_the_clock(const Stage& stage, ProgramRun& run) {
  const Timing& timing = stage.job.timing;
  if (timing.iterations == 0 || run.world->assembly() == nullptr) return;
  WorldOptions options = world_options(stage.program, stage.job);
  options.measures = true;
  for (int i = 0; i < timing.warmup + timing.iterations; ++i) {
    Attempt repetition = attempt(stage, options, {}, {}, Cohorts::single);
    WorldReport& report = repetition.run.outcome.world;
    if (!repetition.finished || !report.findings.empty()) {
      run.outcome.findings = report.findings;
      run.outcome.world.broken = report.broken;
      return;
    }
    report.records.clear();  // those of the first run, again
    if (i >= timing.warmup) run.outcome.timed.push_back(std::move(report));
  }
}

// Whether some ranks of a listing wait, or mark a stream, where others do not: of ranks that go
// together all would.
bool orders_streams_of_some(const SpmdProgram& program) {
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs) {
      const bool orders = std::holds_alternative<Wait>(instr.action) ||
                          std::holds_alternative<RecordEvent>(instr.action);
      if (orders && !(instr.lanes == listing.lanes)) return true;
    }
  return false;
}

}  // namespace

LocalTensor ProgramRun::value(ValueId id) const {
  const auto found = arrived.find(id);
  return found == arrived.end() ? executor->value(id) : found->second;
}

std::vector<LocalTensor> split_inputs(const Job& job) {
  std::vector<LocalTensor> inputs;
  for (const JobInput& input : job.inputs) {
    LocalTensor locals = split(input.data, input.spec, PartialFill::exact, job.seed);
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
  // A rank with a fault is its own cohort, and so is every rank whose order of arrival is to be
  // explored.
  const bool coarse = job.grouping == CohortPolicy::coarse_first && job.faults.empty() &&
                      job.functions.empty() && job.schedule.kind == ScheduleKind::fifo &&
                      !orders_streams_of_some(program);
  Attempt first =
      attempt(stage, options, watched, make_probe(), coarse ? Cohorts::coarse : Cohorts::single);
  const WorldReport& report = first.run.outcome.world;
  const bool clean = first.finished && report.findings.empty();
  if (clean && !report.broken) repeat_for_the_clock(stage, first.run);
  if (!coarse || report.broken || clean) return std::move(first.run);
  first = {};
  Attempt fine = attempt(stage, options, watched, make_probe(), Cohorts::single);
  SP_CHECK(fine.finished || !fine.run.outcome.findings.empty() || !job.faults.empty(),
           "the run stands still and nothing explains it");
  return std::move(fine.run);
}

PriceFunction price_by_time(std::shared_ptr<const CostModel> cost) {
  return [cost](const PlanStep& step) {
    const StepCost bytes = cost_of(step);
    Price price{0, bytes.calls, bytes.peak_bytes};
    if (step.kind == StepKind::local) return price;
    if (step.kind == StepKind::transfer) {
      Collective message;
      message.kind = CollectiveKind::send;
      price.primary =
          to_seconds(cost->collective(message, static_cast<int64_t>(bytes.bytes.to_double())));
      return price;
    }
    const LoweredStep lowered = lower(step);
    price.primary = to_seconds(cost->collective(*lowered.call, lowered.whole_bytes));
    return price;
  };
}

}  // namespace shardproof
