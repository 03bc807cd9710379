// Implements check.h as a sequence of runs. Each run is more expensive than the one before
// and is made only if it is needed.
//
//   1. Ranks and one device run in the program's own dtypes (OwnDtypeJudge). The program is
//      clean if all numbers are equal, none may have been rounded to f32, and no dtype is
//      narrower than f32.
//   2. Both run with all floats lifted to f64, on simulated ranks (F64Judge). The run begins with
//      the results of lines that ranks compute by a sharding rule (lines_by_rule.h). It includes
//      these lines only if something is not right.
//   3. If values of a rank program are still open, both run in three other rounding directions
//      (PerturbationJudge).
//   4. If something is wrong, both run once more to explain it (ExplainingJudge).
//
// docs/judging.md gives the reasons.
#include "shardproof/engine/check/check.h"

#include <cmath>

#include "shardproof/engine/check/explaining_judge.h"
#include "shardproof/engine/check/list_findings.h"
#include "shardproof/engine/check/measure_rounding.h"
#include "shardproof/engine/check/out_of_range.h"
#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/engine/explain/cause_lines.h"
#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/engine/judging/own_dtype_judge.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Makes the reference compute each compared value; decides nothing.
class ReferenceJudge : public Judge {
 public:
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override {
    reference.value(value.global);
    return Judgement::right;
  }
};

void run_to_record_integers(const JudgedProgram& program, RecordedIntegers& recorded) {
  ReferenceJudge all;
  program.run(all, {.records = &recorded});
}

// True if the values of the ranks depend on a race, or on a slot whose read and put have different
// sizes.
bool depend_on_race(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Verdict::race ||
           (finding.verdict == Verdict::mismatch && finding.group.starts_with("slot "));
  });
}

// Returns the note that errors do not show in values whose elements are all infinite or NaN, or all
// zero. `what`: "no finite element".
std::string hidden_errors_note(const std::vector<std::string>& names, const char* what) {
  constexpr size_t kMostNames = 4;
  const bool is_one = names.size() == 1;
  std::vector<std::string> shown(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(kMostNames, names.size())));
  if (names.size() > kMostNames) shown.push_back(fmt::format("{} more", names.size() - kMostNames));
  return fmt::format("{} {} {} on one device; errors of the lines before {} do not show in {}",
                     joined_words(shown, "and"), is_one ? "has" : "have", what,
                     is_one ? "it" : "them", is_one ? "it" : "them");
}

class Check {
 public:
  Check(const Job& job, const Registries& registries, std::shared_ptr<const RankProgram> lowered)
      : job_(job),
        registries_(registries),
        program_(JudgedProgram::make(job, registries, std::move(lowered))),
        own_(own_options()) {}

  Outcome run() {
    outcome_ = program_->run(own_, {.reports = true, .results_by_rule = &results_by_rule_});
    outcome_.values_compared = own_.compared();
    if (!own_.not_finite().empty())
      outcome_.notes.push_back(hidden_errors_note(own_.not_finite(), "no finite element"));
    if (!own_.zero().empty())
      outcome_.notes.push_back(hidden_errors_note(own_.zero(), "no element but zeros"));
    // A worker process compares nothing: the coordinator does.
    if (depend_on_race(outcome_.findings)) {
      outcome_.notes.push_back(
          "values are not judged, because they depend on the order of accesses; "
          "correct the finding and run again");
    } else if (own_.compared() > 0 && !outcome_.world.broken) {
      if (is_real()) judge_backend();
      if (!own_.all_equal() || may_be_rounded()) judge_in_f64();
      add_findings();
      drop_note_of_infinities_of_ranks();
    }
    if (job_.records_values) measure_rounding(job_, registries_, outcome_.recorded);
    return std::move(outcome_);
  }

 private:
  OwnDtypeJudge::Options own_options() {
    OwnDtypeJudge::Options options;
    options.lifted = [this]() -> const EvaluationPlan& {
      if (!lifted_reference_) lifted_reference_ = program_->lifted_reference();
      return lifted_reference_->plan;
    };
    options.inputs_in_parts = program_->inputs_in_parts();
    options.matmul = job_.matmul;
    options.explains = is_real();
    options.measures_all = !job_.precision_limits.empty();
    options.measures_f64 = program_->has_dtype(is_below_f64);
    options.notes_zeros = !job_.program.has_value();
    options.compares_replicas = !program_->ranks_move();
    options.keeps_integers = !program_->ranks_move() && program_->has_dtype(is_float_or_complex);
    return options;
  }
  const JudgedProgram& lifted() {
    if (!lifted_) lifted_ = program_->lifted();
    return *lifted_;
  }
  const std::map<ValueId, Tensor>* integers() const {
    return own_.integers().empty() ? nullptr : &own_.integers();
  }

  // True if equal numbers may hide a small error. Inputs count too: a small term that is added to a
  // whole number may vanish in it.
  bool may_be_rounded() const {
    if (own_.may_be_rounded() || program_->has_dtype(is_narrow_float)) return true;
    for (size_t i = 0; i < job_.inputs.size(); ++i)
      if (program_->is_input_of_other_lines(i) && uses_last_bits(job_.inputs[i].data)) return true;
    return false;
  }
  const RecordedIntegers* replacing() const { return recorded_ ? &*recorded_ : nullptr; }
  // True if the ranks may have computed with other arithmetic than simulated ranks.
  bool is_real() const { return job_.backend != "local" || job_.device != nullptr; }
  Consequences consequences() const {
    return program_->ranks_move() ? Consequences::of_all_values
                                  : Consequences::of_differing_replicas;
  }
  void judge_backend();
  void judge_in_f64();
  bool other_lines_are_right();
  void judge_out_of_range();
  void drop_note_of_infinities_of_ranks();
  void add_undecided(const JudgedValue& one);
  void drop_equal_in_rounded_numbers();
  // The error that ended the run in f64, or "".
  std::string run_in_f64(F64Judge& judge);
  std::string run_in_direction(int direction, PerturbationJudge& moving,
                               const RecordedIntegers* replaced);
  void run_in_other_directions(F64Judge& judge);
  void add_findings();
  std::vector<ExplainedValue> explain_wrong();
  std::vector<ExplainedValue> explain(const std::vector<JudgedValue>& wrong);
  std::vector<ExplainedValue> explain_in_own_dtypes(const std::vector<JudgedValue>& wrong);

  const Job& job_;
  const Registries& registries_;
  std::unique_ptr<JudgedProgram> program_, lifted_;
  std::unique_ptr<LiftedReference> lifted_reference_;
  std::map<ValueId, LocalTensor> results_by_rule_;
  OwnDtypeJudge own_;
  Outcome outcome_;
  F64Judge::Options f64_options_;
  std::set<std::string> found_in_f64_;        // keys of values that this run does not call right
  bool reached_all_in_f64_ = false;           // that run reached all values
  std::optional<RecordedIntegers> recorded_;  // set if the run in f64 uses them
  // Wrong values, found in f64 or, if that run failed, in the program's own dtypes.
  std::vector<JudgedValue> wrong_, wrong_in_own_;
  std::vector<const UnequalValue*> wrong_on_backend_;
};

// Reports values of a real backend that are far off while those of simulated ranks are not. Then a
// library, a driver or a device is at fault, not the program. Wrong integers that roundings explain
// are reported as a note.
void Check::judge_backend() {
  const auto is_suspect = [](const UnequalValue& value) {
    return value.finding.has_value() || !value.by_rounding.elements.empty();
  };
  if (std::none_of(own_.unequal().begin(), own_.unequal().end(), is_suspect)) return;
  const std::unique_ptr<JudgedProgram> simulated = program_->simulated();
  OwnDtypeJudge::Options options = own_options();
  options.explains = false;
  OwnDtypeJudge judge(options);
  try {
    simulated->run(judge, {});
  } catch (const Error&) {
    return;  // there is no value to compare with those of the backend
  }
  std::set<std::string> far;
  for (const UnequalValue& value : judge.unequal())
    if (value.is_wrong()) far.insert(value.judged.key);
  for (const UnequalValue& value : own_.unequal()) {
    if (!is_suspect(value) || far.contains(value.judged.key)) continue;
    if (value.finding)
      wrong_on_backend_.push_back(&value);
    else
      outcome_.notes.push_back(rounded_note(value.by_rounding, job_.backend));
  }
}

// Judges the lines that ranks do not compute by a sharding rule, in f64. The run begins with the
// results of the lines by rule in the program's own dtypes. Returns false if all lines must run in
// f64: some line may be wrong, or there is no such run.
bool Check::other_lines_are_right() {
  const std::map<ValueId, LocalTensor> results = std::exchange(results_by_rule_, {});
  const auto is_wrong = [](const UnequalValue& value) { return value.is_wrong(); };
  if (std::any_of(own_.unequal().begin(), own_.unequal().end(), is_wrong)) return false;
  try {
    const std::unique_ptr<JudgedProgram> others =
        program_->lifted_without_lines_by_rule(results, own_.equal());
    if (others == nullptr) return false;
    F64Judge::Options options = f64_options_;
    options.inputs_in_parts = others->inputs_in_parts();
    F64Judge judge(options);
    others->run(judge, {.integers = integers()});
    return judge.open().empty() && judge.found().empty();
  } catch (const Error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Check::judge_in_f64() {
  f64_options_.own = program_->reference();
  f64_options_.integers = integers();
  f64_options_.equal_in_own = &own_.equal();
  f64_options_.ranks_move = program_->ranks_move();
  reached_all_in_f64_ = other_lines_are_right();
  if (reached_all_in_f64_) return;
  std::string reason;
  std::optional<F64Judge> judge;
  if (!job_.functions.empty()) {
    reason = "ranks that run C++ functions choose their own dtypes";
  } else {
    try {
      f64_options_.inputs_in_parts = lifted().inputs_in_parts();
      judge.emplace(f64_options_);
      reason = run_in_f64(*judge);
    } catch (const Error& error) {
      reason = error.message();  // an op that requires another dtype
    } catch (const std::bad_alloc&) {
      reason = "there is too little memory for all floats in f64";
    }
  }
  if (judge) {
    run_in_other_directions(*judge);
    for (const JudgedValue& value : judge->found()) {
      found_in_f64_.insert(value.key);
      if (value.judgement == Judgement::wrong) wrong_.push_back(value);
      if (value.judgement == Judgement::undecided)
        outcome_.undecided.push_back(undecided_in_f64(value));
    }
    if (!judge->unresolved_replicas().empty())
      outcome_.notes.push_back(unresolved_note(judge->unresolved_replicas()));
    if (reason.empty()) drop_equal_in_rounded_numbers();
  }
  reached_all_in_f64_ = reason.empty();
  if (reason.empty()) return;
  const auto has_judged = [&](const std::string& key) { return judge && judge->has_judged(key); };
  bool any = !std::all_of(own_.equal().begin(), own_.equal().end(), has_judged);
  for (const UnequalValue& value : own_.unequal()) {
    if (has_judged(value.judged.key)) continue;
    any = true;
    if (value.is_wrong()) wrong_in_own_.push_back(value.judged);
  }
  if (any)
    outcome_.notes.push_back(fmt::format(
        "values that were not computed in f64 are judged in their own dtypes, where rounding may "
        "hide small errors; inputs of whole numbers hide fewer: {}",
        reason));
}

// Drops wrong values that are right with the numbers of the text rounded to f32. A program of f32
// cannot distinguish 0.33333334 from a third.
void Check::drop_equal_in_rounded_numbers() {
  if (wrong_.empty()) return;
  const std::unique_ptr<JudgedProgram> rounded = program_->lifted_with_rounded_numbers();
  if (rounded == nullptr) return;
  F64Judge again(f64_options_);
  try {
    rounded->run(again, {.integers = integers(), .replaces = replacing()});
  } catch (const Error&) {
    return;
  }
  std::set<std::string> wrong;
  for (const JudgedValue& value : again.found()) wrong.insert(value.key);
  for (const auto& [key, open] : again.open()) wrong.insert(key);
  std::erase_if(wrong_, [&](const JudgedValue& value) {
    return is_below_f64(program_->reference()->info(value.global).dtype) &&
           again.has_judged(value.key) && !wrong.contains(value.key);
  });
}

// A value that is finite on one device and not on a rank becomes the reference of later lines. So
// these may have no finite element on one device either.
void Check::drop_note_of_infinities_of_ranks() {
  const std::vector<MeasuredPrecision>& measured = own_.precision();
  if (own_.not_finite().empty() ||
      std::none_of(measured.begin(), measured.end(),
                   [](const MeasuredPrecision& one) { return std::isinf(one.precision.error); }))
    return;
  std::erase(outcome_.notes, hidden_errors_note(own_.not_finite(), "no finite element"));
}

void Check::add_undecided(const JudgedValue& one) {
  outcome_.undecided.push_back(undecided_because(
      one,
      "ranks and one device differ in the program's dtypes, where one device leaves the range of a "
      "dtype on the way to it; f64 has a larger range and cannot judge it; smaller inputs may "
      "decide it"));
}

// Judges values that are wrong in the own dtypes, while the run in f64 calls them right or differs
// in another way. No float leaves its range there, so that run may compute something else. They are
// judged in f64 once more, with the whole numbers and the flags of overflow of the run in the own
// dtypes.
void Check::judge_out_of_range() {
  std::set<std::string> settled = found_in_f64_;
  for (const auto& [key, finding] : own_.differing_replicas()) settled.insert(key);
  std::vector<JudgedValue> open;
  for (const UnequalValue& value : own_.unequal())
    if (value.is_wrong() && !settled.contains(value.judged.key)) open.push_back(value.judged);
  if (open.empty()) return;
  const std::unique_ptr<JudgedProgram> simulated = program_->simulated();
  std::vector<JudgedValue> suspects;
  for (JudgedValue& one : differences_out_of_range(open, *simulated, lifted(), registries_)) {
    if (one.judgement == Judgement::wrong)
      suspects.push_back(std::move(one));
    else
      add_undecided(one);
  }
  if (suspects.empty()) return;
  F64Judge again(f64_options_);
  try {
    run_to_record_integers(*simulated, recorded_.emplace());
    lifted().run(again, {.integers = integers(), .replaces = &*recorded_});
    run_in_other_directions(again);
  } catch (const Error&) {
    // The values after the error are not decided.
  }
  for (const JudgedValue& one : suspects) {
    const auto found =
        std::find_if(again.found().begin(), again.found().end(), [&](const JudgedValue& value) {
          return value.judgement == Judgement::wrong && value.key == one.key;
        });
    if (found != again.found().end())
      wrong_.push_back(*found);
    else
      add_undecided(one);
  }
  if (wrong_.empty()) recorded_.reset();
}

// An index that is another number in f64 may end the run. Then a rank program runs once more with
// the whole numbers of the program's own run. Global programs always use them.
std::string Check::run_in_f64(F64Judge& judge) {
  try {
    lifted().run(judge, {.integers = integers()});
    return "";
  } catch (const Error& error) {
    if (!program_->ranks_move()) return error.message();
  }
  try {
    run_to_record_integers(*program_->simulated(), recorded_.emplace());
    lifted().run(judge, {.integers = integers(), .replaces = &*recorded_});
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

// Returns the error that ended the run, or "".
std::string Check::run_in_direction(int direction, PerturbationJudge& moving,
                                    const RecordedIntegers* replaced) {
  try {
    const ScopedRoundingMode rounding(direction);
    const Outcome outcome = lifted().run(moving, {.integers = integers(), .replaces = replaced});
    return has_unfinished_ranks(outcome.findings) ? "the ranks reach a deadlock" : "";
  } catch (const Error& error) {
    return error.message();
  }
}

// An index that is another number in this direction may end the run. Then the run is repeated with
// the integers of the judged run, from which movements are measured.
void Check::run_in_other_directions(F64Judge& judge) {
  if (judge.open().empty()) return;
  std::optional<RecordedIntegers> judged;
  std::vector<UnmeasuredMovement> unmeasured;
  for (int direction = 0; direction < kOtherRoundings; ++direction) {
    PerturbationJudge moving(judge.open());
    std::string reason = run_in_direction(direction, moving, replacing());
    if (!reason.empty() && replacing() == nullptr) {
      if (!judged) run_to_record_integers(lifted(), judged.emplace());
      reason = run_in_direction(direction, moving, &*judged);
    }
    if (const std::vector<ValueLabel> missing = moving.unmeasured(); !missing.empty())
      add_unmeasured(missing, direction, reason, unmeasured);
  }
  for (const UnmeasuredMovement& one : unmeasured) outcome_.notes.push_back(unmeasured_note(one));
  judge.settle();
}

std::vector<ExplainedValue> Check::explain(const std::vector<JudgedValue>& wrong) {
  if (wrong.empty()) return {};
  const std::unique_ptr<JudgedProgram> simulated = program_->simulated();
  DifferenceJudge own(wrong);
  try {
    simulated->run(own, {});
  } catch (const Error&) {
    // The finding then shows the numbers of the f64 run.
  }
  ExplainingJudge explaining(wrong, lifted(),
                             {.integers = integers(),
                              .replaced = replacing(),
                              .own = &own,
                              .consequences = consequences(),
                              .searches_causes = job_.searches_causes});
  try {
    lifted().run(explaining, {.keeps_all = true, .integers = integers(), .replaces = replacing()});
  } catch (const Error&) {
    // This run ends at the same place as the one that found them, after the values that it found.
  }
  return std::move(explaining.explained());
}

std::vector<ExplainedValue> Check::explain_in_own_dtypes(const std::vector<JudgedValue>& wrong) {
  if (wrong.empty()) return {};
  const std::unique_ptr<JudgedProgram> simulated = program_->simulated();
  ExplainingJudge explaining(
      wrong, *simulated,
      {.alike = 0x1p-5, .consequences = consequences(), .searches_causes = job_.searches_causes});
  simulated->run(explaining, {.keeps_all = true});
  return std::move(explaining.explained());
}

// Explains the wrong values. There may be none, or the run in the own dtypes may contradict all of
// them. Then values that differ in that run are judged with its flags of overflow.
std::vector<ExplainedValue> Check::explain_wrong() {
  std::vector<ExplainedValue> explained = explain(wrong_);
  if (!explained.empty() || !reached_all_in_f64_ || recorded_) return explained;
  for (const JudgedValue& value : std::exchange(wrong_, {})) found_in_f64_.erase(value.key);
  judge_out_of_range();
  return explain(wrong_);
}

void Check::add_findings() {
  std::set<std::string> settled;
  for (const std::vector<JudgedValue>* values : {&wrong_, &wrong_in_own_})
    for (const JudgedValue& value : *values) settled.insert(value.key);
  // The place is after findings about blocked ranks and before unwritten redistributions.
  const auto unwritten = [](const Finding& finding) {
    return finding.verdict == Verdict::unwritten_redistribution;
  };
  std::vector<Finding> findings = list_findings(explain_wrong());
  for (const JudgedValue& value : wrong_) settled.insert(value.key);
  for (Finding& finding : list_findings(explain_in_own_dtypes(wrong_in_own_)))
    findings.push_back(std::move(finding));
  for (const UnequalValue* value : wrong_on_backend_) {
    settled.insert(value->judged.key);
    findings.push_back(*value->finding);
    findings.back().details.push_back(
        fmt::format("simulated ranks hold the right value: it is wrong on {} alone", job_.backend));
  }
  if (findings.empty() && own_.replicas()) findings.push_back(*own_.replicas());
  // Replicas that are equal in f64 may differ because ranks left the range of a dtype. It is a
  // matter of precision if they add in different orders, but not if they read different shards.
  // Other differences that only the own dtypes show depend on roundings.
  for (const auto& [key, finding] : own_.differing_replicas()) {
    if (!findings.empty() || settled.contains(key)) continue;
    const RangeCause cause = program_->range_cause_of(key);
    if (cause.text.empty()) continue;
    findings.push_back(finding);
    if (!cause.of_shards) findings.back().verdict = Verdict::imprecise;
    findings.back().details.push_back(kCauseLabel + cause.text);
  }
  const auto at = std::find_if(outcome_.findings.begin(), outcome_.findings.end(), unwritten);
  outcome_.findings.insert(at, findings.begin(), findings.end());
  for (const JudgedValue& value : own_.beyond_steps())
    if (!settled.contains(value.key) && !found_in_f64_.contains(value.key))
      outcome_.undecided.push_back(undecided_by_steps(value));
  own_.measure_open_values(settled);
  add_precision(own_.precision(), settled, *program_, outcome_);
  const auto tells_why = [&](const std::string& note) {
    return note.find(own_.unmeasured()) != std::string::npos;
  };
  if (!own_.unmeasured().empty() &&
      std::none_of(outcome_.notes.begin(), outcome_.notes.end(), tells_why))
    outcome_.notes.push_back(fmt::format(
        "the precision of some values was not measured, and other inputs may allow it: {}",
        own_.unmeasured()));
}

}  // namespace

LoweredJob lower_job(const Job& job, const Registries& registries) {
  LoweredJob lowered;
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
  Partitioned parts = partition(global, job, registries.ops, partition_options(job));
  lowered.program = std::move(parts.program);
  lowered.unwritten = std::move(parts.unwritten);
  return lowered;
}

std::shared_ptr<const RankProgram> lower_rank_programs(const Job& job,
                                                       const Registries& registries) {
  if (job.program) return nullptr;
  return std::make_shared<RankProgram>(lower_ranks(job, registries.ops));
}

Outcome check(const Job& job, const Registries& registries,
              std::shared_ptr<const RankProgram> lowered) {
  return Check(job, registries, std::move(lowered)).run();
}

}  // namespace shardproof
