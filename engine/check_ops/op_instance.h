// OpInstance: one call of one op with its input tensors, made from a sample of the op's record. The
// rule checker and the tests of ops run it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// A sample with its tensors. Attributes that were left out have their fallbacks.
struct OpInstance {
  const OpRecord* record = nullptr;
  Attrs attrs;
  std::vector<TensorMeta> inputs;
  std::vector<Tensor> tensors;     // an absent input is a Tensor without a buffer
  std::vector<std::string> fills;  // one per input
  // The fills state the domain of the floats: they hold in all draws (draws.h).
  bool keeps_fills = false;
  // Numbers among the arguments, at which a call may bend or jump: x > 3.
  std::vector<double> landmarks;

  OpCall call() const { return {&attrs, inputs}; }
  std::vector<const Tensor*> pointers() const;
};
Attrs with_fallbacks(const OpRecord& record, Attrs attrs);
OpInstance instance_of(const OpRecord& record, const Sample& sample, uint64_t seed);
// Returns the instance with all floats in f64 and all complex numbers in c128
// (ops/core/widen_op_call.h); nullopt if the dtypes of the results would not change.
std::optional<OpInstance> in_f64(const OpInstance& instance);
inline constexpr const char* kDefiniteFill = "definite";
// Returns a tensor of "ints", "ints(0, 5)", "uniform(0.1, 1)", "normal(0, 1)", "bools", "ones",
// "zeros", "iota" or "definite". "definite": symmetric positive definite matrices in the last two
// dims, with eigenvalues of at least 1.
Tensor filled_by(const std::string& fill, DType dtype, const Dims& shape, uint64_t seed);
// Makes the square matrices in the last two dims of an f64 tensor symmetric.
void mirror_lower_triangles(Tensor& tensor);
// True if the last two dims of an f64 tensor hold square matrices that are symmetric to the bit.
bool are_symmetric(const Tensor& tensor);
// Returns the call in the scenario language: "softmax(x0, dim=-1)". `names` has one name for each
// input. Attributes that have their fallback are left out.
std::string call_text(const OpInstance& instance, const std::vector<std::string>& names);

}  // namespace shardproof
