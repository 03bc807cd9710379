// A call as it reads where all floats are f64 and all complex numbers c128.
#pragma once

#include "shardproof/ops/core/op.h"

namespace shardproof {

DType wider(DType dtype);

// What an eps that is left out is: the step at 1 of the dtype that a call computes in.
double default_eps(DType dtype);

// Its attributes, of a call as it is written. What is left out means what it means there.
Attrs in_wider_floats(const OpRecord& op, const OpCall& written);

// How an op comes to give wide floats of what is no float, which alone give its default.
struct WideResult {
  std::string dtype;         // the parameter to be given, or ""
  std::vector<bool> inputs;  // to be cast before
  bool outputs = false;      // to be cast after
  bool as_it_is() const { return dtype.empty() && inputs.empty() && !outputs; }
};
// `wide`: the call in wider floats; `wanted`: the dtypes that its results are to have.
WideResult wide_result(const OpRecord& op, const OpCall& wide, const std::vector<DType>& wanted);

}  // namespace shardproof
