// Implements observe_values.h. A global program is partitioned as for the measured run, and a probe
// collects each value until all its ranks have made it. The values of a rank program are read when
// its listings have ended.
#include "shardproof/engine/judging/observe_values.h"

#include <algorithm>

#include "shardproof/engine/compare/compare.h"
#include "shardproof/engine/compare/record_value.h"
#include "shardproof/engine/compare/reduction_provenance.h"
#include "shardproof/engine/compare/value_comparer.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/engine/partition/partition.h"
#include "shardproof/engine/reference/f64_job.h"
#include "shardproof/engine/reference/f64_program.h"

namespace shardproof {
namespace {

Job observed_job(const Job& job, Floats floats) {
  Job own = floats == Floats::widest ? with_wider_floats(job) : on_simulated_ranks(job);
  own.device = nullptr;  // it rounds in one direction only
  own.schedule = {};
  own.faults.clear();
  return own;
}

SpmdProgram partitioned(const Job& job, const Job& own, const OpRegistry& ops, Floats floats) {
  GlobalProgram global = lower_global(*job.program, context_of(job, ops), "/program");
  if (floats == Floats::widest) widen_floats(global, ops);
  return partition(global, own, ops, partition_options(job)).program;
}

// Collects the values of one attempt to run a global program.
class ValueProbe {
 public:
  ValueProbe(const SpmdProgram& program, const std::set<std::string>& ids)
      : program_(program), ids_(ids) {}

  void made(ValueId id, const LocalTensor& value) {
    const SpmdValue& info = program_.values[static_cast<size_t>(id)];
    if (!info.spec || !ids_.contains(info.name)) return;
    CollectedParts& parts = parts_[id];
    parts.add(fork(value, value.lanes()));  // later writes do not change it
    if (!cover_all(parts, info.shapes)) return;
    values_.insert_or_assign(info.name, record_value(info, info.spec, parts.whole()));
    parts_.erase(id);
  }
  ValuesById take() { return std::move(values_); }

 private:
  const SpmdProgram& program_;
  const std::set<std::string>& ids_;
  std::map<ValueId, CollectedParts> parts_;
  ValuesById values_;
};

class EndOfRun {
 public:
  EndOfRun(const RankOutputs& outputs, const ProgramRun& run, const OpRegistry& ops)
      : outputs_(outputs),
        run_(run),
        added_(values_reduced_over_ranks(outputs.ranks.program, ops)) {}

  void add(const std::string& name, const std::vector<NamedPart>& parts,
           std::vector<RecordedValue>& into) const {
    if (std::optional<RecordedValue> output = output_value(name, parts)) {
      into.push_back(std::move(*output));
      return;
    }
    for (const NamedPart& part : parts) {
      SpmdValue info = outputs_.ranks.program.values[static_cast<size_t>(part.value)];
      // A value may have two names, and a name may have another value on other ranks.
      info.name = parts.size() == 1 ? name : fmt::format("{}@{}", name, to_string(part.lanes));
      info.bound = name;
      info.origin.line = part.line;
      const LocalTensor value = run_.value(part.value);
      const LocalTensor own = value.empty() ? value : value.restrict_to(part.lanes);
      if (!has_all_contents(own)) continue;
      into.push_back(record_value(info, std::nullopt, own));
      into.back().added = any_added(parts);
    }
  }

 private:
  bool any_added(const std::vector<NamedPart>& parts) const {
    return std::any_of(parts.begin(), parts.end(), [&](const NamedPart& part) {
      return added_[static_cast<size_t>(part.value)];
    });
  }
  // Returns nullopt if the name is not an output, does not fit, or was not made on all its ranks.
  std::optional<RecordedValue> output_value(const std::string& name,
                                            const std::vector<NamedPart>& parts) const {
    const JobOutput* output = outputs_.find(name);
    if (!output) return std::nullopt;
    const Lanes on = outputs_.owners(*output);
    if (holders(outputs_.ranks, name, on).empty() || outputs_.misfit(*output)) return std::nullopt;
    const LocalTensor value = gather(parts, on, [&](ValueId id) { return run_.value(id); });
    if (!value.lanes().contains(on)) return std::nullopt;
    const Spec spec = outputs_.spec_of(*output);
    SpmdValue info;
    info.name = info.bound = name;
    info.dtype = spec.dtype();
    if (const NamedPart* first = outputs_.first_part(name, value.lanes()))
      info.origin.line = first->line;
    RecordedValue seen = record_value(info, spec, value);
    seen.added = any_added(parts);
    return seen;
  }

  const RankOutputs& outputs_;
  const ProgramRun& run_;
  std::vector<bool> added_;
};

}  // namespace

std::vector<RecordedValue> values_at_end(const RankOutputs& outputs, const ProgramRun& run,
                                         const OpRegistry& ops) {
  std::vector<RecordedValue> values;
  const EndOfRun end(outputs, run, ops);
  for (const auto& [name, parts] : outputs.ranks.names) end.add(name, parts, values);
  std::stable_sort(values.begin(), values.end(),
                   [](const RecordedValue& a, const RecordedValue& b) { return a.line < b.line; });
  return values;
}

std::vector<ValueId> named_values(const RankProgram& ranks) {
  std::vector<ValueId> ids;
  for (const auto& [name, parts] : ranks.names)
    for (const NamedPart& part : parts) ids.push_back(part.value);
  return ids;
}

Observation::Observation(const Job& job, const Registries& registries, Floats floats)
    : job_(observed_job(job, floats)), registries_(registries) {
  if (job.program) {
    ranks_.program = partitioned(job, job_, registries.ops, floats);
  } else {
    ranks_ = lower_ranks(job, registries.ops);
    if (floats == Floats::widest) widen_floats(ranks_.program, registries.ops);
  }
}

ValuesById Observation::run(const std::set<std::string>& ids,
                            const ReductionSchedule& order) const {
  SpmdProgram program = ranks_.program;
  reduce_in_order(program, order);
  return job_.program ? run_global(program, ids) : run_ranks(program, ids);
}

ValuesById Observation::run_global(const SpmdProgram& program,
                                   const std::set<std::string>& ids) const {
  std::optional<ValueProbe> probe;
  const ValueFilter watched{[](ValueId) { return true; }, {}};
  run_program(program, job_, registries_, watched, [&]() -> ProbeFunction {
    probe.emplace(program, ids);
    return [&](ValueId id, const LocalTensor& value) { probe->made(id, value); };
  });
  return probe->take();
}

ValuesById Observation::run_ranks(const SpmdProgram& program,
                                  const std::set<std::string>& ids) const {
  const ProgramRun run = run_program(program, job_, registries_, {{}, named_values(ranks_)},
                                     [] { return ProbeFunction{}; });
  const RankOutputs outputs{job_, ranks_, nullptr};
  ValuesById values;
  for (RecordedValue& value : values_at_end(outputs, run, registries_.ops))
    if (ids.contains(value.id)) {
      const std::string id = value.id;
      values.insert_or_assign(id, std::move(value));
    }
  return values;
}

}  // namespace shardproof
