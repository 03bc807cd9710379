// Implements judged_program.h for global programs. The program is partitioned once, and the value
// of every line is compared when all its ranks have made it.
#include <algorithm>

#include "shardproof/engine/compare/record_value.h"
#include "shardproof/engine/compare/reduction_provenance.h"
#include "shardproof/engine/compare/value_comparer.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/explain/cause_lines.h"
#include "shardproof/engine/explain/explain_claim.h"
#include "shardproof/engine/explain/explain_precision.h"
#include "shardproof/engine/job/recorded_value.h"
#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/engine/judging/lines_by_rule.h"
#include "shardproof/engine/partition/partition.h"
#include "shardproof/engine/reference/f64_job.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/engine/reference/round_numbers.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

// Records each compared value, then lets the judge decide.
class RecordingJudge : public Judge {
 public:
  RecordingJudge(Judge& judge, const Partitioned& parts, const OpRegistry& ops)
      : judge_(judge), parts_(parts), added_(values_reduced_over_ranks(parts.program, ops)) {}
  void restart() override {
    values_.clear();
    judge_.restart();
  }
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override {
    const ValueId id = parts_.placed[static_cast<size_t>(value.global)];
    RecordedValue& recorded = values_[id] =
        record_value(parts_.program.values[static_cast<size_t>(id)], value.spec, value.value);
    recorded.added = added_[static_cast<size_t>(id)];
    return judge_.judge(value, reference);
  }
  Tensor held(const ComparedValue& value, const ReferenceRun& reference) override {
    return judge_.held(value, reference);
  }
  void was_held(const std::vector<ValueId>& ids) override { judge_.was_held(ids); }
  const std::map<ValueId, RecordedValue>& values() const { return values_; }

 private:
  Judge& judge_;
  const Partitioned& parts_;
  std::vector<bool> added_;
  std::map<ValueId, RecordedValue> values_;
};

// The results of lines by rule live until the run in f64. If they are larger, all lines run there.
constexpr int64_t kMostResultBytes = int64_t{256} << 20;

class JudgedGlobal : public JudgedProgram {
 public:
  JudgedGlobal(Job job, std::vector<LocalTensor> inputs, GlobalProgram program, Partitioned parts,
               const Registries& registries)
      : JudgedProgram(std::move(job), std::move(inputs), registries),
        global_(std::move(program)),
        plan_(global_, registries.ops),
        parts_(std::move(parts)) {
    reduce_in_order(parts_.program, job_.order);
  }

  std::unique_ptr<JudgedProgram> simulated() const override {
    return make_judged_global(on_simulated_ranks(job_), inputs_, global_, registries_);
  }
  std::unique_ptr<JudgedProgram> lifted() const override { return lifted_from(global_, parts_); }
  std::unique_ptr<JudgedProgram> lifted_with_rounded_numbers() const override {
    GlobalProgram program = global_;
    Partitioned parts = parts_;
    const bool changed = round_numbers(program);
    if (!round_numbers(parts.program) && !changed) return nullptr;
    return lifted_from(std::move(program), std::move(parts));
  }
  std::unique_ptr<JudgedProgram> lifted_without_lines_by_rule(
      const std::map<ValueId, LocalTensor>& results,
      const std::set<std::string>& equal) const override;
  bool is_input_of_other_lines(size_t input) const override {
    return lines_by_rule().is_read_by_others(global_.inputs[input]);
  }
  const EvaluationPlan* reference() const override { return &plan_; }
  bool ranks_move() const override { return false; }
  bool has_dtype(const std::function<bool(DType)>& matches) const override {
    return std::any_of(global_.values.begin(), global_.values.end(),
                       [&](const GlobalValue& value) { return matches(value.dtype); });
  }

  Outcome run(Judge& judge, const JudgedRun& options) const override;
  void explain(const ComparedValue& value, Finding& finding) const override;
  std::string cause_of(const MeasuredPrecision& measured) const override {
    const ValueId id = parts_.placed[static_cast<size_t>(measured.global)];
    if (is_out_of_range(measured))
      if (RangeCause cause = range_cause_in(parts_.program, {id}); !cause.text.empty())
        return cause.text;
    const std::vector<NarrowStep> steps = imprecision_candidates(measured, parts_.program, {id});
    return precision_cause(measured, parts_.program, {id}, steps.empty() ? "" : steps[0].text);
  }

 private:
  // A partition of the program in f64 may choose other placements, because it weighs bytes.
  std::unique_ptr<JudgedProgram> lifted_from(GlobalProgram program, Partitioned parts) const {
    widen_floats(program, registries_.ops);
    widen_floats(parts.program, registries_.ops);
    parts.placed.resize(program.values.size(), kNoValue);
    Job job = with_wider_floats(job_);
    std::vector<LocalTensor> inputs = lifted_inputs(job);
    return std::make_unique<JudgedGlobal>(std::move(job), std::move(inputs), std::move(program),
                                          std::move(parts), registries_);
  }
  const LinesByRule& lines_by_rule() const;
  int64_t bytes_of(const std::vector<ValueId>& ids) const;
  std::vector<ValueId> compared_values() const;
  std::set<ValueId> kept_values() const;
  std::set<ValueId> named_values() const;
  void add_values(const ValueComparer& comparer, Outcome& outcome) const;

  GlobalProgram global_;
  EvaluationPlan plan_;
  Partitioned parts_;
  mutable std::optional<LinesByRule> lines_by_rule_;
};

const LinesByRule& JudgedGlobal::lines_by_rule() const {
  if (!lines_by_rule_) lines_by_rule_.emplace(global_, parts_);
  return *lines_by_rule_;
}

// Returns the bytes of values, each on one device.
int64_t JudgedGlobal::bytes_of(const std::vector<ValueId>& ids) const {
  int64_t bytes = 0;
  for (const ValueId id : ids) {
    const GlobalValue& value = global_.values[static_cast<size_t>(id)];
    bytes += element_count(value.shape) * size_of(value.dtype);
  }
  return bytes;
}

std::unique_ptr<JudgedProgram> JudgedGlobal::lifted_without_lines_by_rule(
    const std::map<ValueId, LocalTensor>& results, const std::set<std::string>& equal) const {
  const LinesByRule& lines = lines_by_rule();
  const auto is_known = [&](ValueId id) { return results.contains(id); };
  if (lines.made().empty() ||
      !std::all_of(lines.read_by_others().begin(), lines.read_by_others().end(), is_known) ||
      !std::all_of(lines.made().begin(), lines.made().end(),
                   [&](ValueId id) { return equal.contains(key_of_global_value(id)); }))
    return nullptr;
  GlobalProgram program = global_;
  Partitioned parts = parts_;
  Job job = job_;
  job.inputs.clear();
  std::vector<LocalTensor> inputs;
  for (const size_t i : lines.remove_from(program, parts)) {
    job.inputs.push_back(job_.inputs[i]);
    inputs.push_back(inputs_[i]);
  }
  for (const ValueId id : lines.read_by_others()) {
    const SpmdValue& value =
        parts.program.values[static_cast<size_t>(parts.placed[static_cast<size_t>(id)])];
    const LocalTensor& held = results.at(id);
    job.inputs.push_back({value.name, *value.spec, value.spec->mesh().ranks(),
                          assemble(held, *value.spec), value.category});
    inputs.push_back(held);
  }
  const JudgedGlobal others(std::move(job), std::move(inputs), std::move(program), std::move(parts),
                            registries_);
  return others.lifted();
}

// Returns the values that names have at the end, if they are placed.
std::set<ValueId> JudgedGlobal::named_values() const {
  std::set<ValueId> ids;
  for (const auto& [name, id] : global_.names)
    if (const ValueId placed = parts_.placed[static_cast<size_t>(id)]; placed != kNoValue)
      ids.insert(placed);
  return ids;
}

std::vector<ValueId> JudgedGlobal::compared_values() const {
  std::set<ValueId> skipped(parts_.program.inputs.begin(), parts_.program.inputs.end());
  const std::set<ValueId> named = named_values();
  std::vector<ValueId> ids;
  for (size_t i = 0; i < parts_.program.values.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    const SpmdValue& value = parts_.program.values[i];
    if (value.global == kNoValue || !value.spec || skipped.contains(id)) continue;
    if (job_.compared == CompareScope::outputs && !named.contains(id)) continue;
    ids.push_back(id);
  }
  std::stable_sort(ids.begin(), ids.end(), [&](ValueId a, ValueId b) {
    const auto maker = [&](ValueId id) {
      return plan_.maker(parts_.program.values[static_cast<size_t>(id)].global);
    };
    return maker(a) < maker(b);
  });
  return ids;
}

std::set<ValueId> JudgedGlobal::kept_values() const {
  std::set<ValueId> ids;
  for (const auto& [name, id] : global_.names)
    if (const ValueId placed = parts_.placed[static_cast<size_t>(id)];
        placed != kNoValue && is_kept_by_job(job_, name))
      ids.insert(placed);
  return ids;
}

void JudgedGlobal::add_values(const ValueComparer& comparer, Outcome& outcome) const {
  for (const auto& [name, global] : global_.names) {
    const ValueId id = parts_.placed[static_cast<size_t>(global)];
    if (id == kNoValue) continue;
    const SpmdValue& value = parts_.program.values[static_cast<size_t>(id)];
    ValueInfo info{value.dtype, value.shapes, value.spec, {}};
    const LocalTensor kept = is_kept_by_job(job_, name) ? comparer.kept(id) : LocalTensor();
    if (!kept.empty() && info.spec) info.value = assemble(kept, *info.spec);
    if (!kept.empty() && info.spec && info.spec->has_partial()) info.copies = stored_parts(kept);
    // A value that no instruction has made is an input of the scenario.
    const std::vector<ValueId>& inputs = parts_.program.inputs;
    const auto input = std::find(inputs.begin(), inputs.end(), id);
    if (input != inputs.end() && is_kept_by_job(job_, name)) {
      const size_t at = static_cast<size_t>(input - inputs.begin());
      info.value = job_.inputs[at].data;
      if (info.spec && info.spec->has_partial()) info.copies = stored_parts(inputs_[at]);
    }
    outcome.values.emplace(name, std::move(info));
  }
}

Outcome JudgedGlobal::run(Judge& judge, const JudgedRun& options) const {
  const bool calls_are_exact =
      job_.backend == "local" && job_.device == nullptr && job_.faults.empty();
  ValueComparer::Options comparing{compared_values(), kept_values(), options.integers,
                                   calls_are_exact};
  std::map<ValueId, ValueId> results;  // of lines by rule; the ranks' value of each
  if (options.results_by_rule != nullptr && job_.compared == CompareScope::lines &&
      bytes_of(lines_by_rule().read_by_others()) <= kMostResultBytes)
    for (const ValueId id : lines_by_rule().read_by_others())
      comparing.kept.insert(results[id] = parts_.placed[static_cast<size_t>(id)]);
  std::vector<bool> wanted(global_.values.size(), false);
  for (const ValueId id : comparing.compared)
    wanted[static_cast<size_t>(parts_.program.values[static_cast<size_t>(id)].global)] = true;
  std::optional<RecordingJudge> recording;
  if (options.reports && job_.records_values) recording.emplace(judge, parts_, registries_.ops);
  Judge& target = recording ? *recording : judge;
  std::optional<ReferenceRun> reference;
  std::optional<ValueComparer> comparer;
  // Made again for each attempt of the run.
  const auto probe = [&]() -> ProbeFunction {
    target.restart();
    comparer.reset();
    reference.emplace(plan_, reference_inputs(), wanted, options.keeps_all);
    comparer.emplace(parts_.program, global_.lines, comparing, *reference, target);
    return [&](ValueId id, const LocalTensor& value) { comparer->made(id, value); };
  };
  Outcome outcome;
  try {
    const ValueFilter watched{[&](ValueId id) { return comparer->compares(id); }, {}};
    outcome = run_program(parts_.program, job_, registries_, watched, probe, &inputs_).outcome;
    comparer->finish();
  } catch (const Error& error) {
    rethrow(error, "/program");
  }
  for (const auto& [global, id] : results)
    if (LocalTensor kept = comparer->kept(id); !kept.empty())
      options.results_by_rule->emplace(global, std::move(kept));
  if (!options.reports) return outcome;
  for (const Finding& finding : parts_.unwritten) outcome.findings.push_back(finding);
  add_values(*comparer, outcome);
  if (recording)
    for (const auto& [id, value] : recording->values()) outcome.recorded.push_back(value);
  if (job_.records_values) outcome.program = to_lines(parts_.program);
  return outcome;
}

void JudgedGlobal::explain(const ComparedValue& value, Finding& finding) const {
  const auto maker =
      std::find_if(global_.instrs.begin(), global_.instrs.end(), [&](const GlobalInstr& instr) {
        return std::count(instr.outputs.begin(), instr.outputs.end(), value.global) > 0;
      });
  if (maker != global_.instrs.end() && maker->kind == GlobalKind::claim && maker->dual) {
    // The author declared nothing here: the placements are those of the gradient of a line.
    finding.fix.clear();
    remove_causes(finding);
    return;
  }
  explain_claim({value.label, value.spec, value.global}, global_, parts_, job_, registries_.ops,
                finding);
}

}  // namespace

std::unique_ptr<JudgedProgram> make_judged_global(Job job, std::vector<LocalTensor> inputs,
                                                  GlobalProgram program,
                                                  const Registries& registries) {
  Partitioned parts = partition(program, job, registries.ops, partition_options(job));
  return std::make_unique<JudgedGlobal>(std::move(job), std::move(inputs), std::move(program),
                                        std::move(parts), registries);
}

}  // namespace shardproof
