// Names of PyTorch, Megatron, JAX, NumPy and Python for ops, calls, attributes and dtypes that have
// another name here. All messages use one table, because each op has one name in a program. Rows of
// rule tables have a table of their own (scenarios/rules/torch_forms.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shardproof/localtensor/dtype/dtype.h"
#include "shardproof/program/syntax/ast.h"

namespace shardproof {

// Returns the text to write in place of a call of a foreign name, or "" if the table lacks the
// name. A method call x.clip(0, 1) and an attribute x.mT are calls with x as first argument.
// Example: "clamp(h, 0, 1)" for clip(h, 0, 1); "all_reduce(x, sum, group=tp)" for psum(x), and
// "x = all_reduce(x, sum, group=tp)" as a whole line.
std::string text_for_foreign_call(const Expr& call, bool whole_line);
// Returns "; write clamp(..)", ready to append to "unknown op clip", or "".
std::string other_name_hint(std::string_view op);
// Returns a hint for a collective that has the name of a torch op ("gather", "scatter"), or "".
std::string namesake_hint(std::string_view verb);
// Returns the dtype that a word of this language or of torch means: "f32", "float32", "fp32".
std::optional<DType> dtype_meant(std::string_view word);
// Returns the dtype of a name. Throws Error(bad_input) that names the dtype meant by "float32" or
// "fp32".
DType parse_dtype_name(std::string_view name);

}  // namespace shardproof
