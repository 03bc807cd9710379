// StreamOrder: the order of a rank's instructions that its streams and waits guarantee. Two
// instructions of different streams without an order may run in either order. Internal to the
// engine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

class StreamOrder {
 public:
  // Covers the instructions of the listing that `rank` executes. O(instructions * streams).
  StreamOrder(const SpmdListing& listing, int32_t rank);

  // True if the earlier of two instructions, given by index in the listing, ends before the later
  // one begins. Requires that the rank executes both.
  bool are_ordered(size_t a, size_t b) const;

 private:
  using Clock = std::map<std::string, int64_t>;  // by stream: instructions that have ended
  std::vector<Clock> clocks_;                    // by instruction: when it ends
  std::vector<std::string> streams_;             // by instruction
};

}  // namespace shardproof
