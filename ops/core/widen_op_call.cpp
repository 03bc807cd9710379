// Implements ops/core/widen_op_call.h. wide_result() tries in this order: no change, a dtype
// parameter, casting inputs that are not floats, casting numbers. If none of these fits, it casts
// the outputs.
#include "shardproof/ops/core/widen_op_call.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns nothing if the op rejects the call.
std::vector<DType> results_of(const OpRecord& op, const OpCall& call) {
  std::vector<DType> dtypes;
  try {
    for (const TensorMeta& meta : op.infer(call)) dtypes.push_back(meta.dtype);
  } catch (const Error&) {
    return {};
  }
  return dtypes;
}

bool is_real_number(const TensorMeta& meta) {
  return !meta.absent && !is_floating(meta.dtype) && !is_complex(meta.dtype);
}

OpCall with_casts(OpCall call, const std::vector<bool>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) call.inputs[i] = {DType::f64, call.inputs[i].shape};
  return call;
}

}  // namespace

DType wider(DType dtype) {
  if (is_floating(dtype)) return DType::f64;
  return dtype == DType::c64 ? DType::c128 : dtype;
}

double default_eps(DType dtype) { return 2 * unit_roundoff(compute_dtype(dtype)); }

Attrs in_wider_floats(const OpRecord& op, const OpCall& written) {
  Attrs attrs = *written.attrs;
  for (const auto& [name, value] : written.attrs->values())
    if (const DType* dtype = std::get_if<DType>(&value)) attrs.set(name, wider(*dtype));
  for (const Param& param : op.params)
    if (param.name == "eps" && param.kind == ParamKind::number && !attrs.has(param.name))
      attrs.set(param.name, default_eps(written.inputs.at(0).dtype));
  return attrs;
}

void add_saturation(const OpRecord& op, const OpCall& written, Attrs& wide) {
  for (const Param& param : op.params)
    if (param.name == "saturate" && written.attrs->dtype("dtype") == DType::f8e4m3 &&
        (!written.attrs->has(param.name) || written.attrs->flag(param.name)))
      wide.set(kSaturatesAs, DType::f8e4m3);
}

WideResult wide_result(const OpRecord& op, const OpCall& wide, const std::vector<DType>& wanted) {
  WideResult result;
  if (results_of(op, wide) == wanted) return result;
  for (const Param& param : op.params) {
    if (param.kind != ParamKind::dtype || wide.attrs->has(param.name)) continue;
    Attrs attrs = *wide.attrs;
    attrs.set(param.name, DType::f64);
    if (results_of(op, {&attrs, wide.inputs}) != wanted) continue;
    result.dtype = param.name;
    return result;
  }
  std::vector<bool> whole, numbers;
  for (const TensorMeta& meta : wide.inputs) {
    numbers.push_back(!meta.absent && meta.weak);
    whole.push_back(numbers.back() || is_real_number(meta));
  }
  for (const std::vector<bool>& inputs : {whole, numbers}) {
    if (std::find(inputs.begin(), inputs.end(), true) == inputs.end()) continue;
    if (results_of(op, with_casts(wide, inputs)) != wanted) continue;
    result.inputs = inputs;
    return result;
  }
  result.outputs = true;
  return result;
}

}  // namespace shardproof
