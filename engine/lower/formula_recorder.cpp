// Implements formula_recorder.h. Shapes and dtypes of results come from the ops' shape inference.
#include "shardproof/engine/lower/formula_recorder.h"

#include <algorithm>

namespace shardproof {

void FormulaRecorder::set_gradient(std::vector<std::optional<TensorMeta>> cotangents,
                                   std::vector<bool> wanted) {
  cotangents_ = std::move(cotangents);
  handles_.assign(cotangents_.size(), -1);
  wanted_ = std::move(wanted);
}

int FormulaRecorder::add(FormulaStep step, const std::vector<TensorMeta>& results) {
  const int first = static_cast<int>(metas_.size());
  for (const TensorMeta& meta : results) {
    metas_.push_back(meta);
    step.results.emplace_back(meta.dtype, meta.weak);
  }
  steps_.push_back(std::move(step));
  return first;
}

int FormulaRecorder::cotangent(int o) {
  const auto at = static_cast<size_t>(o);
  if (!cotangents_[at]) return kAbsent;
  if (handles_[at] >= 0) return handles_[at];
  FormulaStep step;
  step.cotangent = o;
  return handles_[at] = add(std::move(step), {*cotangents_[at]});
}

int FormulaRecorder::number(Number value) {
  FormulaStep step;
  const DType dtype = dtype_of(value);
  step.number = std::move(value);
  return add(std::move(step), {{dtype, {}, true, false}});
}

// A composite op has no shape inference of its own: its results are those of its decomposition.
std::vector<TensorMeta> FormulaRecorder::results_of(const OpRecord& op, const OpCall& call) const {
  if (op.decompositions.empty() || !op.is_composite(call)) return op.infer(call);
  FormulaRecorder nested(ops_, call.inputs, call.inputs.size());
  std::vector<TensorMeta> results;
  for (const int handle : op.expand(call, nested)) results.push_back(nested.meta(handle));
  return results;
}

std::vector<int> FormulaRecorder::ops(const std::string& name, Attrs attrs,
                                      std::vector<int> inputs) {
  FormulaStep step;
  step.op = &ops_.at(name);
  step.op->fill_fallbacks(attrs);
  step.attrs = std::move(attrs);
  OpCall call{&step.attrs, {}, 1};
  for (const int handle : inputs)
    call.inputs.push_back(handle == kAbsent ? TensorMeta{DType::f32, {}, false, true}
                                            : metas_[static_cast<size_t>(handle)]);
  const std::vector<TensorMeta> results = results_of(*step.op, call);
  step.inputs = std::move(inputs);
  std::vector<int> handles(results.size());
  int next = add(std::move(step), results);
  for (int& handle : handles) handle = next++;
  return handles;
}

namespace {

bool are_alike(const FormulaStep& a, const FormulaStep& b) {
  return a.op == b.op && a.inputs == b.inputs && a.cotangent == b.cotangent &&
         a.number.has_value() == b.number.has_value() && a.results == b.results;
}

bool differ_only_in_sizes(const RecordedFormula& a, const RecordedFormula& b) {
  return a.gradient == b.gradient && a.results == b.results &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), are_alike);
}

void add_attrs(const Lanes& lanes, const Attrs& attrs, std::vector<LaneAttrs>& to) {
  const auto same = std::find_if(to.begin(), to.end(),
                                 [&](const LaneAttrs& known) { return known.attrs == attrs; });
  if (same == to.end())
    to.push_back({lanes, attrs});
  else
    same->lanes = same->lanes.unite(lanes);
}

}  // namespace

std::vector<std::vector<RecordedFormula>> alike(std::vector<RecordedFormula> formulas) {
  std::vector<std::vector<RecordedFormula>> groups;
  for (RecordedFormula& formula : formulas) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& known) {
      return differ_only_in_sizes(known[0], formula);
    });
    if (group == groups.end())
      groups.push_back({std::move(formula)});
    else
      group->push_back(std::move(formula));
  }
  return groups;
}

std::vector<LaneAttrs> attrs_of_step(const std::vector<RecordedFormula>& group, size_t step) {
  std::vector<LaneAttrs> attrs;
  for (const RecordedFormula& formula : group)
    add_attrs(formula.lanes, formula.steps[step].attrs, attrs);
  return attrs;
}

std::vector<LaneAttrs> attrs_of_call(const std::vector<RecordedFormula>& group) {
  std::vector<LaneAttrs> attrs;
  for (const RecordedFormula& formula : group) add_attrs(formula.lanes, formula.attrs, attrs);
  return attrs;
}

PerRankNumber number_of_step(const std::vector<RecordedFormula>& group, size_t step) {
  const Number& first = *group[0].steps[step].number;
  PerRankNumber number{lanes_of_group(group), {}};
  if (std::all_of(group.begin(), group.end(), [&](const RecordedFormula& formula) {
        return *formula.steps[step].number == first;
      })) {
    number.values = {first};
    return number;
  }
  for (int64_t i = 0; i < number.lanes.size(); ++i)
    for (const RecordedFormula& formula : group)
      if (formula.lanes.contains(number.lanes[i]))
        number.values.push_back(*formula.steps[step].number);
  return number;
}

Lanes lanes_of_group(const std::vector<RecordedFormula>& group) {
  Lanes lanes;
  for (const RecordedFormula& formula : group) lanes = lanes.unite(formula.lanes);
  return lanes;
}

}  // namespace shardproof
