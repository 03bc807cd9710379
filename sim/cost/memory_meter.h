// MemoryMeter: counts the bytes that each lane of a cohort holds, by category, and their peak. Each
// execution context of the local backend has one.
//
// Counts like PyTorch's caching allocator: sizes are rounded up to 512 bytes; a size of 0 takes no
// block. Categories are small numbers that the caller chooses. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "shardproof/localtensor/base/lanes.h"
#include "shardproof/sim/call/per_lane.h"

namespace shardproof {

inline constexpr int64_t kBlockBytes = 512;
inline int64_t rounded_block(int64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

struct MemoryUse {
  int64_t bytes = 0, peak_bytes = 0;
  std::vector<int64_t> by_category,
      peak_by_category;  // bytes now, and when the peak was first reached
  void add(int64_t bytes_more, int category);
  bool operator==(const MemoryUse&) const = default;
};

class MemoryMeter {
 public:
  explicit MemoryMeter(Lanes lanes) : lanes_(std::move(lanes)) {}
  void allocate(const Lanes& lanes, int64_t bytes, int category) {
    change(lanes, rounded_block(bytes), category);
  }
  void release(const Lanes& lanes, int64_t bytes, int category) {
    change(lanes, -rounded_block(bytes), category);
  }
  const MemoryUse& of_lane(int64_t lane) const { return use_[lane]; }
  // Returns the lane with the highest peak; the first of equals.
  int64_t fullest_lane() const;

 private:
  void change(const Lanes& lanes, int64_t bytes, int category);

  Lanes lanes_;
  PerLane<MemoryUse> use_;
};

}  // namespace shardproof
