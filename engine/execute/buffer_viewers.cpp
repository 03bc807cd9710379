// Implements buffer_viewers.h with a hash multimap from buffers to values.
#include "shardproof/engine/execute/buffer_viewers.h"

namespace shardproof {

BufferViewers::Viewers::const_iterator BufferViewers::find(const Buffer* buffer, ValueId id) const {
  const auto [first, end] = viewers_.equal_range(buffer);
  for (auto viewer = first; viewer != end; ++viewer)
    if (viewer->second == id) return viewer;
  return viewers_.end();
}

void BufferViewers::add(ValueId id, const LocalTensor& value) {
  const std::vector<Block>& blocks = value.blocks();
  for (const Block& block : blocks) {
    const Buffer* buffer = block.tensor.buffer.get();
    if (blocks.size() == 1 || find(buffer, id) == viewers_.end()) viewers_.emplace(buffer, id);
  }
}

void BufferViewers::remove(ValueId id, const LocalTensor& value) {
  for (const Block& block : value.blocks()) {
    const auto viewer = find(block.tensor.buffer.get(), id);
    if (viewer != viewers_.end()) viewers_.erase(viewer);
  }
}

}  // namespace shardproof
