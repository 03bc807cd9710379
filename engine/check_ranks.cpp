// Rank programs: run, compared with the truth where there is one, seen.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/check_detail.h"
#include "shardproof/engine/compare.h"
#include "shardproof/engine/compare/observe_values.h"
#include "shardproof/engine/error_program.h"
#include "shardproof/engine/explain.h"
#include "shardproof/engine/held_value.h"
#include "shardproof/engine/input_bounds.h"
#include "shardproof/engine/rank_outputs.h"
#include "shardproof/engine/run_program.h"
#include "shardproof/engine/seen_value.h"
#include "shardproof/engine/step_errors.h"
#include "shardproof/engine/truth.h"
#include "shardproof/engine/values_added.h"
#include "shardproof/engine/widen_program.h"
#include "shardproof/localtensor/split.h"

namespace shardproof {
namespace {

// What the steps of ranks may have lost by the end, followed when somebody first asks.
class StepErrors {
 public:
  StepErrors(const Job& job, const RankProgram& ranks, const Registries& registries)
      : job_(job), ranks_(ranks), registries_(registries) {}

  // Of these parts of a name; empty where nobody can say.
  LocalTensor of(const std::vector<NamedPart>& parts, const Lanes& on) {
    follow();
    return gather(parts, on, [this](ValueId id) {
      const auto found = errors_->find(id);
      return found == errors_->end() ? LocalTensor() : found->second;
    });
  }

 private:
  void follow() {
    if (errors_) return;
    std::vector<ValueId> wanted;
    for (const auto& [name, parts] : ranks_.names)
      for (const NamedPart& part : parts) wanted.push_back(part.value);
    errors_ = errors_of_values(ranks_.program, job_, registries_, wanted);
  }

  const Job& job_;
  const RankProgram& ranks_;
  const Registries& registries_;
  std::optional<std::map<ValueId, LocalTensor>> errors_;
};

// The declared outputs of rank programs, compared when the listings have ended.
struct OutputCheck {
  const Job& job;
  const RankOutputs& outputs;
  StepErrors& steps;
  Outcome& outcome;
  Truth* truth;
  JobPass& pass;

  const std::vector<NamedPart>& parts_of(const std::string& name) const {
    return outputs.ranks.names.at(name);
  }

  void place(WrongValue& about, const Lanes& wrong) const {
    const NamedPart* first = outputs.first_part(about.name, wrong);
    if (!first) return;
    about.line = first->line;
    for (const SpmdListing& listing : outputs.ranks.program.listings)
      if (!listing.lanes.intersect(first->lanes).empty())
        about.text = line_text(listing.lines, first->line);
  }

  // Nothing when a rank never got there.
  LocalTensor value_of(const JobOutput& output, const ProgramRun& run) const {
    const Lanes on = outputs.owners(output);
    LocalTensor value =
        gather(parts_of(output.name), on, [&](ValueId id) { return run.value(id); });
    return value.lanes().contains(on) ? value : LocalTensor();
  }

  std::optional<std::vector<double>> steps_of(const JobOutput& output, const Spec& spec) {
    return errors_of_whole(steps.of(parts_of(output.name), outputs.owners(output)), spec);
  }

  // What the ranks' steps allow beside the truth's own bound.
  std::optional<Bound> bound_with_steps(const WrongValue& about, const JobOutput& output,
                                        const std::vector<double>& held) {
    std::optional<std::vector<double>> lost = steps_of(output, about.spec);
    if (!lost) return std::nullopt;
    // Nobody asks further: steps of which nothing is known explain nothing.
    for (double& error : *lost)
      if (pass.written && !std::isfinite(error)) error = 0;
    return with_step_errors(truth->bound(about.global), truth->value(about.global), *lost, held);
  }

  // The ranks' steps are followed where they must explain something; whether they do so rightly,
  // wider floats tell. What is too wide then is measured.
  std::optional<Difference> difference_of(const WrongValue& about, const JobOutput& output,
                                          const LocalTensor& value, std::string& remark) {
    const Tensor& expected = truth->value(about.global);
    Bound allowed = truth->bound(about.global);
    double width = width_of(expected, allowed);
    const auto compared = [&] { return compare_value(value, about.spec, expected, allowed); };
    std::optional<Difference> difference = compared();
    if (difference)
      if (std::optional<Bound> bound = bound_with_steps(about, output, difference->got_all)) {
        allowed = std::move(*bound);
        difference = compared();
        if (!difference)
          width =
              pass.written ? width_of(expected, allowed) : std::numeric_limits<double>::infinity();
      }
    outcome.widest = std::max(outcome.widest, width);
    const auto moved = pass.movements.find(about.global);
    if (!difference && moved != pass.movements.end() && width > kWideInF64) {
      allowed = measured_bound(allowed, expected, moved->second);
      difference = compared();
      if (difference) remark = words_of_movement(moved->second);
    }
    if (difference)
      difference->right_as = right_as(value, about.spec, expected,
                                      remark.empty() ? truth->bound(about.global) : allowed);
    else if (!judges(expected, allowed) &&
             compare_value(value, about.spec, expected, Bound::exact_of(expected)))
      outcome.unjudged.push_back(output.name);
    return difference;
  }

  // Whether the truth says something of each element, so that replicas may differ by rounding.
  bool is_covered(ValueId global) {
    if (!truth) return false;
    const Bound& bound = truth->bound(global);
    return std::all_of(bound.error.begin(), bound.error.end(),
                       [](double error) { return std::isfinite(error); });
  }

  void compare(const JobOutput& output, const ProgramRun& run, std::vector<Finding>& wrong,
               std::vector<Finding>& differing) {
    WrongValue about{output.name, outputs.spec_of(output), 0, "", "", kNoValue};
    const LocalTensor value = value_of(output, run);
    if (value.empty()) return;  // a rank never got there; the run says why
    if (keeps(job, output.name)) {
      ValueInfo& info = outcome.values[output.name];
      info.copies.clear();
      keep_value(value, about.spec, info);
    }
    if (truth) about.global = truth->program().names.at(output.name);
    if (truth && !pass.granted.contains(about.global)) {
      ++outcome.values_compared;
      pass.see(about.global, value, about.spec, truth->value(about.global));
      if (pass.sees_only) return;
      std::string remark;
      if (const std::optional<Difference> difference =
              difference_of(about, output, value, remark)) {
        place(about, difference->ranks);
        pass.see_wrong(about, *difference, truth->value(about.global));
        wrong.push_back(explain_difference(about, *difference, *truth));
        if (!remark.empty()) wrong.back().details.push_back(std::move(remark));
        return;
      }
    }
    outcome.values[output.name].spec = about.spec;
    if (is_covered(about.global)) return;
    if (std::optional<ReplicaDifference> difference = compare_replicas(value, about.spec)) {
      place(about, difference->ranks);
      differing.push_back(explain_replicas(about, *difference));
    }
  }

  void compare_all(const ProgramRun& run) {
    // Only now: a rank that makes another call than the others, or none, ends with another shape,
    // and then the call is what is to be told.
    for (const JobOutput& output : job.outputs)
      if (const std::optional<Error> error = outputs.misfit(output)) rethrow(*error, output.path);
    std::vector<Finding> wrong, differing;
    for (const JobOutput& output : job.outputs) compare(output, run, wrong, differing);
    std::stable_sort(wrong.begin(), wrong.end(),
                     [](const Finding& a, const Finding& b) { return a.line < b.line; });
    for (const Finding& finding : wrong.empty() ? differing : wrong)
      outcome.findings.push_back(finding);
  }
};

// What a name is known to be placed as: not where parts of a sum may have been reduced in place.
std::optional<Spec> known_spec(const SpmdProgram& program, const std::vector<NamedPart>& parts,
                               const std::vector<bool>& written) {
  if (parts.size() != 1) return std::nullopt;
  const auto id = static_cast<size_t>(parts.front().value);
  const std::optional<Spec>& spec = program.values[id].spec;
  return spec && spec->has_partial() && written[id] ? std::nullopt : spec;
}

void add_rank_infos(const Job& job, const RankProgram& ranks, const OpRegistry& ops,
                    const ProgramRun& run, Outcome& outcome) {
  const std::vector<bool> written = values_written(ranks.program, ops);
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
    }
    info.spec = known_spec(ranks.program, parts, written);
    if (keeps(job, name))
      for (const NamedPart& part : parts) {
        const LocalTensor own = run.value(part.value);
        if (!own.empty()) keep_value(own.restrict_to(part.lanes), info.spec, info);
      }
    outcome.values.emplace(name, std::move(info));
  }
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

Outcome check_ranks(const Job& job, const Registries& registries, JobPass& pass) {
  RankProgram ranks = lower_ranks(pass.written ? *pass.written : job, registries.ops);
  if (pass.written) widen_floats(ranks.program, registries.ops);
  reduce_in_order(ranks.program, job.order);
  std::optional<GlobalProgram> global;
  std::optional<Truth> truth;
  if (job.truth) {
    global = lower_global(job, pass, *job.truth, registries.ops, "/truth");
    truth.emplace(*global, registries.ops, global_inputs(job), std::max<int64_t>(job.world, 1),
                  input_bounds(job),
                  ValuesInParts{std::vector<bool>(global->values.size(), true), {}}, job.matmul);
  }
  Outcome outcome;
  const RankOutputs outputs{job, ranks, global ? &*global : nullptr};
  StepErrors steps(job, ranks, registries);
  OutputCheck check{job, outputs, steps, outcome, truth ? &*truth : nullptr, pass};
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
    add_rank_infos(job, ranks, registries.ops, run, outcome);
    if (!stands_still(outcome.findings)) check.compare_all(run);
    if (job.sees) outcome.seen = values_at_end(outputs, run, registries.ops);
    if (job.sees) outcome.program = to_lines(ranks.program);
  } catch (const Error& error) {
    rethrow(error, error.where().path.empty() ? "/ranks" : error.where().path);
  }
  return outcome;
}

}  // namespace shardproof
