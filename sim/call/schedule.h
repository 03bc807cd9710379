// Schedule: the order in which the simulator runs the items that may run. Results depend on it only
// if the program has a race. Schedule fifo runs items at issue; the others run them when no host
// can go on.
//
//   seeded        streams at random
//   adversarial   the stream whose next item was issued last
//   side_first    streams other than main as far as their waits allow, the one used last first; of
//                 several hosts' main streams first one whose host has no other work, because the
//                 other streams may wait for it, and last one whose host has a call that waits for
//                 other hosts
//   main_first    main as far as its waits allow, then the others in the order of their first use
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace shardproof {

enum class ScheduleKind : uint8_t { fifo, seeded, adversarial, side_first, main_first };
inline constexpr int kScheduleKindCount = 5;
std::string_view name(ScheduleKind kind);                                // "fifo", "side-first"
std::optional<ScheduleKind> parse_schedule_kind(std::string_view text);  // inverse of name
struct Schedule {
  ScheduleKind kind = ScheduleKind::fifo;
  uint64_t seed = 0;
  bool defers() const { return kind != ScheduleKind::fifo; }
};

// Work of the other streams of a cohort.
enum class OtherWork : uint8_t {
  none,
  queued,   // that has not begun: it may wait for this stream
  in_call,  // a call that waits for other cohorts, and none is queued
};

// A stream that may run.
struct StreamHead {
  int64_t age = 0;     // order of issue of its next item
  int32_t stream = 0;  // number in the cohort, where main is 0
  OtherWork others = OtherWork::none;
};

// The stream with the smallest priority runs next. Priorities of different items differ.
using StreamPriority = std::tuple<int64_t, OtherWork, int64_t>;
StreamPriority priority_of(const StreamHead& head, const Schedule& schedule);

}  // namespace shardproof
