// Implements the composite ops of lowering.h: Lowering::emit writes the decomposition of an op in
// place of the op. The decomposition depends on attributes and shapes. So it is made for each class
// of lanes with equal ones, and the results of the classes are merged.
//
// Example: on ranks 0-3, x has 4 rows on ranks 0-2 and 3 rows on rank 3. A composite op that
// divides by the number of rows is expanded twice: with `/ 4` for ranks 0-2, and with `/ 3` for
// rank 3. A Merge joins both results.
#include <algorithm>
#include <deque>

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
    std::vector<ValueId> ids;
    for (const int handle : inputs) ids.push_back(handle == kAbsent ? kNoValue : id_of(handle));
    std::vector<int> results;
    for (const ValueId id : lowering_.emit(record, {{lowering_.lanes_, std::move(attrs)}}, ids, 1))
      results.push_back(add(id));
    return results;
  }
  int number(Number value) override {
    return add(lowering_.value_of({lowering_.lanes_, {std::move(value)}}));
  }
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
  if (!op.decompositions.empty()) {
    OpCall first{&attrs.at(0).attrs, {}, wanted};
    first.inputs.reserve(inputs.size());
    for (const ValueId id : inputs) first.inputs.push_back(meta_of(id));
    if (op.is_composite(first)) return emit_composite(op, attrs, inputs, wanted);
  }
  if (!tape_) return emit_op(op, std::move(attrs), std::move(inputs));
  std::vector<ValueId> outputs = emit_op(op, attrs, inputs);
  record_op(op, std::move(attrs), inputs, outputs, wanted);
  return outputs;
}

std::vector<ValueId> Lowering::emit_composite(const OpRecord& op,
                                              const std::vector<LaneAttrs>& attrs,
                                              const std::vector<ValueId>& inputs, size_t wanted) {
  const Lanes all = lanes_;
  std::vector<std::vector<std::pair<Lanes, ValueId>>> results;
  for (const LaneAttrs& entry : attrs) {
    lanes_ = entry.lanes;
    for (const Lanes& lanes : equal_shapes(inputs)) {
      lanes_ = lanes;
      Expander builder(*this, op.name, inputs);
      const OpCall call{&entry.attrs, builder.metas(), wanted};
      const bool own = tape_ && op.gradient_of(call) != nullptr;
      std::vector<ValueId> made;
      {
        const Tape::Pause pause(own ? tape_.get() : nullptr);
        for (const int handle : op.expand(call, builder)) made.push_back(builder.id_of(handle));
      }
      // A result that is an input has the gradient of that input already.
      const bool passes = std::any_of(made.begin(), made.end(), [&](ValueId id) {
        return std::find(inputs.begin(), inputs.end(), id) != inputs.end();
      });
      if (own && !passes) record_op(op, {{lanes, entry.attrs}}, inputs, made, wanted);
      results.resize(made.size());
      for (size_t i = 0; i < made.size(); ++i) results[i].emplace_back(lanes, made[i]);
    }
  }
  lanes_ = all;
  std::vector<ValueId> values;
  for (const auto& parts : results)
    values.push_back(parts.size() == 1 ? parts[0].second : merge(parts));
  return values;
}

}  // namespace shardproof
