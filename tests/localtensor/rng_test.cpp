// Tests rng.h.
#include "shardproof/localtensor/base/rng.h"

#include <gtest/gtest.h>

#include <limits>

namespace shardproof::rng_test {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers of Random123, the library of the authors.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The values are pinned: a change would change every filled tensor and every approved value.
TEST(Rng, FirstValues_ArePinned) {
  EXPECT_EQ(Rng(0, 0).bits(0), 0xe169c58d6627e8d5u);
  EXPECT_EQ(Rng(7, hash_text("w1")).bits(3), 0x6876d3202fd4bbceu);
  EXPECT_EQ(Rng(7, hash_text("w1")).uniform(3), 0x1.a1db4c80bf52ep-2);
  EXPECT_EQ(Rng(7, hash_text("w1")).integer(3, -4, 5), -1);
  EXPECT_DOUBLE_EQ(Rng(7, hash_text("w1")).normal(3), 0.57314465873863463);
  EXPECT_EQ(hash_text(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_text("foobar"), 0x85944171f73967e8u);
}

TEST(Rng, OtherSeedStreamOrIndex_GivesOtherDraws) {
  const uint64_t base = Rng(1, 2).bits(3);
  constexpr uint64_t kHigh = uint64_t{1} << 63;
  EXPECT_NE(base, Rng(1 | kHigh, 2).bits(3));
  EXPECT_NE(base, Rng(1, 2 | kHigh).bits(3));
  EXPECT_NE(base, Rng(1, 2).bits(3 | kHigh));
  EXPECT_EQ(base, Rng(1, 2).bits(3));
}

TEST(Rng, UniformAndNormalHaveTheirMoments) {
  constexpr int kDraws = 100'000;
  const Rng rng(3, 0);
  double mean = 0, squares = 0, normal_mean = 0, normal_squares = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double u = rng.uniform(i), z = rng.normal(i);
    ASSERT_TRUE(u >= 0 && u < 1);
    mean += u / kDraws;
    squares += u * u / kDraws;
    normal_mean += z / kDraws;
    normal_squares += z * z / kDraws;
  }
  EXPECT_NEAR(mean, 0.5, 0.005);
  EXPECT_NEAR(squares, 1.0 / 3, 0.005);
  EXPECT_NEAR(normal_mean, 0, 0.015);
  EXPECT_NEAR(normal_squares, 1, 0.02);
}

TEST(Rng, IntegersAreEvenlySpread) {
  const Rng rng(4, 0);
  std::array<int, 9> counts{};
  for (uint64_t i = 0; i < 90'000; ++i) ++counts[static_cast<size_t>(rng.integer(i, -4, 5) + 4)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  int negative = 0;
  for (uint64_t i = 0; i < 1000; ++i) negative += rng.integer(i, kLow, kHigh) < 0;
  EXPECT_NEAR(negative, 500, 100);
  EXPECT_EQ(rng.integer(5, 7, 8), 7);
}

}  // namespace
}  // namespace shardproof::rng_test
