// Implements ops/core/shape_errors.h.
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {

std::string call_text(std::string_view name, const OpCall& call) {
  std::string text(name);
  text += "(";
  bool first = true;
  for (const TensorMeta& input : call.inputs) {
    if (input.absent) continue;
    text += (first ? "" : ", ") + to_string(input.shape);
    first = false;
  }
  return text + ")";
}

double number_or(const OpCall& call, std::string_view name, double fallback) {
  return call.attrs && call.attrs->has(name) ? call.attrs->number(name) : fallback;
}

DType same_dtype(std::string_view op, const OpCall& call, const std::vector<int>& inputs) {
  DType dtype = input_meta(call, inputs[0]).dtype;
  for (int i : inputs) {
    if (!present(call, i)) continue;
    DType other = input_meta(call, i).dtype;
    if (other != dtype)
      refuse(op, call, "the dtypes differ, {} and {}; cast one", name(dtype), name(other));
  }
  return dtype;
}

int dim_of(std::string_view op, const OpCall& call, int64_t dim, int input) {
  int dims = input_shape(call, input).size();
  if (dim < -dims || dim >= dims)
    refuse(op, call, "dim {} is out of range for {} dims{}", dim, dims,
           dims == 0 ? "" : fmt::format("; write a dim from {} to {}", -dims, dims - 1));
  return static_cast<int>(dim < 0 ? dim + dims : dim);
}

void require_dims(std::string_view op, const OpCall& call, int input, int dims) {
  int found = input_shape(call, input).size();
  if (found != dims)
    refuse(op, call, "input {} must have {} dims, found {}", input + 1, dims, found);
}

void require_integral(std::string_view op, const OpCall& call, int input) {
  DType dtype = input_meta(call, input).dtype;
  if (!is_integral(dtype))
    refuse(op, call, "input {} must be of an integer dtype, found {}", input + 1, name(dtype));
}

void require_floating(std::string_view op, const OpCall& call, int input) {
  DType dtype = input_meta(call, input).dtype;
  if (!is_floating(dtype))
    refuse(op, call, "input {} must be of a floating dtype, found {}", input + 1, name(dtype));
}

std::string letters(int count, char first) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>(first + i);
  return text;
}

}  // namespace shardproof
