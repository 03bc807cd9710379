// A call rewritten for f64: all floats become f64 and all complex numbers c128.
#pragma once

#include "shardproof/ops/core/op.h"

namespace shardproof {

// Returns f64 for floats and c128 for complex dtypes; returns any other dtype unchanged.
DType wider(DType dtype);

// Returns the eps of a call that leaves it out: the step at 1 of the dtype that the call computes
// in.
double default_eps(DType dtype);

// The attribute of a cast in f64 that keeps the range of f8e4m3, as it does in its own dtypes.
inline constexpr const char* kSaturatesAs = "saturates_as";

// Returns the attributes of the call in f64. An eps that `written` leaves out keeps the value that
// it has in the dtypes of `written`.
Attrs in_wider_floats(const OpRecord& op, const OpCall& written);
// Lets a cast that saturates at the range of f8e4m3 do so in f64, too: numbers beyond it are lost,
// not rounded.
void add_saturation(const OpRecord& op, const OpCall& written, Attrs& wide);

// The change that makes an op give f64 for inputs that are not floats, for which it gives the
// default float.
struct WideResult {
  std::string dtype;         // a dtype parameter to set to f64, or ""
  std::vector<bool> inputs;  // inputs to cast to f64 before the op
  bool outputs = false;      // true: outputs are cast after the op
  bool is_unchanged() const { return dtype.empty() && inputs.empty() && !outputs; }
};
// Returns the smallest change that gives results of the dtypes `wanted`. `wide` is the call in f64.
WideResult wide_result(const OpRecord& op, const OpCall& wide, const std::vector<DType>& wanted);

}  // namespace shardproof
