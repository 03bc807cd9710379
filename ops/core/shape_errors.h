// How shape inference words its errors: "matmul([16, 64], [256, 64]): the inner sizes differ, 64
// and 256".
#pragma once

#include <fmt/format.h>

#include <string>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/op.h"

namespace shardproof {

// "matmul([16, 64], [256, 64])"; absent inputs are left out.
std::string call_text(std::string_view name, const OpCall& call);

template <typename... Args>
[[noreturn]] void refuse(std::string_view name, const OpCall& call,
                         fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::bad_input,
              call_text(name, call) + ": " + fmt::format(text, std::forward<Args>(args)...));
}

// Inputs that are given must have one dtype; returns it.
DType same_dtype(std::string_view name, const OpCall& call, const std::vector<int>& inputs);
// A dim attribute, resolved against an input; the Error names the op and the shape.
int dim_of(std::string_view name, const OpCall& call, int64_t dim, int input = 0);
void require_dims(std::string_view name, const OpCall& call, int input, int dims);
void require_integral(std::string_view name, const OpCall& call, int input);
void require_floating(std::string_view name, const OpCall& call, int input);

// `count` letters for factor notation, from `first` on ("abc").
std::string letters(int count, char first = 'a');

// Factor notation "inputs->outputs"; a lone scalar input has no letters but is still one.
inline std::string notation_of(const std::string& inputs, const std::string& outputs) {
  return (inputs.empty() ? " " : inputs) + "->" + outputs;
}

inline bool present(const OpCall& call, int input) {
  return input < static_cast<int>(call.inputs.size()) &&
         !call.inputs[static_cast<size_t>(input)].absent;
}
inline const TensorMeta& input_meta(const OpCall& call, int i) {
  return call.inputs[static_cast<size_t>(i)];
}
inline const Dims& input_shape(const OpCall& call, int i) { return input_meta(call, i).shape; }

}  // namespace shardproof
