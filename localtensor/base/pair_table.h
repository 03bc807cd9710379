// PairTable: a hash table from pairs of ranks to small values. Holds the state of each pair of
// ranks that exchange messages.
//
// The first probe of (from, to) is a hash of to - from, plus from. Pairs of equal distance, such as
// those of a ring or a halo, therefore lie side by side. A call of many ranks reads memory in
// order, and pairs of equal distance never collide in a probe. Further probes add a step that the
// distance gives. It is a quarter of the table or more: with a short step, pairs that follow each
// other would try each other's entries one by one. At most 5/8 of the entries are in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardproof {

template <class Value>
class PairTable {
 public:
  size_t size() const { return size_; }
  // The value of a pair, made when it is absent. Valid until the next call of `at`.
  Value& at(int32_t from, int32_t to) {
    if (8 * (size_ + 1) > 5 * entries_.size()) grow();
    Entry& entry = entries_[place_of(from, to)];
    if (entry.from < 0) {
      entry = {from, to, Value{}};
      ++size_;
    }
    return entry.value;
  }
  // Null when the pair has no value.
  const Value* find(int32_t from, int32_t to) const {
    if (entries_.empty()) return nullptr;
    const Entry& entry = entries_[place_of(from, to)];
    return entry.from < 0 ? nullptr : &entry.value;
  }

 private:
  struct Entry {
    int32_t from = -1, to = -1;  // from -1: not in use
    Value value{};
  };

  // Returns the entry of the pair, or the free entry where it belongs.
  size_t place_of(int32_t from, int32_t to) const {
    const size_t mask = entries_.size() - 1;
    const uint64_t hash = mixed(static_cast<uint64_t>(int64_t{to} - from));
    const size_t step = (mask / 4 + ((static_cast<size_t>(hash) >> 5) & mask / 2)) | 1;
    size_t at = (static_cast<size_t>(hash >> 32) + static_cast<size_t>(from)) & mask;
    while (entries_[at].from >= 0 && (entries_[at].from != from || entries_[at].to != to))
      at = (at + step) & mask;
    return at;
  }
  static uint64_t mixed(uint64_t value) {
    const uint64_t product = (value + 0x632BE59BD9B4E019ull) * 0x9E3779B97F4A7C15ull;
    return (product ^ product >> 32) * 0xD6E8FEB86659FD93ull;
  }

  void grow() {
    std::vector<Entry> old(entries_.empty() ? 8 : 2 * entries_.size());
    old.swap(entries_);
    for (Entry& entry : old)
      if (entry.from >= 0) entries_[place_of(entry.from, entry.to)] = std::move(entry);
  }

  std::vector<Entry> entries_;  // a power of two
  size_t size_ = 0;
};

}  // namespace shardproof
