// A tape that runs ops eagerly on one device and differentiates them. It is the reference for
// OpRecord::gradient and uses no code of the engine. It records a composite call as a whole if the
// call has a gradient of its own, otherwise the ops of its decomposition.
//
//   EagerTape tape(ops);
//   const int x = tape.leaf(tensor), y = tape.run("sum", {}, {x}).front();
//   tape.value(tape.gradients({{y, tape.leaf(one)}}, {x}).front());
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/localtensor/tensor/tensor.h"
#include "shardproof/ops/core/gradient.h"

namespace shardproof::testing {

class EagerTape {
 public:
  explicit EagerTape(const OpRegistry& ops) : ops_(ops) {}

  int leaf(const Tensor& value, bool weak = false);
  // Runs an op and returns its results. `inputs` may hold kAbsent.
  std::vector<int> run(const std::string& op, Attrs attrs, const std::vector<int>& inputs,
                       size_t wanted = 1);
  // Returns the gradients by `wrt` of sum_i <values[i], cotangents[i]>; kAbsent: it is 0. The ops
  // that compute them are recorded too, so gradients of gradients may be taken. Throws Error if an
  // op between has no gradient.
  std::vector<int> gradients(const std::vector<std::pair<int, int>>& cotangents,
                             const std::vector<int>& wrt);
  const Tensor& value(int handle) const { return values_[static_cast<size_t>(handle)].tensor; }
  const TensorMeta& meta(int handle) const { return values_[static_cast<size_t>(handle)].meta; }

 private:
  struct Value {
    Tensor tensor;
    TensorMeta meta;
  };
  struct Entry {
    const OpRecord* record;
    Attrs attrs;
    std::vector<int> inputs, outputs;
    size_t wanted;
  };
  class Builder;
  class CallGradient;
  OpCall call_of(const Attrs& attrs, const std::vector<int>& inputs, size_t wanted) const;
  std::vector<int> run_kernel(const OpRecord& record, const OpCall& call,
                              const std::vector<int>& inputs);
  bool carries_gradient(int handle) const;

  const OpRegistry& ops_;
  std::deque<Value> values_;  // a deque, because meta() returns references
  std::vector<Entry> entries_;
  bool recording_ = true;
};

}  // namespace shardproof::testing
