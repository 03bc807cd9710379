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
  std::vector<std::string> unjudged;  // torch's names of the results that `results` lacks
  // The places of `results` in a row's `out`, if output_mask leaves others out; empty: in order.
  std::vector<size_t> placed;
  bool is_inplace = false;  // torch's name ends in "_", and the op writes numbers
  // True if the lines read one more input after those of the row. It holds random numbers, one for
  // each position of the first tensor, independent of its placement. Each element has one in 0 ..
  // 1.
  bool reads_random_numbers = false;
  // True if the lines depend on the sizes of the inputs (upsampling by a factor), or on an argument
  // with those of the result (new_zeros).
  bool depends_on_sizes = false, states_result = false;
  // The inputs that the results replace, if an op in place has lists of tensors.
  std::vector<size_t> written;
};

// Returns the call of an op of torch ("aten.mm", "aten.add_.Tensor") or of the registry ("matmul")
// over the tensors x0, x1, .. `attrs` is an object with torch's names of arguments or ours, or
// null; it may give a number in the place of a tensor. Results are bound to y0, y1, ..; `results`
// is the number that a row places, nullopt for a backward, which needs the first. Returns nullopt
// for an op that is in neither. Throws Error(bad_input) for an argument that the op does not have
// or that has no text in the language. Also throws for a wrong number of tensors or results.
// `result`, if it is given, has the sizes that replace those of the result among the arguments.
std::optional<TorchCall> torch_call(const std::string& op, const JsonReader* attrs,
                                    const std::vector<TensorMeta>& inputs,
                                    std::optional<size_t> results, const OpRegistry& ops,
                                    const Dims* result = nullptr);

// True for an op of torch whose result has a shape that depends on values: "aten.masked_select".
bool is_shaped_by_values(const std::string& op);

// Returns "; did you mean aten.gather?" for an unknown op, or "".
std::string nearest_torch_op(const std::string& op, const OpRegistry& ops);

// Returns the dtype of a name of ours or of torch ("f32", "torch.float32"). Throws Error(bad_input)
// that names the nearest dtype.
DType rule_dtype(const std::string& text);

}  // namespace shardproof
