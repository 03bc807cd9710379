// PartsByRank: an index from each rank to its parts of an instruction. Parts are calls of a
// `group:`, or calls and attributes that differ by rank. With it, thousands of cohorts of one rank
// need not read all parts. Internal to the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "shardproof/program/ir/instruction.h"

namespace shardproof {

inline const Lanes& lanes_of_part(const CallItem& item) { return item.lanes; }
inline const Lanes& lanes_of_part(const LaneAttrs& entry) { return entry.lanes; }
inline const Lanes& lanes_of_part(const std::pair<Lanes, ValueId>& part) { return part.first; }

class PartsByRank {
 public:
  struct Entry {
    int32_t rank = 0, part = 0;
    auto operator<=>(const Entry&) const = default;
  };
  PartsByRank() = default;
  template <class Part>
  explicit PartsByRank(const std::vector<Part>& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const Lanes& lanes = lanes_of_part(parts[i]);
      for (int64_t lane = 0; lane < lanes.size(); ++lane)
        entries_.push_back({lanes[lane], static_cast<int32_t>(i)});
    }
    std::sort(entries_.begin(), entries_.end());
  }
  bool empty() const { return entries_.empty(); }
  // Returns the parts of a rank in their order. Takes logarithmic time.
  std::span<const Entry> of(int32_t rank) const {
    const auto first = std::lower_bound(entries_.begin(), entries_.end(), Entry{rank, 0});
    const auto last = std::lower_bound(first, entries_.end(), Entry{rank + 1, 0});
    return {first, last};
  }

 private:
  std::vector<Entry> entries_;  // ascending
};

}  // namespace shardproof
