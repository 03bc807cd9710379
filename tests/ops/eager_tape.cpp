// Implements eager_tape.h: a walk over the recorded calls from the last to the first.
#include "shardproof/tests/ops/eager_tape.h"

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/run_single_device.h"

namespace shardproof::testing {

// Emits the ops of a decomposition: handles are those of the tape.
class EagerTape::Builder : public OpBuilder {
 public:
  Builder(EagerTape& tape, const std::vector<int>& inputs) : tape_(tape), inputs_(inputs) {}
  int input(int i) override {
    return i < static_cast<int>(inputs_.size()) ? inputs_[static_cast<size_t>(i)] : kAbsent;
  }
  std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) override {
    return tape_.run(name, std::move(attrs), inputs);
  }
  int number(Number value) override {
    const bool real = value.is_double();
    const double as_double = real ? value.real() : static_cast<double>(value.integer());
    return tape_.leaf(tensor_of(real ? DType::f64 : DType::i64, {}, {as_double}), true);
  }
  const TensorMeta& meta(int value) override { return tape_.meta(value); }

 private:
  EagerTape& tape_;
  const std::vector<int>& inputs_;
};

class EagerTape::CallGradient : public GradientBuilder {
 public:
  CallGradient(EagerTape& tape, const Entry& entry, std::vector<int> cotangents,
               std::vector<bool> wanted)
      : builder_(tape, entry.inputs),
        entry_(entry),
        cotangents_(std::move(cotangents)),
        wanted_(std::move(wanted)) {}
  int input(int i) override { return builder_.input(i); }
  std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) override {
    return builder_.ops(name, std::move(attrs), std::move(inputs));
  }
  int number(Number value) override { return builder_.number(std::move(value)); }
  const TensorMeta& meta(int value) override { return builder_.meta(value); }
  int output(int o) override { return entry_.outputs.at(static_cast<size_t>(o)); }
  int cotangent(int o) override { return cotangents_.at(static_cast<size_t>(o)); }
  bool wanted(int i) override { return wanted_.at(static_cast<size_t>(i)); }

 private:
  Builder builder_;
  const Entry& entry_;
  std::vector<int> cotangents_;
  std::vector<bool> wanted_;
};

int EagerTape::leaf(const Tensor& value, bool weak) {
  values_.push_back({value, {value.dtype, value.shape, weak, false}});
  return static_cast<int>(values_.size()) - 1;
}

OpCall EagerTape::call_of(const Attrs& attrs, const std::vector<int>& inputs, size_t wanted) const {
  OpCall call{&attrs, {}, wanted};
  for (const int handle : inputs) {
    call.inputs.push_back(handle == kAbsent ? TensorMeta{} : meta(handle));
    call.inputs.back().absent = handle == kAbsent;
  }
  return call;
}

std::vector<int> EagerTape::run_kernel(const OpRecord& record, const OpCall& call,
                                       const std::vector<int>& inputs) {
  std::vector<const Tensor*> tensors;
  for (const int handle : inputs) tensors.push_back(handle == kAbsent ? nullptr : &value(handle));
  std::vector<int> outputs;
  for (const Tensor& tensor : run_once(record, call, tensors)) outputs.push_back(leaf(tensor));
  return outputs;
}

std::vector<int> EagerTape::run(const std::string& op, Attrs attrs, const std::vector<int>& inputs,
                                size_t wanted) {
  const OpRecord& record = ops_.at(op);
  record.fill_fallbacks(attrs);
  const OpCall call = call_of(attrs, inputs, wanted);
  const bool composite = record.is_composite(call), whole = record.gradient_of(call) != nullptr;
  const bool recorded = recording_;
  std::vector<int> outputs;
  if (composite) {
    recording_ = recorded && !whole;
    Builder builder(*this, inputs);
    outputs = record.expand(call, builder);
    recording_ = recorded;
  } else {
    outputs = run_kernel(record, call, inputs);
  }
  if (recorded && (whole || !composite))
    entries_.push_back({&record, attrs, inputs, outputs, wanted});
  return outputs;
}

bool EagerTape::carries_gradient(int handle) const {
  if (handle == kAbsent || meta(handle).weak) return false;
  return is_floating(meta(handle).dtype) || is_complex(meta(handle).dtype);
}

std::vector<int> EagerTape::gradients(const std::vector<std::pair<int, int>>& cotangents,
                                      const std::vector<int>& wrt) {
  std::vector<bool> depends(values_.size(), false);
  for (const int handle : wrt) depends[static_cast<size_t>(handle)] = true;
  const auto wants = [&](int handle) {
    return carries_gradient(handle) && depends[static_cast<size_t>(handle)];
  };
  const size_t count = entries_.size();
  for (size_t i = 0; i < count; ++i) {
    bool any = false;
    for (const int handle : entries_[i].inputs) any = any || wants(handle);
    if (any)
      for (const int handle : entries_[i].outputs) depends[static_cast<size_t>(handle)] = true;
  }
  std::vector<int> found(values_.size(), kAbsent);
  const auto add = [&](int handle, int gradient) {
    int& sum = found[static_cast<size_t>(handle)];
    sum = sum == kAbsent ? gradient : run("add", {}, {sum, gradient}).front();
  };
  for (const auto& [value, cotangent] : cotangents) add(value, cotangent);
  for (size_t i = count; i-- > 0;) {
    const Entry entry = entries_[i];
    std::vector<bool> wanted;
    std::vector<int> given;
    bool any_wanted = false, any_given = false;
    for (const int handle : entry.inputs) {
      wanted.push_back(wants(handle));
      any_wanted = any_wanted || wanted.back();
    }
    for (const int handle : entry.outputs) {
      given.push_back(carries_gradient(handle) ? found[static_cast<size_t>(handle)] : kAbsent);
      any_given = any_given || given.back() != kAbsent;
    }
    if (!any_wanted || !any_given || entry.record->differentiable != Differentiable::yes) continue;
    const OpCall call = call_of(entry.attrs, entry.inputs, entry.wanted);
    const GradientRule* rule = entry.record->gradient_of(call);
    if (!rule) throw_bad_input("{} has no gradient", entry.record->name);
    CallGradient builder(*this, entry, given, wanted);
    const std::vector<int> parts = (*rule)(call, builder);
    for (size_t k = 0; k < parts.size(); ++k) {
      if (parts[k] == kAbsent) continue;
      SP_CHECK(meta(parts[k]).shape == meta(entry.inputs[k]).shape &&
                   meta(parts[k]).dtype == meta(entry.inputs[k]).dtype,
               "{}: gradient {} has another shape or dtype than the input", entry.record->name, k);
      add(entry.inputs[k], parts[k]);
    }
  }
  std::vector<int> results;
  for (const int handle : wrt) results.push_back(found[static_cast<size_t>(handle)]);
  return results;
}

}  // namespace shardproof::testing
