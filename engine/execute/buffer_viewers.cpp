// Implements buffer_viewers.h with a hash table of open addressing and linear probes. Each op that
// runs adds and removes a value; a table with nodes would allocate each time. After
// an entry is removed, later ones move up, so that no probe ends too early.
#include "shardproof/engine/execute/buffer_viewers.h"

#include <cstdint>
#include <utility>

namespace shardproof {

size_t BufferViewers::home_of(const Buffer* buffer) const {
  const uint64_t hash = reinterpret_cast<uintptr_t>(buffer) * 0x9E3779B97F4A7C15ull;
  return static_cast<size_t>(hash >> 32) & (entries_.size() - 1);
}

size_t BufferViewers::place_of(const Buffer* buffer, ValueId id) const {
  size_t at = home_of(buffer);
  while (entries_[at].buffer != nullptr && (entries_[at].buffer != buffer || entries_[at].id != id))
    at = after(at);
  return at;
}

void BufferViewers::insert(const Buffer* buffer, ValueId id) {
  if (2 * (count_ + 1) > entries_.size()) {
    constexpr size_t kFew = 8;
    const std::vector<Entry> old =
        std::exchange(entries_, std::vector<Entry>(entries_.empty() ? kFew : 2 * entries_.size()));
    for (const Entry& entry : old)
      if (entry.buffer != nullptr) entries_[place_of(entry.buffer, entry.id)] = entry;
  }
  Entry& entry = entries_[place_of(buffer, id)];
  if (entry.buffer != nullptr) return;
  entry = {buffer, id};
  ++count_;
}

void BufferViewers::add(ValueId id, const LocalTensor& value) {
  for (const Block& block : value.blocks()) insert(block.tensor.buffer.get(), id);
}

void BufferViewers::remove(ValueId id, const LocalTensor& value) {
  for (const Block& block : value.blocks()) {
    if (entries_.empty()) return;
    size_t hole = place_of(block.tensor.buffer.get(), id);
    if (entries_[hole].buffer == nullptr) continue;
    --count_;
    for (size_t at = after(hole); entries_[at].buffer != nullptr; at = after(at)) {
      const size_t mask = entries_.size() - 1, home = home_of(entries_[at].buffer);
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = {};
  }
}

}  // namespace shardproof
