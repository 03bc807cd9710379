// Implements the findings of partitioner.h about calls that the author did not write.
//
// A redistribution before an op is a finding of its own. All calls that the rule of an op makes,
// also those of the ops that the rule emits, are one finding.
//
// Example: x is [8, 12] as tp:S(1), and line 2 is `y = rms_norm(x, w)`. The rule sums squares over
// the cut dim, so the finding is
//
//   rms_norm of x as tp:S(1) makes 1 call that is not written
//     adds all_reduce over tp: tp:P(sum) -> R
//     fix     write x = redistribute(x, R) before it
#include <utility>

#include "shardproof/engine/partition/apply_lowering_rule.h"
#include "shardproof/engine/partition/partitioner.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

std::string call_line(const PlanStep& step) {
  const Mesh& mesh = step.from.mesh();
  std::string over;
  for (const int axis : step.axes) {
    if (!over.empty()) over += "+";
    over += mesh.axes()[static_cast<size_t>(axis)].name;
  }
  if (!over.empty()) over = " over " + over;
  if (step.pieces > 1) over += fmt::format(" in {} pieces", step.pieces);
  return fmt::format("adds {}{}: {} -> {}", name(step.kind), over, placements_text(step.from),
                     placements_text(step.to));
}

// Returns the placements of a value with R on all axes that the calls go over.
Spec without_axes(const Spec& spec, const std::vector<PlanStep>& calls) {
  std::vector<Placement> placements = spec.placements();
  for (const PlanStep& call : calls)
    for (const int axis : call.axes) placements[static_cast<size_t>(axis)] = R();
  return Spec(spec.mesh(), std::move(placements), spec.shape(), spec.dtype(), spec.order());
}

// Returns the first input that one of the calls' axes cuts or leaves partial; null if there is
// none.
const PlacedValue* split_input(const std::vector<PlacedValue>& inputs,
                               const std::vector<PlanStep>& calls) {
  for (const PlacedValue& input : inputs)
    if (input.spec && input.spec->mesh() == calls.front().from.mesh() &&
        !(without_axes(*input.spec, calls) == *input.spec))
      return &input;
  return nullptr;
}

// Returns "b:S(1) a:R": redistribute(..) leaves an axis as it is that is not named.
std::string changed_placements(const Spec& from, const Spec& to) {
  std::string text = placements_text(to);
  for (int axis = 0; text != "R" && axis < to.mesh().axis_count(); ++axis)
    if (to.placement(axis).is_replicate() && !from.placement(axis).is_replicate())
      text += fmt::format(" {}:R", to.mesh().axes()[static_cast<size_t>(axis)].name);
  return text;
}

std::string fix_of(const PlacedValue& value, const Spec& to) {
  if (value.name.empty())
    return fmt::format("give the value a line of its own, and redistribute it to {} there",
                       placements_text(to));
  return fmt::format("write {0} = redistribute({0}, {1}) before it", value.name,
                     changed_placements(*value.spec, to));
}

}  // namespace

void Partitioner::note_unwritten(const PlacedValue& value, const Spec& to, const Plan& plan) {
  if (!options_.explicit_only || quiet_) return;
  std::vector<PlanStep> calls;
  for (const PlanStep& step : plan.steps)
    if (step.kind != StepKind::local) calls.push_back(step);
  if (rule_calls_ != nullptr) {
    rule_calls_->insert(rule_calls_->end(), calls.begin(), calls.end());
    return;
  }
  Finding finding;
  finding.verdict = Verdict::unwritten_redistribution;
  finding.line = origin_.line;
  finding.instance = origin_.instance;
  finding.name = value.name;
  finding.ranks = to.mesh().ranks();
  finding.headline = fmt::format("{} is {}, and this line needs it as {}",
                                 value.name.empty() ? "a value of this line" : value.name,
                                 placements_text(*value.spec), placements_text(to));
  for (const PlanStep& call : calls) finding.details.push_back(call_line(call));
  finding.fix = fix_of(value, to);
  result_.unwritten.push_back(std::move(finding));
}

std::vector<PlacedValue> Partitioner::apply_rule(const OpRecord& op, const OpCall& call,
                                                 const std::vector<Spec>& specs,
                                                 const std::vector<PlacedValue>& inputs) {
  if (rule_calls_ != nullptr || quiet_) return lower_op(*this, op, call, specs, inputs);
  std::vector<PlanStep> calls;
  rule_calls_ = &calls;
  std::vector<PlacedValue> results;
  try {
    results = lower_op(*this, op, call, specs, inputs);
  } catch (const Error&) {
    rule_calls_ = nullptr;
    throw;
  }
  rule_calls_ = nullptr;
  if (calls.empty()) return results;
  Finding finding;
  finding.verdict = Verdict::unwritten_redistribution;
  finding.line = origin_.line;
  finding.instance = origin_.instance;
  finding.ranks = calls.front().from.mesh().ranks();
  std::string what = op.name;
  if (const PlacedValue* input = split_input(inputs, calls)) {
    finding.name = input->name;
    what += fmt::format(" of {} as {}", input->name.empty() ? "a value of this line" : input->name,
                        placements_text(*input->spec));
    finding.fix = fix_of(*input, without_axes(*input->spec, calls));
  }
  finding.headline = fmt::format("{} makes {} {} not written", what, calls.size(),
                                 calls.size() == 1 ? "call that is" : "calls that are");
  for (const PlanStep& step : calls) finding.details.push_back(call_line(step));
  result_.unwritten.push_back(std::move(finding));
  return results;
}

}  // namespace shardproof
