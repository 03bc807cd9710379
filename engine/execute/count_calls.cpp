// Implements count_calls.h: the recorder's totals as the outcome holds them.
#include "shardproof/engine/execute/count_calls.h"

namespace shardproof {

std::vector<CallCount> count_calls(const LazyRecords& records) {
  std::vector<CallCount> result;
  for (CallTotal& total : records.call_totals())
    result.push_back({std::move(total.ranks), std::move(total.kind), std::move(total.group),
                      total.count, total.bytes});
  return result;
}

}  // namespace shardproof
