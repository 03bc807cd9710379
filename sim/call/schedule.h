// Schedule: the order in which the simulator runs what may run. Results depend on it only if the
// program has a race. Schedule fifo runs items at issue; seeded and adversarial run them when no
// host can go on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof {

enum class ScheduleKind : uint8_t { fifo, seeded, adversarial };
std::string_view name(ScheduleKind kind);  // "fifo"
struct Schedule {
  ScheduleKind kind = ScheduleKind::fifo;
  uint64_t seed = 0;
};

// Picks one of the streams that may run, by the age of its next item. Deterministic: a function of
// the schedule and of the picks before.
class StreamPicker {
 public:
  explicit StreamPicker(const Schedule& schedule) : schedule_(schedule) {}
  bool defers() const { return schedule_.kind != ScheduleKind::fifo; }
  // Returns an index into `ages`, the order of issue of each stream's next item. Requires one at
  // least.
  size_t pick(std::span<const int64_t> ages);

 private:
  Schedule schedule_;
  uint64_t picks_ = 0;
};

}  // namespace shardproof
