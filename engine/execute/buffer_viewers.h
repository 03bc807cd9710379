// BufferViewers: of the values of a frame, which ones have blocks in a buffer. A buffer's own count
// of references says nothing of that: work that has not run yet refers to it too. Internal to the
// engine.
#pragma once

#include <unordered_map>

#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

class BufferViewers {
 public:
  // The blocks of a value, which has none here before it is added and none after it is removed.
  void add(ValueId id, const LocalTensor& value);
  void remove(ValueId id, const LocalTensor& value);
  // Whether `views(id)` holds for a value but this one that has blocks in the buffer.
  template <class Views>
  bool another_views(const Buffer* buffer, ValueId but, Views views) const {
    const auto [first, end] = viewers_.equal_range(buffer);
    for (auto viewer = first; viewer != end; ++viewer)
      if (viewer->second != but && views(viewer->second)) return true;
    return false;
  }
  template <class Visit>
  void for_each(const Buffer* buffer, Visit visit) const {
    const auto [first, end] = viewers_.equal_range(buffer);
    for (auto viewer = first; viewer != end; ++viewer) visit(viewer->second);
  }

 private:
  using Viewers = std::unordered_multimap<const Buffer*, ValueId>;
  Viewers viewers_;
  Viewers::const_iterator find(const Buffer* buffer, ValueId id) const;
};

}  // namespace shardproof
