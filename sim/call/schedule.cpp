// Implements schedule.h: fifo prefers the oldest item, adversarial the newest, seeded a random one.
// The others prefer by stream, and the oldest item among equal streams of several cohorts.
#include <algorithm>
#include <array>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/sim/call/schedule.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, kScheduleKindCount> kNames = {
    "fifo", "seeded", "adversarial", "side-first", "main-first"};

}  // namespace

std::string_view name(ScheduleKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::optional<ScheduleKind> parse_schedule_kind(std::string_view text) {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<ScheduleKind>(found - kNames.begin());
}

StreamPriority priority_of(const StreamHead& head, const Schedule& schedule) {
  switch (schedule.kind) {
    case ScheduleKind::fifo: break;
    case ScheduleKind::seeded: {
      const uint64_t draw =
          Rng(schedule.seed, hash_text("schedule")).bits(static_cast<uint64_t>(head.age));
      return {static_cast<int64_t>(draw >> 1), {}, head.age};
    }
    case ScheduleKind::adversarial: return {-head.age, {}, 0};
    case ScheduleKind::side_first: return {-int64_t{head.stream}, head.others, head.age};
    case ScheduleKind::main_first: return {head.stream, {}, head.age};
  }
  return {head.age, {}, 0};
}

}  // namespace shardproof
