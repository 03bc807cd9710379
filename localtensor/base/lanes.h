// Lanes: a set of global ranks in ascending order, cheap to copy. A cohort runs an instruction for
// such a set at once; position i in the set is "lane i". Contiguous sets are held as a range,
// others share one sorted list, so that nothing holds O(world) twice.
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
  static Lanes of(std::vector<int32_t> ranks);  // sorted and made unique

  int64_t size() const { return list_ ? static_cast<int64_t>(list_->size()) : last_ - first_; }
  bool empty() const { return size() == 0; }
  bool is_range() const { return !list_; }
  int32_t operator[](int64_t lane) const {
    return list_ ? (*list_)[static_cast<size_t>(lane)] : static_cast<int32_t>(first_ + lane);
  }
  bool contains(int64_t rank) const { return index_of(rank) >= 0; }
  int64_t index_of(int64_t rank) const;     // lane of a rank, or -1
  bool contains(const Lanes& other) const;  // superset
  bool operator==(const Lanes& other) const;

  Lanes intersect(const Lanes& other) const;
  Lanes minus(const Lanes& other) const;
  Lanes unite(const Lanes& other) const;

 private:
  int64_t first_ = 0, last_ = 0;
  std::shared_ptr<const std::vector<int32_t>> list_;  // never contiguous when set
};

// "0-3", "0 2 5", "0-3 8-11": a rank selector of the scenario language. "none" when empty.
std::string to_string(const Lanes& lanes);
// Inverse of to_string, any order and overlap allowed; nothing for other text, or for a list (more
// than one range) of more than 2^24 ranks.
std::optional<Lanes> parse_lanes(std::string_view text);

}  // namespace shardproof
