// The least that axes have to send until each stands where it goes, when places are taken by
// others.
//
// An exchange over axes of n ranks sends (n - 1) / n of what a rank has, at least. An axis cannot
// take a place in the same exchange in which another leaves it: that would send twice as much, as
// much as two exchanges. So an axis moves once, after those it waits for have left, or first out of
// the way and later to its place. Three exchanges are enough: with four or more even those of two
// ranks send as much as two in which all axes move.
#pragma once

#include <unordered_map>

#include "shardproof/localtensor/plan/search_states.h"

namespace shardproof {

class ShuffleBound {
 public:
  explicit ShuffleBound(std::vector<int64_t> sizes) : sizes_(std::move(sizes)) {}
  // In parts of what a rank has, times `whole`, which all products of the sizes divide.
  int64_t least(const PlacementStates::Shuffle& shuffle, int64_t whole);

 private:
  void place(const PlacementStates::Shuffle& shuffle, size_t axis, int64_t whole);

  std::vector<int64_t> sizes_;
  std::unordered_map<uint64_t, int64_t> known_;
  std::array<int64_t, 3> members_{};                                        // of each exchange
  std::array<std::pair<int, int>, PlacementStates::kMaxShuffled> moves_{};  // first and last
  int64_t best_ = 0;
};

}  // namespace shardproof
