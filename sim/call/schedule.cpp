// Implements schedule.h: fifo picks the oldest item, adversarial the newest, seeded a random one.
#include <algorithm>

#include "shardproof/sim/call/schedule.h"

namespace shardproof {

std::string_view name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::seeded: return "seeded";
    case ScheduleKind::adversarial: return "adversarial";
    case ScheduleKind::fifo: break;
  }
  return "fifo";
}

size_t StreamPicker::pick(std::span<const int64_t> ages) {
  switch (schedule_.kind) {
    case ScheduleKind::seeded: {
      const Rng rng(schedule_.seed, hash_text("schedule"));
      return static_cast<size_t>(rng.integer(picks_++, 0, static_cast<int64_t>(ages.size())));
    }
    case ScheduleKind::adversarial:
      return static_cast<size_t>(std::max_element(ages.begin(), ages.end()) - ages.begin());
    case ScheduleKind::fifo: break;
  }
  return static_cast<size_t>(std::min_element(ages.begin(), ages.end()) - ages.begin());
}

}  // namespace shardproof
