// Implements own_dtypes_case.h: lowers the job of a case again, with the dtypes of its author.
#include "shardproof/engine/judging/own_dtypes_case.h"

#include <algorithm>
#include <cmath>

#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

bool has_floats_below_f64(const RankProgram& ranks, const GlobalProgram& truth) {
  const auto is_below = [](const auto& value) {
    return !is_exact(value.dtype) && component_dtype(value.dtype) != DType::f64;
  };
  return std::any_of(ranks.program.values.begin(), ranks.program.values.end(), is_below) ||
         std::any_of(truth.values.begin(), truth.values.end(), is_below);
}

// One device that overflows may take another branch than the ranks. Collects the values that do not
// come after that.
class ValuesInRange : public OwnDtypeJudge {
 public:
  using OwnDtypeJudge::OwnDtypeJudge;
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override {
    const Judgement found = OwnDtypeJudge::judge(value, reference);
    for (const int index : reference.line())
      for (const ValueId id : reference.plan().program().instrs[static_cast<size_t>(index)].outputs)
        if (const Tensor* const made = reference.find(id); made != nullptr && !is_finite(*made))
          has_overflowed_ = true;
    if (!has_overflowed_) keys_.insert(value.key);
    return found;
  }
  const std::set<std::string>& keys() const { return keys_; }

 private:
  static bool is_finite(const Tensor& tensor) {
    if (is_exact(tensor.dtype)) return true;
    const Tensor dense = contiguous_copy(tensor);
    for (int64_t i = 0; i < dense.elements(); ++i)
      if (!std::isfinite(magnitude_at(dense, i))) return false;
    return true;
  }
  bool has_overflowed_ = false;
  std::set<std::string> keys_;
};

}  // namespace

std::unique_ptr<OwnDtypesCase> OwnDtypesCase::make(const RankCase& lifted) try {
  std::unique_ptr<OwnDtypesCase> own(new OwnDtypesCase(lifted));
  own->job_ = to_lower(lifted.job, lifted.dtypes);
  own->ranks_ = lower_ranks_of(own->job_, own->about());
  own->truth_ = lower_truth_of(own->job_, own->about());
  if (!has_floats_below_f64(own->ranks_, own->truth_)) return nullptr;
  for (JobInput& input : own->job_.inputs) input.data = as_dtype(input.data, input.spec.dtype());
  own->inputs_ = split_inputs(own->job_);
  return own;
} catch (const Error&) {
  return nullptr;
}

RankCase OwnDtypesCase::about() const {
  return {job_, inputs_, ranks_, truth_, lifted_.registries, lifted_.dtypes, nullptr, false};
}

std::optional<std::set<std::string>> OwnDtypesCase::imprecise_with(
    const RankProgram& ranks, const std::set<std::string>& wrong) const {
  const std::unique_ptr<JudgedProgram> program = make_judged_ranks(
      job_, inputs_, std::make_shared<RankProgram>(ranks), truth_, lifted_.registries);
  const EvaluationPlan lifted(lifted_.truth, lifted_.registries.ops);
  OwnDtypeJudge::Options options;
  options.lifted = [&]() -> const EvaluationPlan& { return lifted; };
  options.inputs_in_parts = program->inputs_in_parts();
  options.measures_f64 = true;
  ValuesInRange judge(options);
  if (has_unfinished_ranks(program->run(judge, {.keeps_all = true}).findings)) return std::nullopt;
  judge.measure_open_values(wrong);
  std::set<std::string> found;
  for (const MeasuredPrecision& one : judge.precision())
    if (judge.keys().contains(one.key) && (one.precision.ratio > kPrecisionLimit || is_lost(one)))
      found.insert(one.key);
  return found;
}

}  // namespace shardproof
