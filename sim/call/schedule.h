// Schedule: in which order the physics runs what may run. Results may depend on it only when the
// program races. fifo runs at issue; seeded and adversarial hold everything back until no host can
// go on.
#pragma once

#include <cstdint>
#include <span>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof {

enum class ScheduleKind : uint8_t { fifo, seeded, adversarial };
struct Schedule {
  ScheduleKind kind = ScheduleKind::fifo;
  uint64_t seed = 0;
};

// Picks among streams that may run by the age of their next item. A function of the schedule and of
// the choices before.
class StreamPicker {
 public:
  explicit StreamPicker(const Schedule& schedule) : schedule_(schedule) {}
  bool defers() const { return schedule_.kind != ScheduleKind::fifo; }
  // Index into `ages` (issue order of each stream's next item; not empty).
  size_t pick(std::span<const int64_t> ages);

 private:
  Schedule schedule_;
  uint64_t picks_ = 0;
};

}  // namespace shardproof
