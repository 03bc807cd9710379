// Implements search_lower_bound.h: branch and bound over the exchanges in which each axis moves.
#include "shardproof/localtensor/plan/search_lower_bound.h"

#include <algorithm>
#include <limits>

namespace shardproof {

int64_t ShuffleBound::least(const PlacementStates::Shuffle& shuffle, int64_t whole) {
  const auto [found, fresh] = known_.try_emplace(shuffle.key(), 0);
  if (!fresh) return found->second;
  best_ = std::numeric_limits<int64_t>::max();
  members_ = {1, 1, 1};
  place(shuffle, 0, whole);
  return found->second = best_;
}

// Tries all exchanges for the moves of `axis` and of the axes after it; `best_` cuts the recursion.
void ShuffleBound::place(const PlacementStates::Shuffle& shuffle, size_t axis, int64_t whole) {
  int64_t sent = 0;
  for (const int64_t members : members_) sent += whole - whole / members;
  if (sent >= best_) return;
  if (axis == sizes_.size()) {
    best_ = sent;
    return;
  }
  if ((shuffle.moving >> axis & 1) == 0) return place(shuffle, axis + 1, whole);
  const auto waits = [&](size_t a, size_t b) { return (shuffle.waits_for[a] >> b & 1) != 0; };
  for (int first = 0; first < 3; ++first)
    for (int last = first; last < 3; ++last) {
      bool in_turn = true;
      for (size_t other = 0; other < axis; ++other) {
        if ((shuffle.moving >> other & 1) == 0) continue;
        in_turn = in_turn && !(waits(axis, other) && last <= moves_[other].first) &&
                  !(waits(other, axis) && moves_[other].second <= first);
      }
      if (!in_turn) continue;
      moves_[axis] = {first, last};
      const std::array<int64_t, 3> before = members_;
      members_[static_cast<size_t>(first)] *= sizes_[axis];
      if (last != first) members_[static_cast<size_t>(last)] *= sizes_[axis];
      place(shuffle, axis + 1, whole);
      members_ = before;
    }
}

}  // namespace shardproof
