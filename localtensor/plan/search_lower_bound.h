// ShuffleBound: a lower bound for the bytes that a rank sends until every axis cuts the digits that
// the goal requires. It counts axes whose digits other axes use now.
//
// An exchange over axes of n ranks sends at least (n - 1) / n of the bytes that a rank holds. An
// axis cannot take over digits in the exchange in which another axis leaves them: that exchange
// would send twice as much, the same as two exchanges. So an axis moves once, after the axes that
// it waits for have left; or it moves twice, first out of the way and later to its digits.
//
// Three exchanges are enough for the bound: four or more, even of two ranks each, send as much as
// two in which all axes move.
//
// Example, axes a and b of 2 ranks. If a waits for b, and b for none: b moves in exchange 1, a in
// exchange 2, and each sends 1/2: the bound is 1. If each waits for the other: both move in
// exchanges 1 and 2, over 4 ranks each: 3/4 + 3/4 = 3/2. The same 3/2 are three exchanges of two
// ranks: a moves aside, b moves, a moves to its digits.
#pragma once

#include <unordered_map>

#include "shardproof/localtensor/plan/search_states.h"

namespace shardproof {

class ShuffleBound {
 public:
  explicit ShuffleBound(std::vector<int64_t> sizes) : sizes_(std::move(sizes)) {}
  // Returns the bound in units of (bytes that a rank holds) / `whole`. Requires that every product
  // of the sizes divides `whole`. Results are cached.
  int64_t least(const PlacementStates::Shuffle& shuffle, int64_t whole);

 private:
  void place(const PlacementStates::Shuffle& shuffle, size_t axis, int64_t whole);

  std::vector<int64_t> sizes_;
  std::unordered_map<uint64_t, int64_t> known_;
  std::array<int64_t, 3> members_{};  // ranks of each exchange
  // First and last exchange in which each axis moves.
  std::array<std::pair<int, int>, PlacementStates::kMaxShuffled> moves_{};
  int64_t best_ = 0;
};

}  // namespace shardproof
