// NumberTable: values by number, for searches that look up many thousands of them. Uses open
// addressing, which takes less time than std::unordered_map.
//
// References to values stay valid. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace shardproof {

template <typename Value>
class NumberTable {
 public:
  // Returns the value of a number; a new one is value-initialized.
  Value& operator[](uint64_t number) {
    if (slots_.empty()) grow();
    Slot* slot = &slot_of(number);
    if (slot->value != nullptr) return *slot->value;
    if (2 * values_.size() >= slots_.size()) {
      grow();
      slot = &slot_of(number);
    }
    *slot = {number, &values_.emplace_back()};
    return *slot->value;
  }
  std::size_t size() const { return values_.size(); }

 private:
  struct Slot {
    uint64_t number = 0;
    Value* value = nullptr;
  };
  Slot& slot_of(uint64_t number) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = number * 0x9e3779b97f4a7c15u >> shift_;  // these bits depend on all others
    while (slots_[at].value != nullptr && slots_[at].number != number) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    const std::vector<Slot> before = std::move(slots_);
    slots_.assign(std::size_t{1} << (64 - --shift_), {});
    for (const Slot& slot : before)
      if (slot.value != nullptr) slot_of(slot.number) = slot;
  }

  int shift_ = 64 - 5;  // the number of slots is 2^(64 - shift_)
  std::vector<Slot> slots_;
  std::deque<Value> values_;
};

}  // namespace shardproof
