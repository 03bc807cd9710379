// Implements apply_lowering_rule.h with a builder on the partitioner. An op that a rule uses is
// itself a composite, or it is emitted with placements of its own.
//
// Example: softmax(x, dim=1) of x as tp:S(1) becomes
//
//   m = amax(x, dim=[1], keepdim=true)   tp:P(max)   m = redistribute(m, tp:R)
//   e = exp(x - m)                       tp:S(1)
//   s = sum(e, dim=[1], keepdim=true)    tp:P(sum)   s = redistribute(s, tp:R)
//   y = e / s                            tp:S(1)
//
// Handles 0 .. inputs - 1 are the inputs; each op appends its results.
#include "shardproof/engine/partition/apply_lowering_rule.h"

#include <deque>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

// Builds the ops of a rule in a Partitioner. Handles are indices into `values_`.
class Lowerer : public LowerBuilder {
 public:
  Lowerer(Partitioner& partitioner, const std::vector<PlacedValue>& inputs)
      : partitioner_(partitioner), values_(inputs.begin(), inputs.end()) {}

  int input(int i) override { return at(i).meta.absent ? kAbsent : i; }

  std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) override {
    attrs_.push_back(std::move(attrs));
    std::vector<PlacedValue> placed;
    for (int handle : inputs) {
      placed.push_back(handle < 0 ? PlacedValue{} : at(handle));
      if (handle < 0) placed.back().meta.absent = true;
    }
    const OpRecord& record = partitioner_.ops_.at(name);
    record.fill_fallbacks(attrs_.back());
    std::vector<int> results;
    for (PlacedValue& result : emit(record, attrs_.back(), placed)) {
      values_.push_back(std::move(result));
      results.push_back(last());
    }
    return results;
  }

  int number(Number value) override {
    values_.push_back(partitioner_.number(std::move(value)));
    return last();
  }

  int redistribute(int value, const std::vector<Placement>& placements) override {
    const Spec& now = spec(value);
    values_.push_back(partitioner_.redistribute(
        at(value), Spec(now.mesh(), placements, now.shape(), now.dtype(), now.order()), false));
    return last();
  }

  int replicate_partials(int value) override {
    std::vector<Placement> placements = spec(value).placements();
    for (Placement& p : placements)
      if (p.is_partial()) p = R();
    return redistribute(value, placements);
  }

  const Spec& spec(int value) override {
    SP_CHECK(at(value).spec, "a number has no placements");
    return *at(value).spec;
  }
  const TensorMeta& meta(int value) override { return at(value).meta; }
  PlacedValue& at(int handle) { return values_[static_cast<size_t>(handle)]; }

 private:
  int last() const { return static_cast<int>(values_.size()) - 1; }
  std::vector<PlacedValue> emit(const OpRecord& record, const Attrs& attrs,
                                const std::vector<PlacedValue>& inputs) {
    OpCall call{&attrs, {}};
    for (const PlacedValue& input : inputs) call.inputs.push_back(input.meta);
    if (!record.is_composite(call)) return partitioner_.emit_op(record, attrs, inputs);
    Lowerer inner(partitioner_, inputs);
    std::vector<PlacedValue> results;
    for (int handle : record.expand(call, inner)) results.push_back(inner.at(handle));
    return results;
  }

  Partitioner& partitioner_;
  std::deque<PlacedValue> values_;
  std::deque<Attrs> attrs_;
};

std::vector<PlacedValue> lower_op(Partitioner& partitioner, const OpRecord& op, const OpCall& call,
                                  const std::vector<Spec>& specs,
                                  const std::vector<PlacedValue>& inputs) {
  Lowerer lowerer(partitioner, inputs);
  std::vector<PlacedValue> results;
  for (int handle : op.rule.lower(call, specs, lowerer)) results.push_back(lowerer.at(handle));
  return results;
}

}  // namespace shardproof
