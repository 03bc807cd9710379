// Short forms for the parameters and samples of an op record: {tensor("input"), integer("dim", -1),
// optional_tensor("bias")}. A parameter without a default is required.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof::params {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline Param required(std::string name, ParamKind kind) {
  return {std::move(name), kind, true, std::monostate{}};
}
inline Param with_default(std::string name, ParamKind kind, AttrValue fallback) {
  return {std::move(name), kind, false, std::move(fallback)};
}
// The parameter may be left out; then the call has no such attribute.
inline Param optional(std::string name, ParamKind kind) {
  return with_default(std::move(name), kind, std::monostate{});
}
inline Param tensor(std::string name) { return required(std::move(name), ParamKind::tensor); }
inline Param tensors(std::string name) { return required(std::move(name), ParamKind::tensors); }
inline Param optional_tensor(std::string name) {
  return optional(std::move(name), ParamKind::optional_tensor);
}
inline Param integer(std::string name) { return required(std::move(name), ParamKind::integer); }
inline Param integer(std::string name, int64_t fallback) {
  return with_default(std::move(name), ParamKind::integer, fallback);
}
inline Param integers(std::string name) { return required(std::move(name), ParamKind::integers); }
inline Param number(std::string name, double fallback) {
  return with_default(std::move(name), ParamKind::number, fallback);
}
inline Param boolean(std::string name, bool fallback) {
  return with_default(std::move(name), ParamKind::boolean, fallback);
}
inline Param text(std::string name, std::string fallback) {
  return with_default(std::move(name), ParamKind::text, std::move(fallback));
}

// A tensor given for `param` binds to the parameter `tensor` instead.
inline Param or_tensor(Param param, std::string tensor) {
  param.tensor_goes_to = std::move(tensor);
  return param;
}

}  // namespace shardproof::params

namespace shardproof {

// Inputs of a law-test case, all of one dtype.
struct SampleInputs {
  std::vector<Dims> shapes;
  DType dtype = DType::f32;
  std::vector<std::string> fills = {};
};
inline Sample sample_of(SampleInputs inputs, Attrs attrs = {}) {
  Sample sample;
  sample.attrs = std::move(attrs);
  for (const Dims& shape : inputs.shapes) sample.inputs.push_back({inputs.dtype, shape});
  sample.fills = std::move(inputs.fills);
  return sample;
}
// Returns the meta of an optional input that a sample leaves out.
inline TensorMeta absent_input() {
  TensorMeta meta;
  meta.absent = true;
  return meta;
}

}  // namespace shardproof
