#include <algorithm>

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/collector.h"
#include "shardproof/engine/count_calls.h"
#include "shardproof/engine/executor.h"
#include "shardproof/engine/explain.h"
#include "shardproof/engine/global_lowering.h"
#include "shardproof/engine/input_bounds.h"
#include "shardproof/engine/job.h"
#include "shardproof/engine/part_bounds.h"
#include "shardproof/engine/partition.h"
#include "shardproof/engine/rank_lowering.h"
#include "shardproof/engine/run_program.h"
#include "shardproof/engine/widen_job.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/split.h"

namespace shardproof {
namespace {

GlobalContext context_of(const Job& job, const OpRegistry& ops) {
  GlobalContext context;
  context.ops = &ops;
  context.numbers = job.numbers;
  context.meshes = job.meshes;
  for (const JobInput& input : job.inputs)
    context.inputs.emplace_back(input.name, TensorMeta{input.spec.dtype(), input.spec.shape()});
  return context;
}

std::string line_text(const std::vector<std::string>& lines, int line) {
  const size_t index = static_cast<size_t>(line - 1);
  return line > 0 && index < lines.size() ? lines[index] : "";
}

std::vector<Tensor> global_inputs(const Job& job) {
  std::vector<Tensor> tensors;
  for (const JobInput& input : job.inputs) tensors.push_back(input.data);
  return tensors;
}

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

void reduce_in_order(SpmdProgram& program, const ReductionSchedule& order) {
  for (SpmdListing& listing : program.listings)
    for (Instr& instr : listing.instrs)
      if (Communicate* call = std::get_if<Communicate>(&instr.action))
        for (CallItem& item : call->items) item.collective.schedule = order;
}

// Errors of kernels and of the truth are bad input found while running.
[[noreturn]] void rethrow(const Error& error, const std::string& path) {
  throw error.inside({"", path, 0, 0});
}

bool keeps(const Job& job, const std::string& name) {
  return std::count(job.keep.begin(), job.keep.end(), name) > 0;
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
                                   const Partitioned& parts) {
  CollectorOptions options;
  options.keep =
      placed_ids(global, parts, [&](const std::string& name) { return keeps(job, name); });
  if (job.compared == Compared::outputs)
    options.only = placed_ids(global, parts, [](const std::string&) { return true; });
  options.sees = job.sees;
  return options;
}

// The first wrong value in program order is told, else the first whose replicas differ.
void explain_values(const Collector& collector, const Partitioned& parts,
                    const GlobalProgram& global, const Job& job, const OpRegistry& ops,
                    Truth& truth, std::vector<Finding>& findings) {
  const auto about = [&](ValueId id) {
    const SpmdValue& value = parts.program.values[static_cast<size_t>(id)];
    return WrongValue{value.bound,           *value.spec,
                      value.origin.line,     line_text(global.lines, value.origin.line),
                      value.origin.instance, value.global};
  };
  if (!collector.differences().empty()) {
    const auto& [id, difference] = *collector.differences().begin();
    findings.push_back(explain_difference(about(id), difference, truth));
    explain_claim(about(id), global, parts, job, ops, findings.back());
  } else if (!collector.replicas().empty()) {
    const auto& [id, difference] = *collector.replicas().begin();
    findings.push_back(explain_replicas(about(id), difference));
  }
}

void add_values(const Collector& collector, const Partitioned& parts, const GlobalProgram& global,
                Outcome& outcome) {
  const std::vector<ValueInfo> known = infos(parts.program);
  for (const auto& [name, global_id] : global.names) {
    const ValueId id = parts.placed[static_cast<size_t>(global_id)];
    if (id == kNoValue) continue;
    ValueInfo info = known[static_cast<size_t>(id)];
    const LocalTensor kept = collector.kept(id);
    if (!kept.empty() && info.spec) info.value = assemble(kept, *info.spec);
    outcome.values.emplace(name, std::move(info));
  }
  for (const auto& [id, seen] : collector.seen()) outcome.seen.push_back(seen);
}

Outcome check_global(const Job& job, const Registries& registries) {
  const GlobalProgram global =
      lower_global(*job.program, context_of(job, registries.ops), "/program");
  Partitioned parts = partition(global, job, registries.ops, partition_options(job));
  reduce_in_order(parts.program, job.order);
  const int64_t cuts = std::max<int64_t>(job.world, 1);
  Truth truth(global, registries.ops, global_inputs(job), cuts, input_bounds(job),
              values_in_parts(global, parts), job.matmul);
  const CollectorOptions collecting = collector_options(job, global, parts);
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
  explain_values(*collector, parts, global, job, registries.ops, truth, outcome.findings);
  for (const Finding& finding : parts.unwritten) outcome.findings.push_back(finding);
  add_values(*collector, parts, global, outcome);
  if (job.sees) outcome.program = to_lines(parts.program);
  return outcome;
}

struct Holder {
  int32_t rank;
  const NamedPart* part;
  TensorMeta meta;
};

// The lowest of these ranks that has a value of this name: not each one that binds it does.
std::optional<Holder> lowest_holder(const RankProgram& ranks, const std::string& name,
                                    const Lanes& on) {
  std::optional<Holder> lowest;
  for (const NamedPart& part : ranks.names.at(name)) {
    const SpmdValue& value = ranks.program.values[static_cast<size_t>(part.value)];
    for (const LocalShape& shape : value.shapes) {
      const Lanes here = shape.lanes.intersect(part.lanes).intersect(on);
      if (!here.empty() && (!lowest || here[0] < lowest->rank))
        lowest = Holder{here[0], &part, {value.dtype, shape.shape}};
    }
  }
  return lowest;
}

// The declared outputs of rank programs, compared when the listings have ended.
struct OutputCheck {
  const Job& job;
  const RankProgram& ranks;
  Outcome& outcome;
  Truth* truth;

  const Mesh& mesh_of(const JobOutput& output) const {
    for (const auto& [key, mesh] : job.meshes)
      if (key == output.mesh) return mesh;
    return job.meshes.at(0).second;
  }

  // Ranks that have to hold it: those of `on`, else the mesh's.
  Lanes owners(const JobOutput& output) const {
    return output.on.empty() ? mesh_of(output).ranks() : output.on;
  }

  // As the truth has it, else as the lowest of its owners that holds something.
  TensorMeta meta_of(const JobOutput& output) const {
    if (truth) {
      const auto found = truth->program().names.find(output.name);
      if (found == truth->program().names.end())
        throw_bad_input("the truth does not bind {}", output.name);
      const GlobalValue& global = truth->program().values[static_cast<size_t>(found->second)];
      return {global.dtype, global.shape};
    }
    const Lanes on = owners(output);
    const std::optional<Holder> holder = lowest_holder(ranks, output.name, on);
    if (!holder) throw_bad_input("rank {} does not bind {}", on[0], output.name);
    return holder->meta;
  }

  Spec spec_of(const JobOutput& output) const {
    if (!ranks.names.contains(output.name)) throw_bad_input("no rank binds {}", output.name);
    const TensorMeta meta = meta_of(output);
    const Spec spec = Spec::parse(output.placements, mesh_of(output), meta.shape, meta.dtype);
    if (const std::optional<int32_t> rank = missing_part(owners(output), spec))
      throw_bad_input("{} placed as {} cannot be reduced without the part of rank {}", output.name,
                      placements_text(spec), *rank);
    return spec;
  }

  void check_shapes(const JobOutput& output, const Spec& spec, const Lanes& on) const {
    Lanes held;
    for (const NamedPart& part : ranks.names.at(output.name)) {
      const SpmdValue& value = ranks.program.values[static_cast<size_t>(part.value)];
      for (const LocalShape& shape : value.shapes) {
        const Lanes here = shape.lanes.intersect(part.lanes).intersect(on);
        held = held.unite(here);
        if (value.dtype != spec.dtype() && !here.empty())
          throw_bad_input("{} is {} on rank {}, but {} in the truth", output.name,
                          name(value.dtype), here[0], name(spec.dtype()));
        for (int64_t i = 0; i < here.size(); ++i)
          if (truth && !(spec.local_shape(here[i]) == shape.shape))
            throw_bad_input("{} has shape {} on rank {}; placed as {} it would be {} there",
                            output.name, to_string(shape.shape), here[i], placements_text(spec),
                            to_string(spec.local_shape(here[i])));
      }
    }
    const Lanes missing = on.minus(held);
    if (!missing.empty()) throw_bad_input("rank {} does not bind {}", missing[0], output.name);
  }

  // What is wrong with this output's shapes, dtype or ranks.
  std::optional<Error> misfit(const JobOutput& output) const {
    try {
      const Spec spec = spec_of(output);
      check_shapes(output, spec, owners(output));
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }

  // The earliest line that gave these ranks their value; lines of two listings are two lines.
  const NamedPart* first_part(const std::string& name, const Lanes& on) const {
    const NamedPart* first = nullptr;
    for (const NamedPart& part : ranks.names.at(name))
      if (!part.lanes.intersect(on).empty() && (!first || part.line < first->line)) first = &part;
    return first;
  }

  void place(WrongValue& about, const Lanes& wrong) const {
    const NamedPart* first = first_part(about.name, wrong);
    if (!first) return;
    about.line = first->line;
    for (const SpmdListing& listing : ranks.program.listings)
      if (!listing.lanes.intersect(first->lanes).empty())
        about.text = line_text(listing.lines, first->line);
  }

  LocalTensor gather(const JobOutput& output, const Lanes& on, const ProgramRun& run) const {
    LocalTensor value;
    for (const NamedPart& part : ranks.names.at(output.name)) {
      const Lanes here = part.lanes.intersect(on);
      const LocalTensor own = run.value(part.value);
      if (here.empty() || own.empty()) continue;
      const LocalTensor cut = own.restrict_to(here);
      value = value.empty() ? cut : value.merged_with(cut);
    }
    return value;
  }

  // What this output is to a reader who knows neither listing nor truth; nothing when a rank never
  // got there.
  std::optional<SeenValue> see(const JobOutput& output, const ProgramRun& run) const {
    const Spec spec = spec_of(output);
    const LocalTensor value = gather(output, owners(output), run);
    if (value.empty() || !value.lanes().contains(owners(output))) return std::nullopt;
    SpmdValue info;
    info.name = info.bound = output.name;
    info.dtype = spec.dtype();
    if (const NamedPart* first = first_part(output.name, value.lanes()))
      info.origin.line = first->line;
    const Bound* bound = nullptr;
    if (truth) bound = &truth->bound(truth->program().names.at(output.name));
    // Without a truth the spec has the shape of one rank's part.
    return see_value(info, truth ? std::optional(spec) : std::nullopt, value, bound);
  }

  void compare(const JobOutput& output, const ProgramRun& run, std::vector<Finding>& wrong,
               std::vector<Finding>& differing) {
    const Spec spec = spec_of(output);
    const Lanes on = owners(output);
    const LocalTensor value = gather(output, on, run);
    if (value.empty() || !value.lanes().contains(on))
      return;  // a rank never got there; the run says why
    // Without a truth the spec has the shape of one rank's part: then a cut value stays what that
    // rank has.
    if (std::optional<Tensor> whole = whole_of(value, spec);
        keeps(job, output.name) && (whole || truth))
      outcome.values[output.name].value = std::move(whole);
    WrongValue about{output.name, spec, 0, "", "", kNoValue};
    if (truth) {
      about.global = truth->program().names.at(output.name);
      ++outcome.values_compared;
      outcome.widest = std::max(outcome.widest,
                                width_of(truth->value(about.global), truth->bound(about.global)));
      if (std::optional<Difference> difference =
              compare_value(value, spec, truth->value(about.global), truth->bound(about.global))) {
        place(about, difference->ranks);
        difference->right_as =
            right_as(value, spec, truth->value(about.global), truth->bound(about.global));
        wrong.push_back(explain_difference(about, *difference, *truth));
        return;
      }
    }
    if (std::optional<ReplicaDifference> difference = compare_replicas(value, spec)) {
      place(about, difference->ranks);
      differing.push_back(explain_replicas(about, *difference));
    }
    outcome.values[output.name].spec = spec;
  }

  void compare_all(const ProgramRun& run) {
    // Only now: a rank that makes another call than the others, or none, ends with another shape,
    // and then the call is what is to be told.
    for (const JobOutput& output : job.outputs)
      if (const std::optional<Error> error = misfit(output)) rethrow(*error, output.path);
    std::vector<Finding> wrong, differing;
    for (const JobOutput& output : job.outputs) compare(output, run, wrong, differing);
    std::stable_sort(wrong.begin(), wrong.end(),
                     [](const Finding& a, const Finding& b) { return a.line < b.line; });
    for (const Finding& finding : wrong.empty() ? differing : wrong)
      outcome.findings.push_back(finding);
  }
};

void add_rank_infos(const Job& job, const RankProgram& ranks, const ProgramRun& run,
                    Outcome& outcome) {
  for (const auto& [name, parts] : ranks.names) {
    ValueInfo info;
    Lanes all;
    for (const NamedPart& part : parts) {
      const SpmdValue& value = ranks.program.values[static_cast<size_t>(part.value)];
      info.dtype = value.dtype;
      all = all.unite(part.lanes);
      for (const LocalShape& shape : value.shapes)
        if (const Lanes here = shape.lanes.intersect(part.lanes); !here.empty())
          info.shapes.push_back({here, shape.shape});
      if (parts.size() == 1) info.spec = value.spec;
    }
    // The others may have another value of this name.
    if (const auto holder = lowest_holder(ranks, name, all); holder && keeps(job, name)) {
      LocalTensor value = run.value(holder->part->value);
      if (!is_made(value)) value = {};  // the run stopped before that
      if (!info.spec && value.lanes().contains(holder->rank))
        info.value = value.of_rank(holder->rank);
      if (!value.empty() && info.spec && value.lanes().contains(info.spec->mesh().ranks()))
        info.value = assemble(value, *info.spec);
    }
    outcome.values.emplace(name, std::move(info));
  }
}

// Declared outputs as the truth's values; all other names as what each rank holds at its end.
void add_seen(const OutputCheck& outputs, const ProgramRun& run, Outcome& outcome) {
  const SpmdProgram& program = outputs.ranks.program;
  const std::vector<bool> added = values_added(program);
  for (const auto& [name, parts] : outputs.ranks.names) {
    const bool any_added = std::any_of(parts.begin(), parts.end(), [&](const NamedPart& part) {
      return added[static_cast<size_t>(part.value)];
    });
    const std::vector<JobOutput>& declared = outputs.job.outputs;
    const auto output = std::find_if(declared.begin(), declared.end(),
                                     [&name = name](const JobOutput& o) { return o.name == name; });
    if (output != declared.end() && !outputs.misfit(*output)) {
      if (std::optional<SeenValue> seen = outputs.see(*output, run)) {
        seen->added = any_added;
        outcome.seen.push_back(std::move(*seen));
        continue;
      }
    }
    for (const NamedPart& part : parts) {
      SpmdValue info = program.values[static_cast<size_t>(part.value)];
      // A value may have two names, and a name another value on other ranks.
      info.name = parts.size() == 1 ? name : fmt::format("{}@{}", name, to_string(part.lanes));
      info.bound = name;
      info.origin.line = part.line;
      const LocalTensor value = run.value(part.value);
      const LocalTensor own = value.empty() ? value : value.restrict_to(part.lanes);
      if (!is_made(own)) continue;
      outcome.seen.push_back(see_value(info, std::nullopt, own, nullptr));
      outcome.seen.back().added = any_added;
    }
  }
  std::stable_sort(outcome.seen.begin(), outcome.seen.end(),
                   [](const SeenValue& a, const SeenValue& b) { return a.line < b.line; });
}

std::vector<ValueId> watched_at_end(const Job& job, const RankProgram& ranks) {
  std::set<std::string> names(job.keep.begin(), job.keep.end());
  if (job.sees)
    for (const auto& [name, parts] : ranks.names) names.insert(name);
  for (const JobOutput& output : job.outputs) names.insert(output.name);
  std::vector<ValueId> ids;
  for (const std::string& name : names)
    if (const auto found = ranks.names.find(name); found != ranks.names.end())
      for (const NamedPart& part : found->second) ids.push_back(part.value);
  return ids;
}

// Whether some listing never came to its end.
bool stands_still(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Verdict::mismatch || finding.verdict == Verdict::deadlock ||
           finding.verdict == Verdict::missing_rank || finding.verdict == Verdict::not_a_member;
  });
}

Outcome check_ranks(const Job& job, const Registries& registries) {
  RankProgram ranks = lower_ranks(job, registries.ops);
  reduce_in_order(ranks.program, job.order);
  std::optional<GlobalProgram> global;
  std::optional<Truth> truth;
  if (job.truth) {
    global = lower_global(*job.truth, context_of(job, registries.ops), "/truth");
    truth.emplace(*global, registries.ops, global_inputs(job), std::max<int64_t>(job.world, 1),
                  input_bounds(job), std::vector<bool>(global->values.size(), true), job.matmul);
  }
  Outcome outcome;
  OutputCheck outputs{job, ranks, outcome, truth ? &*truth : nullptr};
  for (const JobOutput& output : job.outputs) {
    try {
      outputs.spec_of(output);
    } catch (const Error& error) {
      rethrow(error, output.path);
    }
  }
  try {
    ProgramRun run = run_program(ranks.program, job, registries, {{}, watched_at_end(job, ranks)},
                                 [] { return ProbeFunction{}; });
    outcome = std::move(run.outcome);
    add_rank_infos(job, ranks, run, outcome);
    if (!stands_still(outcome.findings)) outputs.compare_all(run);
    if (job.sees) add_seen(outputs, run, outcome);
    if (job.sees) outcome.program = to_lines(ranks.program);
  } catch (const Error& error) {
    rethrow(error, error.where().path.empty() ? "/ranks" : error.where().path);
  }
  return outcome;
}

}  // namespace

Outcome check(const Job& job, const Registries& registries) {
  const auto once = [&](const Job& one) {
    return one.program ? check_global(one, registries) : check_ranks(one, registries);
  };
  Outcome outcome = once(job);
  if (needs_wider_floats(job, outcome)) {
    try {
      tell_what_wider_floats_show(once(with_wider_floats(job)), outcome);
    } catch (const Error&) {
      // What these floats cannot do (memory, a dtype that a line insists on) is no statement.
    }
  }
  return outcome;
}

Lowered lower_job(const Job& job, const Registries& registries) {
  Lowered lowered;
  if (!job.program) {
    lowered.program = lower_ranks(job, registries.ops).program;
    return lowered;
  }
  const GlobalProgram global =
      lower_global(*job.program, context_of(job, registries.ops), "/program");
  lowered.global_lines = to_lines(global);
  for (const GlobalInstr& instr : global.instrs)
    lowered.global_origins.push_back(instr.origin.line);
  Partitioned parts = partition(global, job, registries.ops, partition_options(job));
  lowered.program = std::move(parts.program);
  lowered.unwritten = std::move(parts.unwritten);
  return lowered;
}

}  // namespace shardproof
