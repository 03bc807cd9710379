// JudgedProgram: a job lowered once, in the program's own dtypes or with all floats lifted to f64.
// Its ranks can be run beside one device as often as judges need. Internal to the engine.
#pragma once

#include <map>
#include <memory>

#include "shardproof/engine/check/own_dtype_judge.h"
#include "shardproof/engine/check/recorded_integers.h"
#include "shardproof/engine/compare/compare.h"
#include "shardproof/engine/compare/judge.h"
#include "shardproof/engine/job/job.h"
#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/engine/partition/partition.h"

namespace shardproof {

// The purpose of one run.
struct JudgedRun {
  // The outcome holds what the job asks for: values, records of what was compared, the program.
  bool reports = false;
  bool keeps_all = false;  // the reference frees nothing, for explanations
  // Integers and bools that replace those of ranks and reference; see ValueComparer::Options.
  const std::map<ValueId, Tensor>* integers = nullptr;
  // Of rank programs: filled with what the run computes, and what replaces that.
  RecordedIntegers* records = nullptr;
  const RecordedIntegers* replaces = nullptr;
};

class JudgedProgram {
 public:
  // The job as it is. Throws Error for bad input, with path, line and column.
  static std::unique_ptr<JudgedProgram> make(const Job& job, const Registries& registries);
  virtual ~JudgedProgram() = default;
  // The same program on simulated ranks of this process, without times and with nothing kept, in
  // the program's own dtypes or with all floats lifted to f64.
  virtual std::unique_ptr<JudgedProgram> simulated() const = 0;
  virtual std::unique_ptr<JudgedProgram> lifted() const = 0;

  // Runs ranks and reference; hands each compared value to the judge. Throws Error for bad input
  // that is found while running (an index out of range).
  virtual Outcome run(Judge& judge, const JudgedRun& options) const = 0;
  // Null when there is nothing to compare with.
  virtual const EvaluationPlan* reference() const = 0;
  // True if some value of the ranks or of the reference is narrower than f32.
  virtual bool has_narrow_floats() const = 0;
  virtual bool has_floats() const = 0;
  // The ranks run in other rounding directions too, because they run other ops than one device.
  virtual bool ranks_move() const = 0;
  // Adds what is known of the cause from the program. In rank programs a second run has to confirm
  // a cause; else it becomes a hint.
  virtual void explain(const ComparedValue& value, Finding& finding) const = 0;
  // The cause of an imprecise value, or "".
  virtual std::string cause_of(const MeasuredPrecision& measured) const = 0;
  // Of rank programs: the step on the way to a value at which ranks leave the range of a dtype
  // (explain/range_cause.h), or "".
  virtual std::string range_cause_of(const std::string&) const { return ""; }
  const Job& job() const { return job_; }

 protected:
  // `inputs`: what the ranks hold of the job's inputs.
  JudgedProgram(Job job, std::vector<LocalTensor> inputs, const Registries& registries)
      : job_(std::move(job)), inputs_(std::move(inputs)), registries_(registries) {}
  // The parts that the ranks hold of the inputs of `lifted`, the same job with all floats lifted.
  std::vector<LocalTensor> lifted_inputs(const Job& lifted) const;
  Job job_;
  std::vector<LocalTensor> inputs_;
  const Registries& registries_;
};

// Makers of the two kinds; the program has been lowered already.
std::unique_ptr<JudgedProgram> make_judged_global(Job job, std::vector<LocalTensor> inputs,
                                                  GlobalProgram program,
                                                  const Registries& registries);
std::unique_ptr<JudgedProgram> make_judged_ranks(Job job, std::vector<LocalTensor> inputs,
                                                 RankProgram program,
                                                 std::optional<GlobalProgram> truth,
                                                 const Registries& registries);

// --- what both kinds have in common

PartitionOptions partition_options(const Job& job);
std::vector<Tensor> global_inputs(const Job& job);
void reduce_in_order(SpmdProgram& program, const ReductionSchedule& order);
// True if the caller wants the value of this name.
bool keeps(const Job& job, const std::string& name);
std::string line_text(const std::vector<std::string>& lines, int line);
// Errors of kernels and of the reference are bad input found while running.
[[noreturn]] void rethrow(const Error& error, const std::string& path);
// "it is f32, but line 2 reduces over dp in bf16"; "" where there is no such step.
std::string precision_cause(const MeasuredPrecision& measured, const std::string& step);
bool is_narrow_float(DType dtype);
// For each element of an input that lies as partial sums, the sum of the sizes of its parts in f64;
// empty for all other values.
std::vector<double> input_part_sizes(const Job& job, const GlobalProgram& program, ValueId id);

}  // namespace shardproof
