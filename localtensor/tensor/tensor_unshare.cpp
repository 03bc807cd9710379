// Implements separate() of tensor.h: gives chosen lanes stored copies of their own.
//
// Example: 4 lanes read the copies 0 0 1 1, and only lane 1 is to be written. The new copies are
// numbered by first use: lanes read 0 1 2 2, made from the old copies 0, 0, 1.
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/copy_place.h"

namespace shardproof {
namespace {

struct Separation {
  std::vector<int32_t> slot_of_lane;  // new copy of each lane, numbered by first use
  std::vector<int32_t> sources;       // old copy that each new copy is made from
};

Separation separated(const Buffer& buffer, const Lanes& lanes) {
  const int64_t count = buffer.lanes.size();
  Separation result;
  result.slot_of_lane.reserve(static_cast<size_t>(count));
  std::vector<int32_t> kept(static_cast<size_t>(buffer.slots.count()), -1);
  int64_t next = 0;  // position in `lanes`; both sets ascend, so one pass is enough
  for (int64_t lane = 0; lane < count; ++lane) {
    const int32_t old = static_cast<int32_t>(buffer.slots[lane]);
    const bool apart = next < lanes.size() && lanes[next] == buffer.lanes[lane];
    if (apart) ++next;
    int32_t slot = apart ? -1 : kept[static_cast<size_t>(old)];
    if (slot < 0) {
      slot = static_cast<int32_t>(result.sources.size());
      result.sources.push_back(old);
      if (!apart) kept[static_cast<size_t>(old)] = slot;
    }
    result.slot_of_lane.push_back(slot);
  }
  SP_CHECK(next == lanes.size(), "lanes {} of a buffer of {}", to_string(lanes),
           to_string(buffer.lanes));
  return result;
}

// True if no other lane reads the copy of any of `lanes`.
bool is_separate(const Buffer& buffer, const Lanes& lanes) {
  if (buffer.slots.is_each() || lanes.empty()) return true;
  if (buffer.slots.is_shared()) return false;
  std::vector<int32_t> readers(static_cast<size_t>(buffer.slots.count()), 0);
  for (int64_t lane = 0; lane < buffer.lanes.size(); ++lane)
    ++readers[static_cast<size_t>(buffer.slots[lane])];
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const int64_t lane = buffer.lanes.index_of(lanes[i]);
    if (lane >= 0 && readers[static_cast<size_t>(buffer.slots[lane])] > 1) return false;
  }
  return true;
}

}  // namespace

void separate(Buffer& buffer, const Lanes& lanes) {
  SP_CHECK(buffer.lanes.contains(lanes), "lanes {} of a buffer of {}", to_string(lanes),
           to_string(buffer.lanes));
  if (is_separate(buffer, lanes)) return;
  Separation result = separated(buffer, lanes);
  // A buffer without contents (shapes only) still gets new slots.
  if (buffer.bytes.size() > 0) {
    const CopyPlace place = CopyPlace::of(buffer.bytes);
    const int64_t stride = buffer.bytes_per_lane;
    Bytes bytes = place.uninitialized(std::ssize(result.sources) * stride);
    std::byte* target = place.write(bytes);
    const std::byte* source = place.read(buffer.bytes);
    for (const int64_t slot : result.sources) {
      place.copy(target, source + slot * stride, stride);
      target += stride;
    }
    buffer.bytes = std::move(bytes);
  }
  buffer.slots = Slots::table(std::move(result.slot_of_lane));
}

}  // namespace shardproof
