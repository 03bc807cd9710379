// Schedule: the order in which the simulator runs what may run. Results depend on it only if the
// program has a race. Schedule fifo runs items at issue; the others run them when no host can go
// on.
//
//   seeded        any stream, at random
//   adversarial   the stream whose next item was issued last
//   side_first    streams other than main as far as their waits allow, the one used last first; of
//                 several hosts' main streams first one whose host has no other work, because the
//                 other streams may wait for it
//   main_first    main as far as its waits allow, then the others in the order of their first use
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof {

enum class ScheduleKind : uint8_t { fifo, seeded, adversarial, side_first, main_first };
inline constexpr int kScheduleKindCount = 5;
std::string_view name(ScheduleKind kind);                                // "fifo", "side-first"
std::optional<ScheduleKind> parse_schedule_kind(std::string_view text);  // inverse of name
struct Schedule {
  ScheduleKind kind = ScheduleKind::fifo;
  uint64_t seed = 0;
};

// A stream that may run.
struct StreamHead {
  int64_t age = 0;          // order of issue of its next item
  int32_t stream = 0;       // number in the cohort, where main is 0
  bool has_others = false;  // another stream of the cohort has work left
};

// Picks one of the streams that may run. Deterministic: the pick depends on the schedule and on
// earlier picks only.
class StreamPicker {
 public:
  explicit StreamPicker(const Schedule& schedule) : schedule_(schedule) {}
  bool defers() const { return schedule_.kind != ScheduleKind::fifo; }
  // Returns an index into `heads`. Requires one at least.
  size_t pick(std::span<const StreamHead> heads);

 private:
  Schedule schedule_;
  uint64_t picks_ = 0;
};

}  // namespace shardproof
