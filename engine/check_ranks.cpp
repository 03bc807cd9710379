// Rank programs: run, compared with the truth where there is one, seen.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/check_detail.h"
#include "shardproof/engine/compare.h"
#include "shardproof/engine/error_program.h"
#include "shardproof/engine/explain.h"
#include "shardproof/engine/input_bounds.h"
#include "shardproof/engine/rank_lowering.h"
#include "shardproof/engine/run_program.h"
#include "shardproof/engine/seen_value.h"
#include "shardproof/engine/truth.h"
#include "shardproof/engine/values_added.h"
#include "shardproof/localtensor/split.h"

namespace shardproof {
namespace {

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

// What is seen of names that have no truth, and what they are made of.
struct Unbounded {
  size_t seen;  // in the outcome
  std::vector<NamedPart> parts;
};

// They are followed step by step instead; where ranks stood still there is nothing to follow.
void bound_by_errors(const OutputCheck& outputs, const Registries& registries,
                     const std::vector<Unbounded>& names, Outcome& outcome) {
  if (names.empty() || stands_still(outcome.findings)) return;
  std::vector<ValueId> wanted;
  for (const Unbounded& one : names)
    for (const NamedPart& part : one.parts) wanted.push_back(part.value);
  const std::map<ValueId, LocalTensor> errors =
      errors_of_values(outputs.ranks.program, outputs.job, registries, wanted);
  if (errors.empty()) return;
  for (const Unbounded& one : names) {
    LocalTensor all;
    for (const NamedPart& part : one.parts) {
      const LocalTensor& own = errors.at(part.value);
      const LocalTensor cut = own.empty() ? own : own.restrict_to(part.lanes);
      if (!cut.empty()) all = all.empty() ? cut : all.merged_with(cut);
    }
    bound_copies(outcome.seen[one.seen], all);
  }
}

// Declared outputs as the truth's values; all other names as what each rank holds at its end.
void add_seen(const OutputCheck& outputs, const ProgramRun& run, const Registries& registries,
              Outcome& outcome) {
  const SpmdProgram& program = outputs.ranks.program;
  const std::vector<bool> added = values_added(program, registries.ops);
  std::vector<Unbounded> unbounded;
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
        if (!seen->bounded) unbounded.push_back({outcome.seen.size(), parts});
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
      unbounded.push_back({outcome.seen.size(), {part}});
      outcome.seen.push_back(see_value(info, std::nullopt, own, nullptr));
      outcome.seen.back().added = any_added;
    }
  }
  bound_by_errors(outputs, registries, unbounded, outcome);
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

}  // namespace

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
    if (job.sees) add_seen(outputs, run, registries, outcome);
    if (job.sees) outcome.program = to_lines(ranks.program);
  } catch (const Error& error) {
    rethrow(error, error.where().path.empty() ? "/ranks" : error.where().path);
  }
  return outcome;
}

}  // namespace shardproof
