// RankBlocks: which process and which endpoint (transport.h) runs a rank. Ranks lie on endpoints in
// contiguous blocks; every process has the same number of endpoints, numbered process by process.
//
// If the number of ranks is not a multiple of the number of endpoints, the first blocks hold one
// rank more. Example: 7 ranks on 2 processes with 2 endpoints each lie as 0-1, 2-3 | 4-5, 6.
// Requires at least one rank an endpoint. All functions take constant time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shardproof/localtensor/base/lanes.h"

namespace shardproof {

class RankBlocks {
 public:
  // `endpoints_each`: endpoints in each process.
  RankBlocks(int64_t ranks, int processes, int endpoints_each = 1)
      : ranks_(ranks), endpoints_(processes * endpoints_each), each_(endpoints_each) {}
  int64_t ranks() const { return ranks_; }
  Lanes of(int process) const {  // ranks of a process
    return Lanes::range(first(process * each_), first((process + 1) * each_));
  }
  Lanes of_endpoint(int endpoint) const {
    return Lanes::range(first(endpoint), first(endpoint + 1));
  }
  int process_of(int64_t rank) const { return endpoint_of(rank) / each_; }
  int endpoint_of(int64_t rank) const {
    const int64_t less = ranks_ / endpoints_, longer = ranks_ % endpoints_;
    const int64_t split = longer * (less + 1);
    return static_cast<int>(rank < split ? rank / (less + 1) : longer + (rank - split) / less);
  }

 private:
  int64_t first(int endpoint) const {
    const int64_t less = ranks_ / endpoints_, longer = ranks_ % endpoints_;
    return endpoint * less + std::min<int64_t>(endpoint, longer);
  }
  int64_t ranks_;
  int endpoints_, each_;
};

}  // namespace shardproof
