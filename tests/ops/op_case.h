// Parts shared by tests of single ops: one op of the registry run on one device, and on many lanes
// at once.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/ops/core/run_single_device.h"

namespace shardproof::testing {

// Returns small deterministic values, multiples of 1/4, of which no two neighbours are equal. They
// are exact in every float dtype but fp8.
inline Tensor filled(DType dtype, const Dims& shape, int number = 0) {
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(shape); ++i) {
    auto steps = static_cast<double>((37 * i + 11 * number) % 23 - 11);
    values.push_back(is_floating(dtype) || is_complex(dtype) ? steps / 4 : steps);
  }
  return tensor_of(dtype, shape, values);
}

class OpCase {
 public:
  OpCase(std::string op, std::vector<Tensor> inputs, Attrs attrs = {})
      : ops_(builtin_ops()), record_(ops_.at(op)), inputs_(std::move(inputs)) {
    attrs_ = std::move(attrs);
    for (const Param& param : record_.params)
      if (!param.required && !attrs_.has(param.name)) attrs_.set(param.name, param.fallback);
    for (const Tensor& input : inputs_) call_.inputs.push_back({input.dtype, input.shape});
    call_.attrs = &attrs_;
  }
  OpCase(const OpCase&) = delete;

  // Marks an input as left out.
  OpCase& without(int input) {
    auto at = static_cast<size_t>(input);
    if (call_.inputs.size() <= at) {
      call_.inputs.resize(at + 1);
      inputs_.resize(at + 1);
    }
    call_.inputs[at] = {};
    call_.inputs[at].absent = true;
    return *this;
  }
  std::vector<Tensor> run_all() const { return run_once(record_, call_, pointers()); }
  Tensor run() const { return run_all().front(); }
  std::vector<double> values() const { return values_of(run()); }
  std::vector<TensorMeta> infer() const { return record_.infer(call_); }
  std::string error() const {
    try {
      record_.infer(call_);
    } catch (const Error& e) {
      return e.message();
    }
    return "no error";
  }
  const OpRecord& record() const { return record_; }
  const OpCall& call() const { return call_; }
  std::vector<const Tensor*> pointers() const {
    std::vector<const Tensor*> found;
    for (size_t i = 0; i < inputs_.size(); ++i)
      found.push_back(call_.inputs[i].absent ? nullptr : &inputs_[i]);
    return found;
  }

 private:
  OpRegistry ops_;
  const OpRecord& record_;
  std::vector<Tensor> inputs_;
  Attrs attrs_;
  OpCall call_;
};

// Runs `lanes` lanes of one op in one call and returns the output's bytes by lane. Input i holds
// `copies[i]` stored copies; lane l reads copy l % copies[i]. Lanes read through a table unless
// there is one copy for all or one for each.
std::vector<std::vector<std::byte>> run_lanes(const OpRecord& record, const OpCall& call,
                                              const std::vector<std::vector<Tensor>>& copies,
                                              int64_t lanes);

}  // namespace shardproof::testing
