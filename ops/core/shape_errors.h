// Errors and look-ups of shape inference. An error reads "matmul([16, 64], [256, 64]): the inner
// sizes differ, 64 and 256".
#pragma once

#include <fmt/format.h>

#include <string>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/op.h"

namespace shardproof {

// Returns the call as messages show it: "matmul([16, 64], [256, 64])". Absent inputs are left out.
std::string call_text(std::string_view name, const OpCall& call);

// Throws Error(bad_input) "<call>: <text>".
template <typename... Args>
[[noreturn]] void refuse(std::string_view name, const OpCall& call,
                         fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::bad_input,
              call_text(name, call) + ": " + fmt::format(text, std::forward<Args>(args)...));
}

// Returns the dtype of the listed inputs that are present. Throws Error(bad_input) if they differ.
DType same_dtype(std::string_view name, const OpCall& call, const std::vector<int>& inputs);
// Returns `dim` resolved against an input (-1 is the last dim). Throws Error(bad_input) if it is
// out of range.
int dim_of(std::string_view name, const OpCall& call, int64_t dim, int input = 0);
// Throw Error(bad_input) unless the input has this many dims, or an integer or a floating dtype.
void require_dims(std::string_view name, const OpCall& call, int input, int dims);
void require_integral(std::string_view name, const OpCall& call, int input);
void require_floating(std::string_view name, const OpCall& call, int input);

// Returns `count` letters for factor notation, from `first` on ("abc").
std::string letters(int count, char first = 'a');

// Returns the factor notation "inputs->outputs". A single input that is a scalar is written " ".
inline std::string notation_of(const std::string& inputs, const std::string& outputs) {
  return (inputs.empty() ? " " : inputs) + "->" + outputs;
}

// True if the call has this input and it is not absent.
// Returns the attribute `name`, or `fallback` if the call has none or no attributes.
double number_or(const OpCall& call, std::string_view name, double fallback);
inline bool present(const OpCall& call, int input) {
  return input < static_cast<int>(call.inputs.size()) &&
         !call.inputs[static_cast<size_t>(input)].absent;
}
inline const TensorMeta& input_meta(const OpCall& call, int i) {
  return call.inputs[static_cast<size_t>(i)];
}
inline const Dims& input_shape(const OpCall& call, int i) { return input_meta(call, i).shape; }

}  // namespace shardproof
