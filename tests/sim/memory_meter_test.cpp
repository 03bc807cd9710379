// Tests of MemoryMeter.
#include <gtest/gtest.h>

#include "shardproof/sim/cost/memory_meter.h"

namespace shardproof::memory_meter_test {
namespace {

TEST(MemoryMeter, Sizes_RoundUpTo512Bytes) {
  EXPECT_EQ(rounded_block(0), 0);
  EXPECT_EQ(rounded_block(1), 512);
  EXPECT_EQ(rounded_block(512), 512);
  EXPECT_EQ(rounded_block(513), 1024);
}

TEST(MemoryMeter, Peak_HasItsCategories) {
  MemoryMeter meter(Lanes::one(0));
  const Lanes all = Lanes::one(0);
  meter.allocate(all, 1000, 0);
  meter.allocate(all, 2000, 2);
  meter.release(all, 2000, 2);
  meter.allocate(all, 500, 1);
  EXPECT_EQ(meter.of_lane(0).bytes, 1024 + 512);
  EXPECT_EQ(meter.of_lane(0).peak_bytes, 1024 + 2048);
  EXPECT_EQ(meter.of_lane(0).peak_by_category, (std::vector<int64_t>{1024, 0, 2048}));
}

// One cohort of all lanes counts the same as cohorts of one lane.
TEST(MemoryMeter, Counts_AnyCohorts_AreEqual) {
  MemoryMeter together(Lanes::range(0, 3));
  std::vector<MemoryMeter> alone;
  for (int64_t rank = 0; rank < 3; ++rank) alone.emplace_back(Lanes::one(rank));
  const auto allocate = [&](const Lanes& lanes, int64_t bytes, int category) {
    together.allocate(lanes, bytes, category);
    for (int64_t i = 0; i < lanes.size(); ++i)
      alone[static_cast<size_t>(lanes[i])].allocate(Lanes::one(lanes[i]), bytes, category);
  };
  const auto release = [&](const Lanes& lanes, int64_t bytes, int category) {
    together.release(lanes, bytes, category);
    for (int64_t i = 0; i < lanes.size(); ++i)
      alone[static_cast<size_t>(lanes[i])].release(Lanes::one(lanes[i]), bytes, category);
  };
  allocate(Lanes::range(0, 3), 600, 0);
  allocate(Lanes::range(1, 3), 600, 1);
  release(Lanes::range(0, 3), 600, 0);
  allocate(Lanes::one(2), 5000, 1);
  for (int64_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(together.of_lane(rank), alone[static_cast<size_t>(rank)].of_lane(0));
  EXPECT_EQ(together.fullest_lane(), 2);
}

}  // namespace
}  // namespace shardproof::memory_meter_test
