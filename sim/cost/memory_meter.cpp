// Implements memory_meter.h.
#include "shardproof/sim/cost/memory_meter.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

void MemoryUse::add(int64_t bytes_more, int category) {
  SP_CHECK(category >= 0, "memory category {}", category);
  const size_t index = static_cast<size_t>(category);
  if (by_category.size() <= index) by_category.resize(index + 1, 0);
  by_category[index] += bytes_more;
  bytes += bytes_more;
  if (bytes <= peak_bytes) return;
  peak_bytes = bytes;
  peak_by_category = by_category;
}

void MemoryMeter::change(const Lanes& lanes, int64_t bytes, int category) {
  if (lanes.size() == lanes_.size()) {
    use_.for_each([&](MemoryUse& use) { use.add(bytes, category); });
    return;
  }
  for (int64_t i = 0; i < lanes.size(); ++i)
    use_.at(lanes_.index_of(lanes[i]), lanes_.size()).add(bytes, category);
}

int64_t MemoryMeter::fullest_lane() const {
  int64_t fullest = 0;
  for (int64_t lane = 1; !use_.uniform() && lane < lanes_.size(); ++lane)
    if (use_[lane].peak_bytes > use_[fullest].peak_bytes) fullest = lane;
  return fullest;
}

}  // namespace shardproof
