// Implements explaining_judge.h.
#include "shardproof/engine/check/explaining_judge.h"

#include "shardproof/engine/explain.h"

namespace shardproof {
namespace {

std::map<std::string, const JudgedValue*> by_key(const std::vector<JudgedValue>& values) {
  std::map<std::string, const JudgedValue*> result;
  for (const JudgedValue& value : values) result.emplace(value.key, &value);
  return result;
}

}  // namespace

DifferenceJudge::DifferenceJudge(const std::vector<JudgedValue>& wrong) : wanted_(by_key(wrong)) {}

Judgement DifferenceJudge::judge(const ComparedValue& value, ReferenceRun& reference) {
  if (const auto found = wanted_.find(value.key); found != wanted_.end()) {
    const Tensor truth = reference.value(value.global);
    differences_.insert_or_assign(value.key, difference_of(value, truth, found->second->elements));
  }
  return Judgement::right;
}

const Difference* DifferenceJudge::find(const std::string& key) const {
  const auto found = differences_.find(key);
  return found == differences_.end() ? nullptr : &found->second;
}

ExplainingJudge::ExplainingJudge(const std::vector<JudgedValue>& wrong,
                                 const JudgedProgram& program, Options options)
    : wanted_(by_key(wrong)), program_(program), options_(options) {}

Judgement ExplainingJudge::judge(const ComparedValue& value, ReferenceRun& reference) {
  const auto found = wanted_.find(value.key);
  if (found == wanted_.end()) return Judgement::right;
  const Tensor truth = reference.value(value.global);
  Difference difference = difference_of(value, truth, found->second->elements);
  const Difference* own = options_.own != nullptr ? options_.own->find(value.key) : nullptr;
  if (own != nullptr && denies(*own, difference)) return Judgement::right;
  difference.right_as = right_as(value.value, value.spec, difference.truth, options_.alike);
  const ValueLabel label = value.label_for ? value.label_for(difference.ranks) : value.label;
  ExplainedValue explained{
      value.global,
      explain_difference({label, value.spec, value.global}, difference, own, reference),
      compare_replicas(value.value, value.spec).has_value()};
  std::vector<ValueId> earlier;
  for (const ExplainedValue& one : explained_) earlier.push_back(one.global);
  program_.explain(value, earlier, explained.finding);
  explained_.push_back(std::move(explained));
  return Judgement::wrong;
}

Tensor ExplainingJudge::held(const ComparedValue& value, const ReferenceRun& reference) {
  if (options_.integers != nullptr)
    if (const auto own = options_.integers->find(value.global); own != options_.integers->end())
      return own->second;
  return Judge::held(value, reference);
}

}  // namespace shardproof
