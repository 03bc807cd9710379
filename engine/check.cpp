#include <algorithm>

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/check_detail.h"
#include "shardproof/engine/collector.h"
#include "shardproof/engine/explain.h"
#include "shardproof/engine/input_bounds.h"
#include "shardproof/engine/part_bounds.h"
#include "shardproof/engine/partition.h"
#include "shardproof/engine/rank_lowering.h"
#include "shardproof/engine/run_program.h"
#include "shardproof/engine/truth.h"
#include "shardproof/engine/widen_job.h"
#include "shardproof/engine/widen_program.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/split.h"

namespace shardproof {

GlobalContext context_of(const Job& job, const OpRegistry& ops) {
  GlobalContext context;
  context.ops = &ops;
  context.numbers = job.numbers;
  context.meshes = job.meshes;
  for (const JobInput& input : job.inputs)
    context.inputs.emplace_back(input.name, TensorMeta{input.spec.dtype(), input.spec.shape()});
  return context;
}

std::vector<Tensor> global_inputs(const Job& job) {
  std::vector<Tensor> tensors;
  for (const JobInput& input : job.inputs) tensors.push_back(input.data);
  return tensors;
}

void reduce_in_order(SpmdProgram& program, const ReductionSchedule& order) {
  for (SpmdListing& listing : program.listings)
    for (Instr& instr : listing.instrs)
      if (Communicate* call = std::get_if<Communicate>(&instr.action))
        for (CallItem& item : call->items) item.collective.schedule = order;
}

bool keeps(const Job& job, const std::string& name) {
  return std::count(job.keep.begin(), job.keep.end(), name) > 0;
}

std::string line_text(const std::vector<std::string>& lines, int line) {
  const size_t index = static_cast<size_t>(line - 1);
  return line > 0 && index < lines.size() ? lines[index] : "";
}

bool stands_still(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Verdict::mismatch || finding.verdict == Verdict::deadlock ||
           finding.verdict == Verdict::missing_rank || finding.verdict == Verdict::not_a_member;
  });
}

void rethrow(const Error& error, const std::string& path) { throw error.inside({"", path, 0, 0}); }

namespace {

constexpr int kMostDenied = 16;  // values, one after the other
constexpr int kTimesMoved = 4;   // a choice that hangs on a rounding falls otherwise in one of them

std::vector<ValueInfo> infos(const SpmdProgram& program) {
  std::vector<ValueInfo> result;
  for (const SpmdValue& value : program.values)
    result.push_back({value.dtype, value.shapes, value.spec, {}});
  return result;
}

PartitionOptions partition_options(const Job& job) {
  PartitionOptions options;
  options.explicit_only = job.explicit_only;
  if (job.cost) options.price = price_by_time(job.cost);
  return options;
}

// What the named values, those that are placed at all, are on the ranks.
std::set<ValueId> placed_ids(const GlobalProgram& global, const Partitioned& parts,
                             const std::function<bool(const std::string&)>& wanted) {
  std::set<ValueId> ids;
  for (const auto& [name, id] : global.names)
    if (const ValueId placed = parts.placed[static_cast<size_t>(id)];
        placed != kNoValue && wanted(name))
      ids.insert(placed);
  return ids;
}

CollectorOptions collector_options(const Job& job, const GlobalProgram& global,
                                   const Partitioned& parts, Truth& truth, JobPass& pass) {
  CollectorOptions options;
  options.keep =
      placed_ids(global, parts, [&](const std::string& name) { return keeps(job, name); });
  if (job.compared == Compared::outputs)
    options.only = placed_ids(global, parts, [](const std::string&) { return true; });
  options.sees = job.sees;
  if (job.anchors) options.anchors = kWideInF64;
  options.granted = pass.granted;
  if (!pass.asked.empty())
    options.watch = [&](ValueId id, const LocalTensor& value) {
      const SpmdValue& info = parts.program.values[static_cast<size_t>(id)];
      pass.see(info.global, value, *info.spec, truth.value(info.global));
    };
  return options;
}

// The first wrong value in program order is told, else the first whose replicas differ.
void explain_values(const Collector& collector, const Partitioned& parts,
                    const GlobalProgram& global, const Job& job, const OpRegistry& ops,
                    Truth& truth, JobPass& pass, std::vector<Finding>& findings) {
  const auto about = [&](ValueId id) {
    const SpmdValue& value = parts.program.values[static_cast<size_t>(id)];
    return WrongValue{value.bound,           *value.spec,
                      value.origin.line,     line_text(global.lines, value.origin.line),
                      value.origin.instance, value.global};
  };
  if (!collector.differences().empty()) {
    const auto& [id, difference] = *collector.differences().begin();
    pass.see_wrong(about(id), difference, truth.value(about(id).global));
    findings.push_back(explain_difference(about(id), difference, truth));
    explain_claim(about(id), global, parts, job, ops, findings.back());
  } else if (!collector.replicas().empty()) {
    const auto& [id, difference] = *collector.replicas().begin();
    findings.push_back(explain_replicas(about(id), difference));
  }
}

// What nothing has made is as the scenario gives it.
const Tensor* given(const Job& job, const Partitioned& parts, ValueId id) {
  const std::vector<ValueId>& inputs = parts.program.inputs;
  const auto found = std::find(inputs.begin(), inputs.end(), id);
  return found == inputs.end() ? nullptr
                               : &job.inputs[static_cast<size_t>(found - inputs.begin())].data;
}

void add_values(const Collector& collector, const Partitioned& parts, const GlobalProgram& global,
                const Job& job, Outcome& outcome) {
  const std::vector<ValueInfo> known = infos(parts.program);
  for (const auto& [name, global_id] : global.names) {
    const ValueId id = parts.placed[static_cast<size_t>(global_id)];
    if (id == kNoValue) continue;
    ValueInfo info = known[static_cast<size_t>(id)];
    const LocalTensor kept = collector.kept(id);
    if (!kept.empty() && info.spec) info.value = assemble(kept, *info.spec);
    if (const Tensor* input = given(job, parts, id); input && keeps(job, name)) info.value = *input;
    outcome.values.emplace(name, std::move(info));
  }
  for (const auto& [id, seen] : collector.seen()) outcome.seen.push_back(seen);
}

Outcome check_global(const Job& job, const Registries& registries, JobPass& pass) {
  const GlobalProgram global = lower_global(job, pass, *job.program, registries.ops, "/program");
  Partitioned parts = partition(global, job, registries.ops, partition_options(job));
  reduce_in_order(parts.program, job.order);
  const int64_t cuts = std::max<int64_t>(job.world, 1);
  Truth truth(global, registries.ops, global_inputs(job), cuts, input_bounds(job),
              values_in_parts(global, parts), job.matmul);
  const CollectorOptions collecting = collector_options(job, global, parts, truth, pass);
  Outcome outcome;
  std::optional<Collector> collector;
  try {
    const auto probe = [&]() -> ProbeFunction {
      collector.emplace(parts.program, &truth, collecting);
      return [&](ValueId id, const LocalTensor& value) { collector->made(id, value); };
    };
    const Watched watched{[&](ValueId id) { return collector->wants(id); }, {}};
    outcome = run_program(parts.program, job, registries, watched, probe).outcome;
  } catch (const Error& error) {
    rethrow(error, "/program");
  }
  outcome.values_compared = collector->compared();
  outcome.widest = collector->widest();
  explain_values(*collector, parts, global, job, registries.ops, truth, pass, outcome.findings);
  for (const Finding& finding : parts.unwritten) outcome.findings.push_back(finding);
  add_values(*collector, parts, global, job, outcome);
  if (job.sees) outcome.program = to_lines(parts.program);
  return outcome;
}

}  // namespace

GlobalProgram lower_global(const Job& job, const JobPass& pass, const Listing& listing,
                           const OpRegistry& ops, const std::string& path) {
  GlobalProgram program =
      lower_global(listing, context_of(pass.written ? *pass.written : job, ops), path);
  if (pass.written) widen_floats(program, ops);
  return program;
}

void JobPass::see(ValueId global, const LocalTensor& value, const Spec& spec, const Tensor& truth) {
  if (!asks_outputs && !asked.contains(global)) return;
  Sides fresh = sides_of(value, spec, truth);
  const auto [known, first] = seen.emplace(global, fresh);
  if (!first) keep_farther(known->second, std::move(fresh));
}

void JobPass::see_wrong(const WrongValue& about, const Difference& difference,
                        const Tensor& truth) {
  if (written) wrong.insert_or_assign(about.global, sides_of(difference, truth));
}

namespace {

Outcome check_once(const Job& job, const Registries& registries, JobPass& pass) {
  return job.program ? check_global(job, registries, pass) : check_ranks(job, registries, pass);
}

// In f64, until nothing is found wrong that narrow floats deny.
class WideCheck {
 public:
  WideCheck(const Job& job, const Registries& registries)
      : job_(job), registries_(registries), wide_(with_wider_floats(job)) {}

  // What is denied is granted, and the rest is judged by itself; nothing is said where that does
  // not come to an end.
  std::optional<Outcome> run() {
    JobPass pass = fresh();
    Outcome outcome = check_once(wide_, registries_, pass);
    if (pass.wrong.empty() && !job_.program && outcome.widest > kWideInF64) {
      measure(pass);
      pass = fresh();
      outcome = check_once(wide_, registries_, pass);
    }
    for (int i = 0; i < kMostDenied; ++i) {
      const std::set<ValueId> denied = denied_of(pass);
      if (denied.empty()) return outcome;
      granted_.insert(denied.begin(), denied.end());
      pass = fresh();
      outcome = check_once(wide_, registries_, pass);
    }
    return std::nullopt;
  }

 private:
  JobPass fresh() const {
    JobPass pass{&job_, granted_, movements_};
    pass.asks_outputs = true;
    return pass;
  }
  void measure(const JobPass& still) {
    for (int time = 0; time < kTimesMoved; ++time) {
      JobPass moved = fresh();
      moved.sees_only = true;
      const OtherRounding rounding(time);
      check_once(with_moved_inputs(wide_, time), registries_, moved);
      add_movements(still.seen, moved.seen, movements_);
    }
  }
  std::set<ValueId> denied_of(const JobPass& pass) const {
    JobPass again;
    for (const auto& [id, sides] : pass.wrong) again.asked.insert(id);
    if (again.asked.empty()) return {};
    check_once(on_simulated_ranks(job_), registries_, again);
    return denied_values(pass.wrong, again.seen);
  }

  const Job& job_;
  const Registries& registries_;
  Job wide_;
  std::set<ValueId> granted_;
  Movements movements_;
};

}  // namespace

Outcome check(const Job& job, const Registries& registries) {
  JobPass as_written;
  Outcome outcome = check_once(job, registries, as_written);
  if (!needs_wider_floats(job, outcome)) return outcome;
  try {
    if (const std::optional<Outcome> wide = WideCheck(job, registries).run()) {
      outcome.unjudged = wide->unjudged;
      tell_what_wider_floats_show(job, *wide, outcome);
    }
  } catch (const Error&) {
    // What these floats cannot do (memory, an op that insists on a dtype) is no statement.
  }
  return outcome;
}

Lowered lower_job(const Job& job, const Registries& registries) {
  Lowered lowered;
  if (!job.program) {
    RankProgram ranks = lower_ranks(job, registries.ops);
    for (const auto& [name, parts] : ranks.names)
      for (const NamedPart& part : parts)
        lowered.dtypes[name] = ranks.program.values[static_cast<size_t>(part.value)].dtype;
    lowered.program = std::move(ranks.program);
    return lowered;
  }
  const GlobalProgram global =
      lower_global(*job.program, context_of(job, registries.ops), "/program");
  lowered.global_lines = to_lines(global);
  for (const auto& [name, id] : global.names)
    lowered.dtypes[name] = global.values[static_cast<size_t>(id)].dtype;
  for (const GlobalInstr& instr : global.instrs)
    lowered.global_origins.push_back(instr.origin.line);
  Partitioned parts = partition(global, job, registries.ops, partition_options(job));
  lowered.program = std::move(parts.program);
  lowered.unwritten = std::move(parts.unwritten);
  return lowered;
}

}  // namespace shardproof
