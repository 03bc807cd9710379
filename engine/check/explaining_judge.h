// ExplainingJudge: observes one more run in which nothing is freed, and turns values that other
// judges found wrong into findings. Internal to the engine.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/causes/causes.h"
#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/judging/judged_program.h"

namespace shardproof {

// The wrong values that count as consequences of an earlier one that they are computed from.
enum class Consequences : uint8_t {
  // For global programs, whose lines are each judged on their own inputs: consequences of values
  // whose replicas differ. No single copy of such a value can be the reference of later lines.
  of_differing_replicas,
  // For rank programs, whose outputs are many lines apart: all.
  of_all_values,
};

struct ExplainedValue {
  Finding finding;
  int consequence_of = -1;  // index of the value that it is a consequence of; -1: of none
  // Index of an earlier value without a known cause. Both are computed by one line of the truth
  // that is not compared, so one error may make both wrong. -1: none.
  int beside = -1;
  std::string key = {};  // as ComparedValue::key
  // Keys of the wrong values that the confirmed cause explains, this one among them. Empty if no
  // cause is confirmed, and for a value that the cause of an earlier one explains.
  std::set<std::string> made_right = {};
  // Keys of wrong values that the confirmed cause does not explain.
  std::set<std::string> left_wrong = {};
  std::set<int> lines = {};  // of the reference, from the values before it that are compared
};

// Collects the differences of some values by key, in a run in the program's own dtypes. Findings
// show these numbers.
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
    const RecordedIntegers* replaced = nullptr;           // as JudgedRun::replaces
    const DifferenceJudge* own = nullptr;                 // null: this run is in the own dtypes
    double alike = 0x1p-20;  // largest difference of two right values, by the largest element
    Consequences consequences = Consequences::of_all_values;
    bool searches_causes = true;  // as in Job
  };
  ExplainingJudge(const std::vector<JudgedValue>& wrong, const JudgedProgram& program,
                  Options options);
  void restart() override;
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override;
  Tensor held(const ComparedValue& value, const ReferenceRun& reference) override;
  void was_held(const std::vector<ValueId>& ids) override;
  // Returns the findings in the order of the reference program, without values that the run in the
  // own dtypes contradicts (compare.h).
  std::vector<ExplainedValue>& explained() { return explained_; }

 private:
  std::map<std::string, const JudgedValue*> wanted_;
  const JudgedProgram& program_;
  Options options_;
  std::vector<ExplainedValue> explained_;
  std::optional<CauseSearch> search_;  // of rank programs, once a value needs it
  // By value of the reference: the wrong value that it is computed from; kNone: none.
  static constexpr int kNone = -1;
  std::map<ValueId, int> source_;
  std::map<ValueId, int> wrong_;  // index in explained_
  int source(ValueId id) const;
  int finding_of(ValueId id) const;
  bool has_known_cause(const std::string& key) const;
  void follow(const ReferenceRun& reference);
  ExplainedKeys add_cause(const ComparedValue& value, Finding& finding);
  int consequence_of(const ComparedValue& value, const ReferenceRun& reference) const;
  int value_beside(const ExplainedValue& one) const;
  std::optional<ExplainedValue> explain(const ComparedValue& value, const JudgedValue& judged,
                                        const Tensor& truth, const ReferenceRun& reference);
};

}  // namespace shardproof
