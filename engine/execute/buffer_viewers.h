// BufferViewers: an index from each buffer to the values of a frame that have blocks in it. The
// reference count of a buffer does not answer this, because work that has not run yet refers to the
// buffer too. Internal to the engine. Each operation is O(blocks of the value) on average.
#pragma once

#include <functional>
#include <unordered_map>
#include <utility>

#include "shardproof/localtensor/base/memory_pool.h"
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
    const auto [first, end] = viewers_.equal_range(buffer);
    for (auto viewer = first; viewer != end; ++viewer)
      if (viewer->second != but && views(viewer->second)) return true;
    return false;
  }
  // Calls visit(id) for each value that has blocks in the buffer.
  template <class Visit>
  void for_each(const Buffer* buffer, Visit visit) const {
    const auto [first, end] = viewers_.equal_range(buffer);
    for (auto viewer = first; viewer != end; ++viewer) visit(viewer->second);
  }

 private:
  using Viewers =
      std::unordered_multimap<const Buffer*, ValueId, std::hash<const Buffer*>, std::equal_to<>,
                              PoolAllocator<std::pair<const Buffer* const, ValueId>>>;
  Viewers viewers_;
  Viewers::const_iterator find(const Buffer* buffer, ValueId id) const;
};

}  // namespace shardproof
