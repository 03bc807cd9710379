// Implements ops/core/indexed_inputs.h. The first gradients of a causal sdpa have no placement
// inside `as`, but the query and the key of the forward call do.
#include "shardproof/ops/core/indexed_inputs.h"

namespace shardproof {

std::vector<int> indexed_inputs(std::string_view op) {
  if (op == "sdpa_grad") return {1, 2};  // query, key
  return {};
}

}  // namespace shardproof
