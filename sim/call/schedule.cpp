// Implements schedule.h: fifo picks the oldest item, adversarial the newest, seeded a random one.
// The others pick by stream, and the oldest item among equal streams of several cohorts.
#include <algorithm>
#include <array>
#include <tuple>

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

size_t StreamPicker::pick(std::span<const StreamHead> heads) {
  if (schedule_.kind == ScheduleKind::seeded) {
    const Rng rng(schedule_.seed, hash_text("schedule"));
    return static_cast<size_t>(rng.integer(picks_++, 0, static_cast<int64_t>(heads.size())));
  }
  // The stream with the smallest order goes first.
  const auto order = [&](const StreamHead& head) -> std::tuple<int64_t, bool, int64_t> {
    switch (schedule_.kind) {
      case ScheduleKind::adversarial: return {-head.age, false, 0};
      case ScheduleKind::side_first: return {-int64_t{head.stream}, head.has_others, head.age};
      case ScheduleKind::main_first: return {head.stream, false, head.age};
      case ScheduleKind::seeded:
      case ScheduleKind::fifo: break;
    }
    return {head.age, false, 0};
  };
  const auto first = std::min_element(
      heads.begin(), heads.end(),
      [&](const StreamHead& a, const StreamHead& b) { return order(a) < order(b); });
  return static_cast<size_t>(first - heads.begin());
}

}  // namespace shardproof
