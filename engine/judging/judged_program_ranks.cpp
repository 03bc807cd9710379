// Implements judged_program.h for rank programs. Outputs and the values of lines check(..) are
// compared when the listings have ended, in the order in which the truth makes them.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shardproof/engine/compare/output_value.h"
#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/engine/compare/rank_checks.h"
#include "shardproof/engine/compare/rank_outputs.h"
#include "shardproof/engine/compare/record_value.h"
#include "shardproof/engine/compare/reduction_provenance.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/call_lines.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/explain/cause_lines.h"
#include "shardproof/engine/explain/edit_ranks.h"
#include "shardproof/engine/explain/explain.h"
#include "shardproof/engine/explain/losing_step.h"
#include "shardproof/engine/explain/range_cause.h"
#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/engine/judging/observe_values.h"
#include "shardproof/engine/judging/unreached_checks.h"
#include "shardproof/engine/lower/place_check.h"
#include "shardproof/engine/races/check_slots.h"
#include "shardproof/engine/races/compare_schedules.h"
#include "shardproof/engine/reference/f64_job.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/engine/reference/round_numbers.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {
namespace {

// Returns the key of the value of a check, which is no name.
std::string key_of_checked(const CheckedValue& value) {
  return fmt::format("check {} of {}", value.number, value.entries.front().first->name);
}

// Returns the spec of a name if it is certain. It is uncertain if a sum may have been reduced in
// place.
std::optional<Spec> known_spec(const SpmdProgram& program, const std::vector<NamedPart>& parts,
                               const std::vector<bool>& written) {
  if (parts.size() != 1) return std::nullopt;
  const auto id = static_cast<size_t>(parts.front().value);
  const std::optional<Spec>& spec = program.values[id].spec;
  return spec && spec->has_partial() && written[id] ? std::nullopt : spec;
}

bool reduces_in_order(const SpmdProgram& program, const ReductionSchedule& order) {
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs)
      if (const Communicate* call = std::get_if<Communicate>(&instr.action))
        for (const CallItem& item : call->items)
          if (!(item.collective.schedule == order)) return false;
  return true;
}

// Returns the program with all collectives reducing in this order; the program itself if they
// already do.
std::shared_ptr<const RankProgram> in_order(std::shared_ptr<const RankProgram> program,
                                            const ReductionSchedule& order) {
  if (reduces_in_order(program->program, order)) return program;
  auto ordered = std::make_shared<RankProgram>(*program);
  reduce_in_order(ordered->program, order);
  return ordered;
}

class JudgedRanks : public JudgedProgram {
 public:
  JudgedRanks(Job job, std::vector<LocalTensor> inputs, std::shared_ptr<const RankProgram> program,
              std::optional<GlobalProgram> truth, const Registries& registries)
      : JudgedProgram(std::move(job), std::move(inputs), registries),
        ranks_(in_order(std::move(program), job_.order)),
        truth_(std::move(truth)),
        dtypes_(dtypes_of(job_)),
        outputs_{job_, *ranks_, truth_ ? &*truth_ : nullptr} {
    if (truth_) plan_.emplace(*truth_, registries.ops);
    for (const JobOutput& output : job_.outputs) {
      try {
        outputs_.spec_of(output);
      } catch (const Error& error) {
        rethrow(error, output.path);
      }
      if (std::optional<Finding> finding = outputs_.misfit(output))
        misfits_.emplace(output.name, std::move(*finding));
    }
  }

  std::unique_ptr<JudgedProgram> simulated() const override {
    return make_judged_ranks(on_simulated_ranks(job_), inputs_, ranks_, truth_, registries_);
  }
  std::unique_ptr<JudgedProgram> lifted() const override {
    return lifted_from(std::make_shared<RankProgram>(*ranks_), truth_);
  }
  std::unique_ptr<JudgedProgram> lifted_with_rounded_numbers() const override {
    auto ranks = std::make_shared<RankProgram>(*ranks_);
    std::optional<GlobalProgram> truth = truth_;
    const bool changed = round_numbers(ranks->program);
    if (!(truth && round_numbers(*truth)) && !changed) return nullptr;
    return lifted_from(std::move(ranks), std::move(truth));
  }
  const EvaluationPlan* reference() const override { return plan_ ? &*plan_ : nullptr; }
  bool ranks_move() const override { return true; }
  bool has_dtype(const std::function<bool(DType)>& matches) const override {
    const auto has = [&](const auto& value) { return matches(value.dtype); };
    const auto& values = ranks_->program.values;
    return std::any_of(values.begin(), values.end(), has) ||
           (truth_ && std::any_of(truth_->values.begin(), truth_->values.end(), has));
  }

  Outcome run(Judge& judge, const JudgedRun& options) const override;
  void explain(const ComparedValue&, Finding& finding) const override { causes_to_hints(finding); }
  std::optional<RankCase> rank_case(const RecordedIntegers* replaced) const override;
  std::string cause_of(const MeasuredPrecision& measured) const override;
  RangeCause range_cause_of(const std::string& key) const override;

 private:
  std::unique_ptr<JudgedProgram> lifted_from(std::shared_ptr<RankProgram> ranks,
                                             std::optional<GlobalProgram> truth) const {
    widen_floats(ranks->program, registries_.ops);
    if (truth) widen_floats(*truth, registries_.ops);
    Job job = with_wider_floats(job_);
    std::vector<LocalTensor> inputs = lifted_inputs(job);
    auto lifted = std::make_unique<JudgedRanks>(std::move(job), std::move(inputs), std::move(ranks),
                                                std::move(truth), registries_);
    lifted->dtypes_ = dtypes_;
    return lifted;
  }
  std::string step_that_loses(const std::vector<NarrowStep>& steps, const std::string& key) const;
  std::vector<ValueId> parts_of(const std::string& key) const;
  LocalTensor parts_on(const std::string& name, const Lanes& on, const ProgramRun& run) const;
  LocalTensor value_of(const JobOutput& output, const ProgramRun& run) const;
  ValueLabel label_of(const JobOutput& output, const Lanes& ranks) const;
  std::vector<ComparedValue> outputs_of(const ProgramRun& run) const;
  ComparedValue checked(const CheckedValue& value) const;
  void judge_all(std::vector<ComparedValue> values, Judge& judge, const JudgedRun& options) const;
  bool probes_all(const JudgedRun& options) const;
  ProbeFunction probe_of_all(const JudgedRun& options) const;
  void compare_replicas_of_outputs(const ProgramRun& run, Outcome& outcome) const;
  std::string misfit_before(const JobOutput& output) const;
  void add_misfits(const ProgramRun& run, Outcome& outcome) const;
  void correct_placements(const JobOutput& output, const ProgramRun& run, Finding& finding) const;
  bool correct_ranks(const JobOutput& output, Finding& finding) const;
  void add_races(Outcome& outcome) const;
  void note_absent_shards(Outcome& outcome) const;
  void add_first_divergence(Outcome& outcome) const;
  void add_infos(const ProgramRun& run, Outcome& outcome) const;
  void add_outputs(const ProgramRun& run, Outcome& outcome) const;
  std::vector<ValueId> watched_at_end() const;
  SpmdProgram with_separate_calls() const;

  std::shared_ptr<const RankProgram> ranks_;
  std::optional<GlobalProgram> truth_;
  std::optional<EvaluationPlan> plan_;
  OwnDtypes dtypes_;  // of the job before its floats were lifted
  RankOutputs outputs_;
  std::map<std::string, Finding> misfits_;  // by output: its parts do not fit its spec
};

// Returns the parts of a name on these ranks; empty if their dtypes differ.
LocalTensor JudgedRanks::parts_on(const std::string& name, const Lanes& on,
                                  const ProgramRun& run) const {
  const std::vector<Holder> held = holders(*ranks_, name, on);
  if (std::any_of(held.begin(), held.end(), [&](const Holder& holder) {
        return holder.meta.dtype != held.front().meta.dtype;
      }))
    return {};
  return gather(ranks_->names.at(name), on, [&](ValueId id) { return run.value(id); });
}

// Returns the value of an output; empty if a rank did not reach it, or if the dtypes of the parts
// differ.
LocalTensor JudgedRanks::value_of(const JobOutput& output, const ProgramRun& run) const {
  const Lanes on = outputs_.owners(output);
  LocalTensor value = parts_on(output.name, on, run);
  return value.lanes().contains(on) ? value : LocalTensor();
}

ValueLabel JudgedRanks::label_of(const JobOutput& output, const Lanes& ranks) const {
  ValueLabel label{output.name, 0, "", ""};
  const NamedPart* first = outputs_.first_part(output.name, ranks);
  // If these ranks bind the name on no line, the label has the line of another rank.
  for (const NamedPart& part : ranks_->names.at(output.name))
    if (first != nullptr && first->line == 0 && part.line > 0) first = &part;
  if (first == nullptr) return label;
  label.line = first->line;
  label.instance = first->instance;
  for (const SpmdListing& listing : ranks_->program.listings)
    if (!listing.lanes.intersect(first->lanes).empty())
      label.text = line_text(listing.lines, first->line);
  return label;
}

std::vector<ComparedValue> JudgedRanks::outputs_of(const ProgramRun& run) const {
  std::vector<ComparedValue> values;
  for (const JobOutput& output : job_.outputs) {
    if (misfits_.contains(output.name) || !misfit_before(output).empty()) continue;
    LocalTensor held = value_of(output, run);
    if (held.empty()) continue;  // a rank did not reach the line; the run reports why
    const ValueLabel label = label_of(output, held.lanes());
    values.push_back({truth_->names.at(output.name), output.name, outputs_.spec_of(output),
                      std::move(held), label,
                      [this, &output](const Lanes& ranks) { return label_of(output, ranks); }});
  }
  return values;
}

ComparedValue JudgedRanks::checked(const CheckedValue& value) const {
  CheckedValue entries = value;
  entries.parts = {};
  const ValueLabel label = shardproof::label_of(value, ranks_->program, value.owners);
  return {truth_->names.at(label.name),
          key_of_checked(value),
          value.spec,
          value.parts,
          label,
          [this, entries](const Lanes& ranks) {
            return shardproof::label_of(entries, ranks_->program, ranks);
          }};
}

// Judges values in the order of the truth, so that each value is judged on what the ranks hold of
// those before it. If ranks compare a name several times, later lines of the truth read their first
// value: from that one they computed what they compared in between.
void JudgedRanks::judge_all(std::vector<ComparedValue> values, Judge& judge,
                            const JudgedRun& options) const {
  std::stable_sort(values.begin(), values.end(),
                   [&](const ComparedValue& a, const ComparedValue& b) {
                     return plan_->maker(a.global) < plan_->maker(b.global);
                   });
  judge.restart();
  std::vector<bool> wanted(truth_->values.size(), false);
  for (const ComparedValue& value : values) wanted[static_cast<size_t>(value.global)] = true;
  const bool keeps_all = options.keeps_all || options.records != nullptr;
  ReferenceRun reference(*plan_, reference_inputs(), wanted, keeps_all);
  if (options.replaces != nullptr)
    for (const auto& [id, value] : options.replaces->of_truth) reference.hold(id, value);
  std::map<ValueId, Lanes> compared;  // the ranks of a value's comparisons
  for (const ComparedValue& value : values) {
    try {
      judge.judge(value, reference);
      Lanes& ranks = compared[value.global];
      const bool is_again = !ranks.intersect(value.value.lanes()).empty();
      ranks = ranks.unite(value.value.lanes());
      if (is_again) continue;
      judge.was_held(reference.hold(value.global, judge.held(value, reference)));
    } catch (const Error& error) {
      rethrow(error, "/truth");
    }
  }
  if (options.records == nullptr) return;
  // Compared values are those of the ranks by now.
  std::vector<bool> wanted_integers = integers_from_floats(*truth_);
  for (size_t id = 0; id < wanted.size(); ++id)
    wanted_integers[id] = wanted_integers[id] && !wanted[id];
  for (size_t id = 0; id < wanted_integers.size(); ++id)
    if (const Tensor* made =
            wanted_integers[id] ? reference.find(static_cast<ValueId>(id)) : nullptr)
      options.records->of_truth[static_cast<ValueId>(id)] = *made;
}

// True if run() must be given every value that ranks make.
bool JudgedRanks::probes_all(const JudgedRun& options) const {
  return options.records != nullptr || options.replaces != nullptr || !rounds_to_nearest();
}

// Returns a probe that records or replaces the whole numbers that ranks compute from floats. If the
// run rounds in another direction, the probe also restores overflows. Null if the run needs none of
// this.
ProbeFunction JudgedRanks::probe_of_all(const JudgedRun& options) const {
  if (!probes_all(options)) return {};
  if (options.records != nullptr) options.records->of_ranks.clear();
  return [wanted = integers_from_floats(ranks_->program), options](ValueId id,
                                                                   const LocalTensor& value) {
    for (const Block& block : value.blocks()) {
      Tensor tensor = block.tensor;
      restore_overflows(tensor);
    }
    if (!wanted[static_cast<size_t>(id)]) return;
    if (options.records != nullptr) record_integers(id, value, *options.records);
    if (options.replaces != nullptr) replace_integers(id, value, *options.replaces);
  };
}

// Returns the name of another output from which the truth computes this one and whose parts do not
// fit, or "". Results of one line are not computed from each other. No value can then be the
// reference of this output.
std::string JudgedRanks::misfit_before(const JobOutput& output) const {
  if (!truth_ || misfits_.empty()) return "";
  const int own = plan_->maker(truth_->names.at(output.name));
  const std::vector<int> needed = plan_->needed(
      {truth_->names.at(output.name)}, [this](ValueId id) { return plan_->maker(id) < 0; });
  for (const auto& [name, finding] : misfits_) {
    const int maker = plan_->maker(truth_->names.at(name));
    if (maker >= 0 && maker != own &&
        std::find(needed.begin(), needed.end(), maker) != needed.end())
      return name;
  }
  return "";
}

// If the ranks hold the right values under other placements, the entry is wrong and no call is.
void JudgedRanks::correct_placements(const JobOutput& output, const ProgramRun& run,
                                     Finding& finding) const {
  const LocalTensor value = value_of(output, run);
  if (!truth_ || value.empty() || !has_all_contents(value)) return;
  std::vector<bool> wanted(truth_->values.size(), false);
  const ValueId id = truth_->names.at(output.name);
  wanted[static_cast<size_t>(id)] = true;
  try {
    ReferenceRun reference(*plan_, reference_inputs(), wanted, false);
    const Tensor& held = reference.value(id);
    const Tensor expected = held.contiguous() ? held : contiguous_copy(held);
    constexpr double kAlike = 0x1p-6;  // of the largest element, so that any rounding is within it
    const double allowed = is_integral(expected.dtype) ? 0 : kAlike * largest_element(expected);
    const std::optional<Spec> right = outputs_.fitting_spec(output, [&](const Spec& spec) {
      const std::vector<Deviation> found =
          deviations(stored_copies(value, spec), spec, expected, 0);
      return std::all_of(found.begin(), found.end(),
                         [&](const Deviation& one) { return one.distance <= allowed; });
    });
    if (!right) return;
    finding.details = {fmt::format("placed as {} its values are right", placements_text(*right))};
    finding.fix = outputs_.fix_by_placements(output, *right);
  } catch (const Error&) {
    // Without a truth the shapes decide.
  }
}

// If none of the ranks of the entry holds the output, and others do, the entry should name those.
bool JudgedRanks::correct_ranks(const JobOutput& output, Finding& finding) const {
  if (!holders(*ranks_, output.name, outputs_.owners(output)).empty()) return false;
  std::vector<int32_t> ranks;
  for (const Holder& holder : holders(*ranks_, output.name, Lanes::range(0, job_.world)))
    ranks.push_back(holder.rank);
  if (ranks.empty()) return false;
  finding.fix = fmt::format("write \"{0}\": \"{1} on {2}\" in \"outputs\", or bind {0} on {3}",
                            output.name, output.placements, to_string(Lanes::of(std::move(ranks))),
                            ranks_text(finding.ranks));
  return true;
}

// Reports outputs whose parts do not fit their entries. An output that the truth computes from such
// an output is not judged. Shapes are reported after the run. A rank that makes a different call
// ends with a different shape, and the finding should name the call.
void JudgedRanks::add_misfits(const ProgramRun& run, Outcome& outcome) const {
  std::map<std::string, std::vector<std::string>> behind;
  for (const JobOutput& output : job_.outputs) {
    const std::string before = misfit_before(output);
    if (before.empty()) continue;
    if (misfits_.contains(output.name)) {
      behind[before].push_back(output.name);
      continue;
    }
    UndecidedValue value;
    value.name = output.name;
    value.line = label_of(output, outputs_.owners(output)).line;
    value.elements = value.of =
        element_count(truth_->values[static_cast<size_t>(truth_->names.at(output.name))].shape);
    value.reason = fmt::format(
        "the truth computes it from {0}, whose parts do not fit; correct {0} and run again",
        before);
    outcome.undecided.push_back(std::move(value));
  }
  // Key: text and number of a line. Value: its finding, which lists the outputs of the other passes
  // of a loop, too.
  std::map<std::pair<std::string, int>, size_t> first;
  for (const JobOutput& output : job_.outputs) {
    const auto found = misfits_.find(output.name);
    if (found == misfits_.end() || !misfit_before(output).empty()) continue;
    const Finding& finding = found->second;
    const ValueLabel label = label_of(output, outputs_.owners(output));
    const auto [known, is_first] =
        first.emplace(std::pair(label.text, finding.line), outcome.findings.size());
    if (!is_first && finding.line > 0) {
      outcome.findings[known->second].details.push_back("does not fit either: " + output.name);
      continue;
    }
    outcome.findings.push_back(finding);
    if (!correct_ranks(output, outcome.findings.back()))
      correct_placements(output, run, outcome.findings.back());
    if (const auto others = behind.find(output.name); others != behind.end())
      outcome.findings.back().details.push_back(fmt::format(
          "does not fit either, computed from it: {}", fmt::join(others->second, ", ")));
  }
}

// Adds races, which other schedules of simulated ranks show. Real ranks run once.
void JudgedRanks::add_races(Outcome& outcome) const {
  if (!job_.functions.empty()) return;
  const auto is_race = [](const Finding& finding) { return finding.verdict == Verdict::race; };
  if (!has_unfinished_ranks(outcome.findings))
    for (Finding& finding : check_slots(ranks_->program))
      outcome.findings.push_back(std::move(finding));
  if (std::any_of(outcome.findings.begin(), outcome.findings.end(), is_race) ||
      !depends_on_schedule(ranks_->program))
    return;
  if (job_.schedule_is_chosen || job_.schedule.kind != ScheduleKind::fifo) {
    const bool may_be_race = job_.schedule.kind != ScheduleKind::fifo && !outcome.findings.empty();
    outcome.notes.push_back(fmt::format(
        "the program ran under schedule {} alone; {}", name(job_.schedule.kind),
        may_be_race ? "the finding may be a race: leave out --schedule to compare with fifo"
                    : "leave out --schedule to compare several"));
    return;
  }
  ScheduleResult compared = compare_schedules(ranks_->program, job_, inputs_, registries_);
  const bool real = job_.backend != "local";
  if (compared.race) {
    outcome.findings.push_back(std::move(*compared.race));
    if (real)
      outcome.notes.push_back(fmt::format(
          "the race is found on simulated ranks; {} ran the program once", job_.backend));
  } else if (outcome.findings.empty()) {
    outcome.notes.push_back((real ? "on simulated ranks, " : "") + compared.note);
  }
}

// Adds the first call at which ranks are on different lines to findings about calls that do not
// match, or that a rank never makes. Adds none with faults, which may skip a call of the program.
void JudgedRanks::add_first_divergence(Outcome& outcome) const {
  if (!job_.faults.empty()) return;
  for (Finding& finding : outcome.findings) {
    if (finding.verdict != Verdict::mismatch && finding.verdict != Verdict::missing_rank) continue;
    const std::string text =
        first_call_on_other_lines(ranks_->program, finding.group, finding.call);
    if (!text.empty()) finding.details.push_back("first divergence   " + text);
  }
}

// Notes the outputs and checks on some ranks alone that leave out shards: no rank is compared with
// one device there.
void JudgedRanks::note_absent_shards(Outcome& outcome) const {
  std::set<std::string> notes;
  const auto add = [&](const std::string& name, const Lanes& on, const Spec& spec) {
    const Lanes absent = on.empty() ? Lanes() : ranks_of_absent_shards(on, spec);
    if (!absent.empty())
      notes.insert(fmt::format("{} is compared on {} alone; no rank there has the shard of {}",
                               name, ranks_text(on), ranks_text(absent)));
  };
  for (const JobOutput& output : job_.outputs)
    if (!misfits_.contains(output.name)) add(output.name, output.on, outputs_.spec_of(output));
  for (const RankCheck& check : ranks_->checks)
    if (check.value != kNoValue)
      add(check.name, check.on, *ranks_->program.values[static_cast<size_t>(check.value)].spec);
  outcome.notes.insert(outcome.notes.end(), notes.begin(), notes.end());
}

// Compares the replicas of outputs, which is the only test without a truth.
void JudgedRanks::compare_replicas_of_outputs(const ProgramRun& run, Outcome& outcome) const {
  for (const JobOutput& output : job_.outputs) {
    if (misfits_.contains(output.name)) continue;
    const LocalTensor value = value_of(output, run);
    if (value.empty()) continue;
    const Spec spec = outputs_.spec_of(output);
    if (const std::optional<ReplicaDifference> difference = compare_replicas(value, spec))
      outcome.findings.push_back(
          explain_replicas({label_of(output, difference->ranks), spec, kNoValue}, *difference));
  }
}

void JudgedRanks::add_infos(const ProgramRun& run, Outcome& outcome) const {
  const SpmdProgram& program = ranks_->program;
  // Only specs of partial sums need it.
  const bool any_partial =
      std::any_of(program.values.begin(), program.values.end(),
                  [](const SpmdValue& value) { return value.spec && value.spec->has_partial(); });
  const std::vector<bool> written =
      any_partial ? values_written(program, registries_.ops) : std::vector<bool>();
  for (const auto& [name, parts] : ranks_->names) {
    ValueInfo info;
    for (const NamedPart& part : parts) {
      const SpmdValue& value = program.values[static_cast<size_t>(part.value)];
      info.dtype = value.dtype;
      for (const LocalShape& shape : value.shapes)
        if (const Lanes here = shape.lanes.intersect(part.lanes); !here.empty())
          info.shapes.push_back({here, shape.shape});
    }
    info.spec = known_spec(program, parts, written);
    if (is_kept_by_job(job_, name))
      for (const NamedPart& part : parts) {
        const LocalTensor own = run.value(part.value);
        if (!own.empty()) store_output(own.restrict_to(part.lanes), info.spec, info);
      }
    outcome.values.emplace(name, std::move(info));
  }
}

// Stores the outputs; a declared output has its declared placements.
void JudgedRanks::add_outputs(const ProgramRun& run, Outcome& outcome) const {
  for (const JobOutput& output : job_.outputs) {
    if (misfits_.contains(output.name)) continue;
    const LocalTensor value = value_of(output, run);
    if (value.empty()) continue;
    ValueInfo& info = outcome.values[output.name];
    info.spec = outputs_.spec_of(output);
    if (!is_kept_by_job(job_, output.name)) continue;
    info.copies.clear();
    info.value.reset();
    store_output(value, info.spec, info);
    const LocalTensor elsewhere =
        parts_on(output.name, Lanes::range(0, job_.world).minus(outputs_.owners(output)), run);
    if (!elsewhere.empty() && has_all_contents(elsewhere)) info.elsewhere = stored_parts(elsewhere);
  }
}

std::vector<ValueId> JudgedRanks::watched_at_end() const {
  std::set<std::string> names(job_.keep.begin(), job_.keep.end());
  if (job_.records_values)
    for (const auto& [name, parts] : ranks_->names) names.insert(name);
  for (const JobOutput& output : job_.outputs) names.insert(output.name);
  std::vector<ValueId> ids;
  for (const std::string& name : names)
    if (const auto found = ranks_->names.find(name); found != ranks_->names.end())
      for (const NamedPart& part : found->second) ids.push_back(part.value);
  return ids;
}

// Causes are confirmed in f64 only. In the program's own dtypes rounding hides if an edit makes a
// value right.
std::optional<RankCase> JudgedRanks::rank_case(const RecordedIntegers* replaced) const {
  if (has_dtype(is_below_f64) || !truth_ || !job_.functions.empty()) return std::nullopt;
  return RankCase{job_, inputs_, *ranks_, *truth_, registries_, dtypes_, replaced};
}

// Returns the values that are the parts of an output or of the value of a check.
std::vector<ValueId> JudgedRanks::parts_of(const std::string& key) const {
  std::vector<ValueId> parts;
  if (const auto found = ranks_->names.find(key); found != ranks_->names.end())
    for (const NamedPart& part : found->second) parts.push_back(part.value);
  if (!parts.empty()) return parts;
  const RankChecks checks(job_, *ranks_, {});
  for (const CheckedValue& value : checks.values())
    if (key_of_checked(value) == key)
      for (const auto& [check, lanes] : value.entries) parts.push_back(check->value);
  return parts;
}

// Returns the program whose calls all have their own line, for causes that name it.
SpmdProgram JudgedRanks::with_separate_calls() const {
  SpmdProgram program = ranks_->program;
  separate_grouped_calls(program);
  return program;
}

RangeCause JudgedRanks::range_cause_of(const std::string& key) const {
  const std::vector<ValueId> targets = parts_of(key);
  if (targets.empty() || !job_.functions.empty()) return {};
  return range_cause_in(with_separate_calls(), targets);
}

std::string JudgedRanks::cause_of(const MeasuredPrecision& measured) const {
  if (is_out_of_range(measured))
    if (RangeCause cause = range_cause_of(measured.key); !cause.text.empty()) return cause.text;
  const std::vector<ValueId> targets = parts_of(measured.key);
  if (targets.empty()) return "";
  const SpmdProgram program = with_separate_calls();
  const std::vector<NarrowStep> steps = imprecision_candidates(measured, program, targets);
  return precision_cause(measured, program, targets, step_that_loses(steps, measured.key));
}

// Returns the first step if there is one, or if the program does not run in f64.
std::string JudgedRanks::step_that_loses(const std::vector<NarrowStep>& steps,
                                         const std::string& key) const {
  if (steps.empty()) return "";
  const auto is_same = [&](const NarrowStep& step) { return step.text == steps[0].text; };
  if (std::all_of(steps.begin(), steps.end(), is_same)) return steps[0].text;
  try {
    const Job wider = on_simulated_ranks(with_wider_floats(job_));
    RankProgram ranks = *ranks_;
    separate_grouped_calls(ranks.program);
    widen_floats(ranks.program, registries_.ops);
    return losing_step({wider, lifted_inputs(wider), ranks}, steps, key, registries_);
  } catch (const Error&) {
    return steps[0].text;
  }
}

Outcome JudgedRanks::run(Judge& judge, const JudgedRun& options) const try {
  std::vector<ComparedValue> values;
  std::optional<RankChecks> checks;
  // Made again for each attempt of the run.
  const auto probe = [&]() -> ProbeFunction {
    values.clear();
    const ProbeFunction of_all = probe_of_all(options);
    if (ranks_->checks.empty()) return of_all;
    checks.emplace(job_, *ranks_,
                   [&](const CheckedValue& value) { values.push_back(checked(value)); });
    return [&, of_all](ValueId id, const LocalTensor& value) {
      if (of_all) of_all(id, value);
      if (checks->compares(id)) checks->add(id, value);
    };
  };
  const bool all = probes_all(options);
  const ValueFilter watched{[&](ValueId id) { return all || (checks && checks->compares(id)); },
                            watched_at_end()};
  ProgramRun run;
  try {
    run = run_program(ranks_->program, job_, registries_, watched, probe, &inputs_);
  } catch (const Error&) {
    if (truth_) judge_all(std::move(values), judge, options);
    throw;
  }
  Outcome outcome = std::move(run.outcome);
  const bool ended = !has_unfinished_ranks(outcome.findings);
  if (options.reports) add_infos(run, outcome);
  if (run.is_of_worker()) return outcome;
  if (options.reports && !ended) add_first_divergence(outcome);
  if (options.reports) add_races(outcome);
  if (ended) {
    if (options.reports) add_misfits(run, outcome);
    if (options.reports) add_outputs(run, outcome);
    if (options.reports) note_absent_shards(outcome);
    if (options.reports && truth_)
      for (std::string& note : notes_of_unreached_checks(job_, *ranks_, *truth_))
        outcome.notes.push_back(std::move(note));
    if (!truth_ && options.reports) compare_replicas_of_outputs(run, outcome);
    if (truth_)
      for (ComparedValue& output : outputs_of(run)) values.push_back(std::move(output));
  }
  if (truth_) judge_all(std::move(values), judge, options);
  if (checks && options.reports && ended)
    for (UndecidedValue& value : checks->undecided(*truth_))
      outcome.undecided.push_back(std::move(value));
  if (options.reports && job_.records_values) {
    outcome.recorded = values_at_end(outputs_, run, registries_.ops);
    outcome.program = to_lines(ranks_->program);
  }
  return outcome;
} catch (const Error& error) {
  rethrow(error, error.where().path.empty() ? "/ranks" : error.where().path);
}

}  // namespace

std::unique_ptr<JudgedProgram> make_judged_ranks(Job job, std::vector<LocalTensor> inputs,
                                                 std::shared_ptr<const RankProgram> program,
                                                 std::optional<GlobalProgram> truth,
                                                 const Registries& registries) {
  return std::make_unique<JudgedRanks>(std::move(job), std::move(inputs), std::move(program),
                                       std::move(truth), registries);
}

}  // namespace shardproof
