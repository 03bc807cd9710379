// Implements Slots of tensor.h. A table that is constant or the identity becomes `shared` or
// `each`.
#include <algorithm>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

Slots Slots::shared(int64_t lanes) {
  Slots slots;
  slots.lanes_ = lanes;
  slots.count_ = lanes > 0 ? 1 : 0;
  return slots;
}

Slots Slots::each(int64_t lanes) {
  Slots slots;
  slots.lanes_ = slots.count_ = lanes;
  return slots;
}

Slots Slots::table(std::vector<int32_t> slot_of_lane) {
  const int64_t lanes = static_cast<int64_t>(slot_of_lane.size());
  int32_t top = -1;
  bool identity = true, first_seen = true;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const int32_t slot = slot_of_lane[static_cast<size_t>(lane)];
    SP_CHECK(slot >= 0 && slot < lanes, "copy {} of {} lanes", slot, lanes);
    identity = identity && slot == lane;
    first_seen = first_seen && slot <= top + 1;
    top = std::max(top, slot);
  }
  if (top <= 0) return shared(lanes);
  if (identity) return each(lanes);
  if (!first_seen) {
    std::vector<bool> used(static_cast<size_t>(top) + 1, false);
    for (const int32_t slot : slot_of_lane) used[static_cast<size_t>(slot)] = true;
    SP_CHECK(std::find(used.begin(), used.end(), false) == used.end(),
             "copies of a table are not numbered without gaps");
  }
  Slots slots;
  slots.lanes_ = lanes;
  slots.count_ = top + 1;
  slots.ordered_ = first_seen;
  slots.table_ = std::make_shared<const std::vector<int32_t>>(std::move(slot_of_lane));
  return slots;
}

}  // namespace shardproof
