// Implements in_order of record_order.h: sorts records by everything but ranks, then merges equals.
#include <algorithm>
#include <tuple>

#include "shardproof/sim/analysis/record_order.h"

namespace shardproof {
namespace {

// Everything but the ranks. The order of fields is the order of records.
auto content(const Record& r) {
  return std::tie(r.end, r.start, r.sequence, r.line, r.kind, r.group, r.call, r.members,
                  r.reduction, r.dtype, r.sizes, r.root, r.stream, r.state, r.bytes_sent,
                  r.instance, r.clock, r.expected);
}

}  // namespace

std::vector<Record> in_order(std::vector<Record> records) {
  std::stable_sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    if (content(a) != content(b)) return content(a) < content(b);
    return a.ranks[0] < b.ranks[0];
  });
  std::vector<Record> merged;
  for (size_t first = 0; first < records.size();) {
    size_t next = first + 1;
    while (next < records.size() && content(records[next]) == content(records[first])) ++next;
    Record record = std::move(records[first]);
    if (next > first + 1) {
      std::vector<int32_t> ranks;
      const auto take = [&](const Lanes& lanes) {
        for (int64_t i = 0; i < lanes.size(); ++i) ranks.push_back(lanes[i]);
      };
      take(record.ranks);
      for (size_t i = first + 1; i < next; ++i) take(records[i].ranks);
      record.ranks = Lanes::of(std::move(ranks));
    }
    merged.push_back(std::move(record));
    first = next;
  }
  return merged;
}

}  // namespace shardproof
