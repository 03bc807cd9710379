// Implements pat_steps of nccl_orders.h: the order in which PAT's reduce_scatter adds (NCCL's
// PatRSAlgorithm).
//
// All ranks follow one schedule. For each distance s between itself and a destination, a rank
// receives partial sums from distances s plus a power of two. It adds its own elements for s, and
// sends the result to distance s minus its lowest bit. Distance 0 is the destination itself.
//
//   1. PatSchedule replays the schedule once and lists, for each distance, the sources in order of
//      arrival; 0 means none (only the rank's own elements).
//   2. add_steps walks the resulting tree from distance 0 and writes it as steps for a stack.
//
// Example, 4 members: distances 3 and 1 send their own elements. 2 adds those of 3; 0 adds those of
// 2, then those of 1. The block of member 0, for which distance s is member (0 - s) mod 4: push 1,
// own 2, own 0, push 3, merge. The result is ((x1 + x2) + x0) + x3.
#include <bit>
#include <map>

#include "shardproof/localtensor/collective/nccl_orders.h"

namespace shardproof {
namespace {

constexpr int64_t kStepDepth = 8;  // NCCL_STEPS

// Returns the bits of `i` below `limit` in reverse order, each inverted. Example: mirrored(1, 4) is
// binary 01 reversed to 10 and inverted to 01: 1.
int64_t mirrored(int64_t i, int64_t limit) {
  int64_t result = 0, there = limit / 2;
  for (int64_t bit = 1; bit < limit; bit *= 2, there /= 2)
    if ((i & bit) == 0) result += there;
  return result;
}

int64_t lowest_bit(int64_t i) { return i & -i; }

// The sources of partial sums at each distance, in order of arrival; 0 means none.
class PatSchedule {
 public:
  PatSchedule(int64_t members, int64_t chunk_count, int64_t count) : members_(members) {
    delta_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(members)));
    while (chunk_count / (count * together_) >= 2 && may_grow()) grow();
    for (int64_t depth = kStepDepth; depth > 1 && may_grow(); depth /= 2) grow();
    run();
  }

  const std::vector<int64_t>& at(int64_t distance) const { return came_.at(distance); }

 private:
  bool may_grow() const { return together_ < members_ / 2; }
  void grow() {
    together_ *= 2;
    delta_ /= 2;
  }

  // Records that `distance` combines a partial sum from `source`, or only its own elements if
  // `source` is beyond the members.
  void combine(int64_t source, int64_t distance) {
    if (distance >= members_) return;
    std::vector<int64_t>& sources = came_[distance];
    if (source < members_)
      sources.push_back(source);
    else if (sources.empty())
      sources.push_back(0);
  }

  void send_own(int64_t step) {
    for (int64_t a = 0; a < together_; ++a) {
      const int64_t s = mirrored(a, together_) * delta_ + step;
      if (s < members_) came_[s].push_back(0);
    }
  }

  void pass_on(int64_t step) {
    for (int64_t a = 0; a < together_; ++a) {
      const int64_t s = mirrored(a, together_) * delta_ + step;
      combine(s, s - lowest_bit(s));
    }
  }

  // Combines the sums that were sent together, `scale` apart.
  void close(int64_t scale) {
    const int64_t count = together_ / (2 * scale);
    const auto source = [&](int64_t a) { return (2 * mirrored(a, count) + 1) * scale * delta_; };
    for (int64_t a = 0; a < count; ++a) combine(source(a) + 1, source(a));
    for (int64_t a = 0; a < count; ++a) combine(source(a), source(a) - lowest_bit(source(a)));
  }

  void run() {
    for (int64_t step = delta_ - 1; step > 0; --step) {
      if (step % 2 == 1) send_own(step);
      if (step > 1) pass_on(step);
    }
    for (int64_t scale = 1; scale < together_; scale *= 2) close(scale);
    combine(1, 0);
  }

  int64_t members_, together_ = 1, delta_;
  std::map<int64_t, std::vector<int64_t>> came_;
};

void add_steps(const PatSchedule& schedule, int64_t members, int64_t destination, int64_t distance,
               std::vector<FoldStep>& steps) {
  const int64_t member = (destination - distance + members) % members;
  bool own = false;
  for (const int64_t source : schedule.at(distance)) {
    if (source != 0) add_steps(schedule, members, destination, source, steps);
    const FoldStep::Kind first = source != 0 ? FoldStep::Kind::own : FoldStep::Kind::push;
    steps.push_back({own ? FoldStep::Kind::merge : first, own ? 0 : member});
    own = true;
  }
}

}  // namespace

std::vector<FoldStep> pat_steps(int64_t members, int64_t destination, int64_t chunk_count,
                                int64_t count) {
  const PatSchedule schedule(members, chunk_count, count);
  std::vector<FoldStep> steps;
  add_steps(schedule, members, destination, 0, steps);
  return steps;
}

}  // namespace shardproof
