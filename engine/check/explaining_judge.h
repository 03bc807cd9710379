// ExplainingJudge: watches one more run in which nothing is freed, and turns values that other
// judges found wrong into findings. Internal to the engine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardproof/engine/check/judged_program.h"
#include "shardproof/engine/compare/f64_judge.h"

namespace shardproof {

// A finding, and what it takes to lay others beside it.
struct ExplainedValue {
  ValueId global = kNoValue;
  Finding finding;
  // Its replicas do not hold the same, so that no single value can be the reference of what
  // follows: what is computed from it is wrong on some ranks in any case.
  bool torn = false;
};

// Collects the differences of some values, by key: of the run in the program's own dtypes, whose
// numbers findings show.
class DifferenceJudge : public Judge {
 public:
  explicit DifferenceJudge(const std::vector<JudgedValue>& wrong);
  void restart() override { differences_.clear(); }
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override;
  const Difference* find(const std::string& key) const;

 private:
  std::map<std::string, const JudgedValue*> wanted_;
  std::map<std::string, Difference> differences_;
};

class ExplainingJudge : public Judge {
 public:
  struct Options {
    const std::map<ValueId, Tensor>* integers = nullptr;  // as F64Judge::Options
    const DifferenceJudge* own = nullptr;                 // null: this run is in the own dtypes
    double alike = 0x1p-20;  // of the largest element: how far two right values lie apart
  };
  ExplainingJudge(const std::vector<JudgedValue>& wrong, const JudgedProgram& program,
                  Options options);
  void restart() override { explained_.clear(); }
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override;
  Tensor held(const ComparedValue& value, const ReferenceRun& reference) override;
  // In the order of the reference program; without values that the own dtypes deny (compare.h).
  std::vector<ExplainedValue>& explained() { return explained_; }

 private:
  std::map<std::string, const JudgedValue*> wanted_;
  const JudgedProgram& program_;
  Options options_;
  std::vector<ExplainedValue> explained_;
};

}  // namespace shardproof
