// Tests engine/execute/narrow_instrs.h against a search from instruction to instruction.
#include "shardproof/engine/execute/narrow_instrs.h"

#include <gtest/gtest.h>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof {
namespace {

constexpr int64_t kRanks = 64;

// Returns a listing of instructions for one rank, for a few and for all.
SpmdListing random_listing(uint64_t seed) {
  const Rng random(seed, 0);
  uint64_t drawn = 0;
  SpmdListing listing;
  listing.lanes = Lanes::range(0, kRanks);
  const uint64_t count = random.bits(drawn++) % 40;
  for (uint64_t i = 0; i < count; ++i) {
    Instr instr;
    instr.lanes = listing.lanes;
    const uint64_t kind = random.bits(drawn++) % 8;
    const auto first = static_cast<int64_t>(random.bits(drawn++) % (kRanks - 20));
    if (kind < 4) instr.lanes = Lanes::one(first);
    if (kind >= 4 && kind < 7)  // the largest are not narrow
      instr.lanes =
          Lanes::range(first, first + 1 + static_cast<int64_t>(random.bits(drawn++) % 20));
    listing.instrs.push_back(std::move(instr));
  }
  return listing;
}

TEST(NarrowInstrs, Next_LeavesOutNoInstructionOfTheRank) {
  size_t left_out = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const SpmdListing listing = random_listing(seed);
    const NarrowInstrs index(listing);
    for (int32_t rank = 0; rank < kRanks; ++rank)
      for (size_t from = 0; from <= listing.instrs.size(); ++from) {
        const size_t next = index.next(rank, from);
        ASSERT_GE(next, from);
        ASSERT_LE(next, listing.instrs.size());
        for (size_t i = from; i < next; ++i)
          ASSERT_FALSE(listing.instrs[i].lanes.contains(Lanes::one(rank))) << seed << " " << i;
        left_out += next - from;
      }
  }
  EXPECT_GT(left_out, 10'000U);
}

}  // namespace
}  // namespace shardproof
