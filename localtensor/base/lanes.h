// Lanes: a set of global ranks in ascending order, cheap to copy. A cohort runs one instruction for
// such a set at once; the rank at position i of the set is "lane i". A contiguous set is stored as
// a range. Copies of any other set share one sorted list, so that no list of O(world) is stored
// twice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

class Lanes {
 public:
  Lanes() = default;                                // empty
  static Lanes range(int64_t first, int64_t last);  // [first, last)
  static Lanes one(int64_t rank) { return range(rank, rank + 1); }
  static Lanes of(std::vector<int32_t> ranks);  // any order; a rank given twice counts once

  int64_t size() const {
    return list_ ? static_cast<int64_t>(list_->ranks.size()) : last_ - first_;
  }
  bool empty() const { return size() == 0; }
  bool is_range() const { return !list_; }
  int32_t operator[](int64_t lane) const {
    return list_ ? list_->ranks[static_cast<size_t>(lane)] : static_cast<int32_t>(first_ + lane);
  }
  bool contains(int64_t rank) const { return index_of(rank) >= 0; }
  // Returns the lane of a rank; -1 if it is not in the set.
  int64_t index_of(int64_t rank) const {
    if (list_) return index_in_list(rank);
    return rank >= first_ && rank < last_ ? rank - first_ : -1;
  }
  bool contains(const Lanes& other) const;  // true if `other` is a subset; O(size) at most
  // Compares hashes first. The ranks of two lists are compared only if their hashes are equal.
  bool operator==(const Lanes& other) const;
  uint64_t hash() const;  // hash of the set, computed once for a list

  // Set operations; O(1) for ranges where the result is a range, else O(size).
  Lanes intersect(const Lanes& other) const;
  Lanes minus(const Lanes& other) const;
  Lanes unite(const Lanes& other) const;

 private:
  struct List {
    std::vector<int32_t> ranks;
    uint64_t hash = 0;
  };
  int64_t index_in_list(int64_t rank) const;

  int64_t first_ = 0, last_ = 0;
  std::shared_ptr<const List> list_;  // null for a range; never contiguous
};

struct LanesHash {
  size_t operator()(const Lanes& lanes) const { return static_cast<size_t>(lanes.hash()); }
};

// Returns a rank selector of the scenario language: "0-3", "0 2 5", "0-3 8-11"; "none" if empty.
std::string to_string(const Lanes& lanes);
// Returns the same after a noun: "rank 3", "ranks 0-3 5".
std::string all_ranks_text(const Lanes& lanes);
// Returns the inverse of to_string; ranges may overlap and have any order. Returns nullopt for
// other text, and for more than one range with more than 2^24 ranks in all.
std::optional<Lanes> parse_lanes(std::string_view text);

}  // namespace shardproof
