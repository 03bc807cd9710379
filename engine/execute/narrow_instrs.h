// NarrowInstrs: an index from each rank to the instructions of a listing that few ranks execute.
// With it, thousands of cohorts of one rank skip what only another rank executes, such as the
// receives of the root of a star. Internal to the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

class NarrowInstrs {
 public:
  explicit NarrowInstrs(const SpmdListing& listing) : wide_from_(listing.instrs.size() + 1) {
    const auto count = static_cast<int32_t>(listing.instrs.size());
    wide_from_.back() = count;
    for (int32_t i = count; i-- > 0;) {
      const Lanes& lanes = listing.instrs[static_cast<size_t>(i)].lanes;
      const bool narrow = lanes.size() <= kMostRanks;
      wide_from_[static_cast<size_t>(i)] = narrow ? wide_from_[static_cast<size_t>(i + 1)] : i;
      for (int64_t lane = 0; narrow && lane < lanes.size(); ++lane)
        narrow_.push_back({lanes[lane], i});
    }
    std::sort(narrow_.begin(), narrow_.end());
  }
  // Returns the first instruction from `from` on that the rank may execute; the size of the listing
  // if there is none. Takes logarithmic time.
  size_t next(int32_t rank, size_t from) const {
    const int32_t wide = wide_from_[from];
    const auto own =
        std::lower_bound(narrow_.begin(), narrow_.end(), Entry{rank, static_cast<int32_t>(from)});
    const bool has_own = own != narrow_.end() && own->rank == rank;
    return static_cast<size_t>(has_own ? std::min(wide, own->instr) : wide);
  }

 private:
  static constexpr int64_t kMostRanks = 16;
  struct Entry {
    int32_t rank = 0, instr = 0;
    auto operator<=>(const Entry&) const = default;
  };
  std::vector<int32_t> wide_from_;  // by instruction: the first from it on that more ranks execute
  std::vector<Entry> narrow_;       // ascending
};

}  // namespace shardproof
