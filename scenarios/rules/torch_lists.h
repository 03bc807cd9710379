// Torch's ops on lists of tensors: _foreach_add.List, _fused_adamw_. The inputs of a row are the
// lists one after the other, each with n tensors; the results are in the same order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/scenarios/rules/torch_calls.h"

namespace shardproof {

// A call of torch for one tensor of each list: "aten.add" with the attributes {"other": 2}.
struct ListCall {
  std::string op;
  JsonTree attrs;              // an object
  std::vector<size_t> inputs;  // positions among the inputs of the row
  size_t results = 1;
};

struct ListCalls {
  std::vector<ListCall> calls;  // one for each tensor of the first list
  // Positions of the results of call i in the row: results of one list are adjacent.
  std::vector<std::vector<size_t>> results;
  size_t most_results = 0;  // a row may place the results of the first lists only
};

// Returns the calls of an op on lists; nullopt for any other op. `overload` is "" or the name after
// the dot ("ScalarList"). Throws Error(bad_input) if the inputs are not lists of equal length, and
// for arguments without a counterpart here.
std::optional<ListCalls> list_calls(const std::string& base, const std::string& overload,
                                    const JsonReader* attrs, size_t inputs);

}  // namespace shardproof
