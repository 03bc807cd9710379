// JudgedProgram: a job that is lowered once, in the program's own dtypes or with all floats lifted
// to f64. Judges can run its ranks and one device as often as they need. Internal to the engine.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "shardproof/engine/compare/compare.h"
#include "shardproof/engine/compare/judge.h"
#include "shardproof/engine/explain/explain_precision.h"
#include "shardproof/engine/explain/range_cause.h"
#include "shardproof/engine/job/job.h"
#include "shardproof/engine/judging/own_dtype_judge.h"
#include "shardproof/engine/judging/rank_case.h"
#include "shardproof/engine/partition/partition.h"

namespace shardproof {

// The purpose of one run.
struct JudgedRun {
  // The outcome stores what the job requests: values, records of compared values, the program.
  bool reports = false;
  bool keeps_all = false;  // the reference frees nothing, for explanations
  // Integers and bools that replace those of ranks and reference, as in ValueComparer::Options.
  const std::map<ValueId, Tensor>* integers = nullptr;
  // For rank programs: stores the whole numbers that the run computes, or supplies those that
  // replace them.
  RecordedIntegers* records = nullptr;
  const RecordedIntegers* replaces = nullptr;
  // For global programs: stores the ranks' values from which a run in f64 may begin
  // (lifted_without_lines_by_rule), by global value.
  std::map<ValueId, LocalTensor>* results_by_rule = nullptr;
};

// The reference program with all floats lifted to f64, without a run of its own.
struct LiftedReference {
  LiftedReference(GlobalProgram lifted, const OpRegistry& ops)
      : program(std::move(lifted)), plan(program, ops) {}
  LiftedReference(const LiftedReference&) = delete;
  LiftedReference& operator=(const LiftedReference&) = delete;
  GlobalProgram program;
  EvaluationPlan plan;
};

class JudgedProgram {
 public:
  // Returns the job in its own dtypes and on its own backend. `lowered`, if not null, is what
  // lower_ranks returns for the job. Throws Error(bad_input) with path, line and column.
  static std::unique_ptr<JudgedProgram> make(const Job& job, const Registries& registries,
                                             std::shared_ptr<const RankProgram> lowered = nullptr);
  virtual ~JudgedProgram() = default;
  // Return the same program on simulated ranks of this process, without times and stored values.
  // Its dtypes are the program's own, or all floats are f64.
  virtual std::unique_ptr<JudgedProgram> simulated() const = 0;
  virtual std::unique_ptr<JudgedProgram> lifted() const = 0;
  // Returns the lifted program with the numbers of its text rounded to f32; null if all are numbers
  // of f32.
  virtual std::unique_ptr<JudgedProgram> lifted_with_rounded_numbers() const = 0;

  // Returns the lifted program without the lines that ranks compute by the op's rule
  // (lines_by_rule.h). It begins with their results, as JudgedRun::results_by_rule stored them.
  // `equal` lists the keys of values that were equal to one device in the program's own dtypes.
  // Null if one of those lines is missing there, or if there are none.
  virtual std::unique_ptr<JudgedProgram> lifted_without_lines_by_rule(
      const std::map<ValueId, LocalTensor>& /*results*/,
      const std::set<std::string>& /*equal*/) const {
    return nullptr;
  }
  // True if a line other than those reads the input at this position.
  virtual bool is_input_of_other_lines(size_t /*input*/) const { return true; }
  // Requires a reference program.
  std::unique_ptr<LiftedReference> lifted_reference() const;

  // Runs ranks and reference and passes each compared value to the judge. Throws Error(bad_input)
  // for errors that the run finds (an index out of range).
  virtual Outcome run(Judge& judge, const JudgedRun& options) const = 0;
  // Returns the reference program; null if there is none.
  virtual const EvaluationPlan* reference() const = 0;
  // True if `matches` holds for the dtype of some value of the ranks or of the reference.
  virtual bool has_dtype(const std::function<bool(DType)>& matches) const = 0;
  // True if the ranks must run in other rounding directions too, because they run other ops than
  // one device.
  virtual bool ranks_move() const = 0;
  // Adds the cause that the program shows without another run. A rank program shows none: its
  // causes become hints.
  virtual void explain(const ComparedValue& value, Finding& finding) const = 0;
  // Returns the rank program whose edits can confirm a cause (engine/causes). Its references live
  // as long as this. nullopt for a global program, and if no run can confirm a cause. The argument
  // is JudgedRun::replaces of the run that explains.
  virtual std::optional<RankCase> rank_case(const RecordedIntegers*) const { return std::nullopt; }
  // Returns the cause of an imprecise value, or "".
  virtual std::string cause_of(const MeasuredPrecision& measured) const = 0;
  // Returns, for rank programs, the step at which ranks leave the range of a dtype on the way to a
  // value (explain/range_cause.h).
  virtual RangeCause range_cause_of(const std::string&) const { return {}; }
  const Job& job() const { return job_; }
  // Returns the inputs of the reference program that are partial on the ranks, as they hold them.
  std::map<ValueId, ComparedValue> inputs_in_parts() const;

 protected:
  // `inputs` are the ranks' parts of the job's inputs.
  JudgedProgram(Job job, std::vector<LocalTensor> inputs, const Registries& registries)
      : job_(std::move(job)), inputs_(std::move(inputs)), registries_(registries) {}
  // Returns the ranks' parts of the inputs of `lifted`, the same job with all floats lifted.
  std::vector<LocalTensor> lifted_inputs(const Job& lifted) const;
  // Returns the step at which ranks leave the range of a dtype on the way to values of this
  // program. Returns none if the program does not run in f64 as it does in its own dtypes.
  RangeCause range_cause_in(const SpmdProgram& own, const std::vector<ValueId>& targets) const;
  // Returns the inputs of one device. A partial input is what the ranks' parts reduce to, because
  // not every float is an average of three floats.
  std::vector<Tensor> reference_inputs() const;
  Job job_;
  std::vector<LocalTensor> inputs_;
  const Registries& registries_;
};

// Make the two kinds of judged programs from lowered programs.
std::unique_ptr<JudgedProgram> make_judged_global(Job job, std::vector<LocalTensor> inputs,
                                                  GlobalProgram program,
                                                  const Registries& registries);
std::unique_ptr<JudgedProgram> make_judged_ranks(Job job, std::vector<LocalTensor> inputs,
                                                 std::shared_ptr<const RankProgram> program,
                                                 std::optional<GlobalProgram> truth,
                                                 const Registries& registries);

// The functions below are shared by both kinds.

PartitionOptions partition_options(const Job& job);
void reduce_in_order(SpmdProgram& program, const ReductionSchedule& order);
// True if Job::keep names this value.
bool is_kept_by_job(const Job& job, const std::string& name);
std::string line_text(const std::vector<std::string>& lines, int line);
// Throws an error of a kernel or of the reference as bad input of the listing at `path`.
[[noreturn]] void rethrow(const Error& error, const std::string& path);
// True if nothing finite, or nothing at all, is left of a value on a rank.
bool is_out_of_range(const MeasuredPrecision& measured);
// Returns the steps on the way to `targets` that may make them imprecise, calls first. Below
// kPrecisionNote only a reduction in a narrower dtype is such a step.
std::vector<NarrowStep> imprecision_candidates(const MeasuredPrecision& measured,
                                               const SpmdProgram& program,
                                               const std::vector<ValueId>& targets);
// Returns the cause of an imprecise value from the text of its step. Example: "it is f32, but line
// 2 reduces over dp in bf16". If `step` is "", a sum over ranks may be the cause; "" if none is.
std::string precision_cause(const MeasuredPrecision& measured, const SpmdProgram& program,
                            const std::vector<ValueId>& targets, std::string step);
bool is_narrow_float(DType dtype);
}  // namespace shardproof
