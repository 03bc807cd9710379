// Implements which algorithms NCCL_ALGO allows for a call, as NCCL reads it since 2.24.
#include <algorithm>
#include <sstream>

#include "shardproof/tests/gpu/fake_gpu/fake_nccl_state.h"

namespace shardproof::fake_gpu {
namespace {

std::string function_of(CollectiveKind kind) {
  std::string function(name(kind));
  std::erase(function, '_');
  return function;
}

// Types and operators that NVLS supports (NCCL's ncclNvlsSupported).
bool is_supported_by_nvls(const NcclCall& call) {
  const ReduceOp op = call.reduction.op;
  const bool is_extremum = op == ReduceOp::min || op == ReduceOp::max;
  switch (call.dtype) {
    case DType::f32:
    case DType::f64: return op == ReduceOp::sum;
    case DType::i32:
    case DType::i64:
    case DType::f16:
    case DType::bf16: return op == ReduceOp::sum || is_extremum;
    default: return false;
  }
}

// PAT needs ranks that are machines of their own, and does not scale; NVLS needs ranks of one
// machine.
bool has(const std::string& algorithm, const NcclCall& call) {
  const bool nodes = state().options.ranks_are_nodes;
  const ReduceOp op = call.reduction.op;
  const bool all_reduces = call.kind == CollectiveKind::all_reduce;
  const bool scatters = call.kind == CollectiveKind::reduce_scatter;
  const bool gathers = call.kind == CollectiveKind::all_gather;
  if (algorithm == "Ring") return true;
  if (algorithm == "Tree") return all_reduces;
  if (algorithm == "PAT")
    return nodes && (gathers || (scatters && op != ReduceOp::avg && op != ReduceOp::premul_sum));
  if (algorithm != "NVLS" || nodes) return false;
  return gathers || ((all_reduces || scatters) && is_supported_by_nvls(call));
}

}  // namespace

std::string algorithms_for(const std::string& function, const std::string& all) {
  std::istringstream entries(all);
  std::string found;
  for (std::string entry; std::getline(entries, entry, ';');) {
    const size_t colon = entry.find(':');
    if (colon == std::string::npos)
      found = entry;
    else if (entry.substr(0, colon) == function)
      found = entry.substr(colon + 1);
  }
  return found;
}

int refusal_of_algorithm(const NcclCall& call) {
  const std::string& all = state().options.algorithms;
  if (all.empty() || is_point_to_point(call.kind)) return nccl::kSuccess;
  std::istringstream named(algorithms_for(function_of(call.kind), all));
  for (std::string algorithm; std::getline(named, algorithm, ',');)
    if (has(algorithm, call)) return nccl::kSuccess;
  return fail(
      nccl::kInvalidUsage,
      fmt::format("no algorithm/protocol available for function {}. NCCL_ALGO was set to {}.",
                  function_of(call.kind), all));
}

}  // namespace shardproof::fake_gpu
