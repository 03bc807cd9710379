// BufferViewers: an index from each buffer to the values of a frame that have blocks in it. The
// reference count of a buffer does not answer this, because work that has not run yet refers to the
// buffer too. Internal to the engine. Each operation is O(blocks of the value) on average.
#pragma once

#include <vector>

#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

class BufferViewers {
 public:
  // Adds or removes all blocks of a value. Requires that `add` finds none of its blocks here.
  void add(ValueId id, const LocalTensor& value);
  void remove(ValueId id, const LocalTensor& value);
  // True if `views(id)` is true for a value other than `but` that has blocks in the buffer.
  template <class Views>
  bool another_views(const Buffer* buffer, ValueId but, Views views) const {
    bool found = false;
    for_each(buffer, [&](ValueId id) { found = found || (id != but && views(id)); });
    return found;
  }
  // Calls visit(id) for each value that has blocks in the buffer, in no particular order.
  template <class Visit>
  void for_each(const Buffer* buffer, Visit visit) const {
    if (entries_.empty()) return;
    for (size_t at = home_of(buffer); entries_[at].buffer != nullptr; at = after(at))
      if (entries_[at].buffer == buffer) visit(entries_[at].id);
  }

 private:
  struct Entry {
    const Buffer* buffer = nullptr;  // null: not in use
    ValueId id = kNoValue;
  };
  // The first place where an entry of the buffer may lie.
  size_t home_of(const Buffer* buffer) const;
  size_t after(size_t place) const { return (place + 1) & (entries_.size() - 1); }
  // Returns the place of the entry, or of the free entry after those of the buffer.
  size_t place_of(const Buffer* buffer, ValueId id) const;
  void insert(const Buffer* buffer, ValueId id);

  std::vector<Entry> entries_;  // a power of two; at least half of them are not in use
  size_t count_ = 0;
};

}  // namespace shardproof
