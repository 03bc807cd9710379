// Which of its algorithms NCCL_ALGO leaves for a call, as NCCL reads it since 2.24.
#include <algorithm>
#include <sstream>

#include "shardproof/tests/gpu/stand_in/nccl_state.h"

namespace shardproof::stand_in {
namespace {

std::string function_of(CollectiveKind kind) {
  std::string function(name(kind));
  std::erase(function, '_');
  return function;
}

bool has(const std::string& algorithm, CollectiveKind kind) {
  const bool all_reduces = kind == CollectiveKind::all_reduce;
  const bool scatters = kind == CollectiveKind::reduce_scatter;
  const bool gathers = kind == CollectiveKind::all_gather;
  if (algorithm == "Ring") return true;
  if (algorithm == "Tree") return all_reduces;
  if (algorithm == "PAT") return scatters || gathers;
  return algorithm == "NVLS" && (all_reduces || scatters || gathers);
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

int refusal_of_algorithm(CollectiveKind kind) {
  const std::string& all = state().options.algorithms;
  if (all.empty() || is_point_to_point(kind)) return nccl::kSuccess;
  std::istringstream named(algorithms_for(function_of(kind), all));
  for (std::string algorithm; std::getline(named, algorithm, ',');)
    if (has(algorithm, kind)) return nccl::kSuccess;
  return fail(
      nccl::kInvalidUsage,
      fmt::format("no algorithm/protocol available for function {}. NCCL_ALGO was set to {}.",
                  function_of(kind), all));
}

}  // namespace shardproof::stand_in
