// Torch's ops as calls of the scenario language, for rule tables. "aten.gather.default" with the
// attribute dim=1 becomes "y0 = take_along_dim(x0, x1, 1)".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/scenarios/json/json_reader.h"

namespace shardproof {

struct TorchCall {
  std::vector<std::string> lines, results;
  bool is_inplace = false;  // torch's name ends in "_"
};

// Returns the call of an op of torch ("aten.mm", "aten.add_.Tensor") or of the registry ("matmul"),
// over `inputs` tensors x0, x1, .. of `dims` dims for the first, with `results` results. `attrs` is
// an object with torch's names of arguments or ours. Returns nullopt for an op that neither has.
// Throws Error(bad_input) at the attribute that has no text in the language.
std::optional<TorchCall> torch_call(const std::string& op, const JsonReader* attrs, size_t inputs,
                                    int dims, size_t results, const OpRegistry& ops);

// Returns the dtype of a name of ours or of torch ("f32", "torch.float32"). Throws Error(bad_input)
// that names the nearest dtype.
DType rule_dtype(const std::string& text);

}  // namespace shardproof
