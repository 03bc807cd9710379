// Implements the composite ops of lowering.h: Lowering::emit writes the decomposition of an op in
// place of the op. The decomposition depends on attributes and shapes. So it is made for each class
// of lanes with equal ones. Decompositions that differ only in attributes and numbers are emitted
// as one (formula_recorder.h); the results of others are merged.
//
// Example: on ranks 0-3, x has 4 rows on ranks 0-2 and 3 rows on rank 3. A composite op that
// divides by the number of rows is emitted once, and divides by the numbers 4, 4, 4, 3.
#include <algorithm>
#include <deque>

#include "shardproof/engine/lower/formula_recorder.h"
#include "shardproof/engine/lower/lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/type_promotion.h"

namespace shardproof {

// Builds the ops of a decomposition in a Lowering. Handles are indices into `metas_` and `ids_`.
class Lowering::Expander : public OpBuilder {
 public:
  Expander(Lowering& lowering, std::string name, const std::vector<ValueId>& inputs)
      : lowering_(lowering), name_(std::move(name)) {
    for (const ValueId id : inputs) add(id);
  }
  int input(int i) override { return id_of(i) == kNoValue ? kAbsent : i; }
  std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) override {
    const OpRecord& record = lowering_.ops_.at(name);
    record.fill_fallbacks(attrs);
    return emit_op(record, {{lowering_.lanes_, std::move(attrs)}}, inputs);
  }
  int number(Number value) override { return emit_number({lowering_.lanes_, {std::move(value)}}); }
  std::vector<int> emit_op(const OpRecord& record, std::vector<LaneAttrs> attrs,
                           const std::vector<int>& inputs) {
    std::vector<ValueId> ids;
    for (const int handle : inputs) ids.push_back(handle == kAbsent ? kNoValue : id_of(handle));
    std::vector<int> results;
    for (const ValueId id : lowering_.emit(record, std::move(attrs), ids, 1))
      results.push_back(add(id));
    return results;
  }
  int emit_number(const PerRankNumber& value) { return add(lowering_.value_of(value)); }
  int cotangent(int) { SP_UNREACHABLE("a decomposition has no cotangents"); }
  const TensorMeta& meta(int value) override { return metas_[static_cast<size_t>(value)]; }
  void depend_on_sizes() override {
    if (!lowering_.has_known_sizes())
      throw_bad_input(
          "{} depends on the sizes of its inputs, which differ by rank inside `as`; compute it on "
          "a "
          "line before",
          name_);
  }
  ValueId id_of(int handle) const { return ids_[static_cast<size_t>(handle)]; }
  std::vector<TensorMeta> metas() const { return {metas_.begin(), metas_.end()}; }

 private:
  int add(ValueId id) {
    ids_.push_back(id);
    metas_.push_back(lowering_.meta_of(id));
    return static_cast<int>(ids_.size()) - 1;
  }

  Lowering& lowering_;
  std::string name_;
  std::deque<TensorMeta> metas_;  // a deque, because meta() returns references
  std::vector<ValueId> ids_;
};

ValueId Lowering::value_of(const PerRankNumber& number) {
  const ValueId id = emit_number(number);
  numbers_made_[id] = number;
  return id;
}

void Lowering::check(const OpRecord& op, const std::vector<LaneAttrs>& attrs,
                     const std::vector<ValueId>& inputs, size_t wanted) {
  const Lanes all = lanes_;
  for (const LaneAttrs& entry : attrs) {
    lanes_ = entry.lanes;
    for (const Lanes& lanes : equal_shapes(inputs)) {
      lanes_ = lanes;
      OpCall call{&entry.attrs, {}, wanted};
      std::vector<const Number*> numbers;
      for (const ValueId id : inputs) {
        call.inputs.push_back(meta_of(id));
        const auto made = numbers_made_.find(id);
        numbers.push_back(made == numbers_made_.end() ? nullptr : &made->second.on(lanes[0]));
      }
      op.check(call, numbers);
    }
  }
  lanes_ = all;
}

void Lowering::wrap_numbers(const std::vector<LaneAttrs>& attrs, std::vector<ValueId>& inputs) {
  const bool any = std::any_of(inputs.begin(), inputs.end(),
                               [&](ValueId id) { return numbers_made_.contains(id); });
  if (!any) return;
  OpCall call{&attrs.at(0).attrs, {}};
  for (const ValueId id : inputs) call.inputs.push_back(meta_of(id));
  const DType common = result_dtype(call);
  if (!is_integral(common)) return;
  for (ValueId& id : inputs) {
    const auto made = numbers_made_.find(id);
    if (made == numbers_made_.end()) continue;
    PerRankNumber number = made->second;
    for (Number& value : number.values) value = wrapped(value, common);
    if (!(number.values == made->second.values)) id = value_of(number);
  }
}

std::vector<ValueId> Lowering::emit(const OpRecord& op, std::vector<LaneAttrs> attrs,
                                    std::vector<ValueId> inputs, size_t wanted) {
  if (op.check) check(op, attrs, inputs, wanted);
  if (op.wraps_numbers) wrap_numbers(attrs, inputs);
  if (!op.decompositions.empty() && !repeats_op(op, attrs, inputs, wanted)) {
    OpCall first{&attrs.at(0).attrs, {}, wanted};
    first.inputs.reserve(inputs.size());
    for (const ValueId id : inputs) first.inputs.push_back(meta_of(id));
    if (op.is_composite(first)) return emit_composite(op, attrs, inputs, wanted);
  }
  if (!tape_) return emit_op(op, std::move(attrs), std::move(inputs), wanted);
  std::vector<ValueId> outputs = emit_op(op, attrs, inputs, wanted);
  record_op(op, std::move(attrs), inputs, outputs, wanted);
  return outputs;
}

namespace {

// Expands a composite op. An error names the op that the author wrote, too.
std::vector<int> expanded(const OpRecord& op, const OpCall& call, OpBuilder& builder) try {
  return op.expand(call, builder);
} catch (const Error& error) {
  if (error.message().starts_with(op.name)) throw;
  throw Error(error.kind(), fmt::format("{}: {}", op.name, error.message()), error.where());
}

}  // namespace

// Returns the decomposition on each of the classes in groups that are emitted as one; empty if one
// of them fails: its emission reports the error with its place.
std::vector<std::vector<RecordedFormula>> Lowering::decompositions(
    const OpRecord& op, const std::vector<LaneAttrs>& classes, const std::vector<ValueId>& inputs,
    size_t wanted) try {
  std::vector<RecordedFormula> formulas;
  for (const auto& [lanes, attrs] : classes) {
    lanes_ = lanes;
    OpCall call{&attrs, {}, wanted};
    for (const ValueId id : inputs) call.inputs.push_back(meta_of(id));
    FormulaRecorder recorder(ops_, call.inputs, inputs.size());
    const std::vector<int> results = op.expand(call, recorder);
    formulas.push_back({lanes, attrs, op.gradient_of(call), recorder.steps(), results});
  }
  return alike(std::move(formulas));
} catch (const Error&) {
  return {};
}

std::vector<ValueId> Lowering::emit_composite(const OpRecord& op,
                                              const std::vector<LaneAttrs>& attrs,
                                              const std::vector<ValueId>& inputs, size_t wanted) {
  const Lanes all = lanes_;
  std::vector<LaneAttrs> classes;
  for (const LaneAttrs& entry : attrs) {
    lanes_ = entry.lanes;
    for (const Lanes& lanes : equal_shapes(inputs)) classes.push_back({lanes, entry.attrs});
  }
  std::vector<std::vector<RecordedFormula>> groups;
  if (classes.size() > 1) groups = decompositions(op, classes, inputs, wanted);
  if (groups.empty())
    for (const LaneAttrs& one : classes)
      groups.push_back({{one.lanes, one.attrs, nullptr, {}, {}}});
  std::vector<std::vector<std::pair<Lanes, ValueId>>> results;
  for (const std::vector<RecordedFormula>& group : groups) {
    lanes_ = lanes_of_group(group);
    Expander builder(*this, op.name, inputs);
    const OpCall call{&group[0].attrs, builder.metas(), wanted};
    const bool own = tape_ && op.gradient_of(call) != nullptr;
    std::vector<ValueId> made;
    {
      const Tape::Pause pause(own ? tape_.get() : nullptr);
      if (group.size() > 1) emit_group(group, builder);
      for (const int handle : group.size() > 1 ? group[0].results : expanded(op, call, builder))
        made.push_back(builder.id_of(handle));
    }
    // A result that is an input has the gradient of that input already.
    const bool passes = std::any_of(made.begin(), made.end(), [&](ValueId id) {
      return std::find(inputs.begin(), inputs.end(), id) != inputs.end();
    });
    if (own && !passes) record_op(op, attrs_of_call(group), inputs, made, wanted);
    results.resize(made.size());
    for (size_t i = 0; i < made.size(); ++i) results[i].emplace_back(lanes_, made[i]);
  }
  lanes_ = all;
  std::vector<ValueId> values;
  for (const auto& parts : results)
    values.push_back(parts.size() == 1 ? parts[0].second : merge(parts));
  return values;
}

}  // namespace shardproof
