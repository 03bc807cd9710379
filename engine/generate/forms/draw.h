// Draw: a sequence of random numbers, a function of seed and stream on every platform. A generator
// makes its choices in order from one sequence. Separate aspects use separate streams, so one more
// draw in one aspect does not change the others.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof {

class Draw {
 public:
  Draw(uint64_t seed, std::string_view stream) : rng_(seed, hash_text(stream)) {}

  int64_t below(int64_t limit) { return rng_.integer(next_++, 0, limit); }  // 0..limit-1
  // Returns an integer of low..high, both included.
  int64_t between(int64_t low, int64_t high) { return rng_.integer(next_++, low, high + 1); }
  double uniform() { return rng_.uniform(next_++); }  // [0, 1)
  double normal() { return rng_.normal(next_++); }
  bool chance(double share) { return uniform() < share; }
  uint64_t bits() { return rng_.bits(next_++); }

  template <class T>
  const T& from(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }
  template <class T>
  T from(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<int64_t>(list.size())));
  }

 private:
  Rng rng_;
  uint64_t next_ = 0;
};

}  // namespace shardproof
