// Tests owned_pieces.h and exchange_volume.h against the indices that Spec gives to each rank.
#include "shardproof/localtensor/placement/owned_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/localtensor/base/short_list.h"
#include "shardproof/localtensor/placement/copy_segments.h"
#include "shardproof/localtensor/plan/exchange_volume.h"

namespace shardproof::owned_pieces_test {
namespace {

const Mesh kMesh = Mesh::parse("a=2, b=3, c=2");
const CoordinateBits kBits({2, 3, 2});

// Draws cuts of two dims by any axes in any order; some are strided.
Spec draw_cuts(const Rng& rng, uint64_t pair, const Dims& shape) {
  uint64_t drawn = 0;
  const auto number = [&](int64_t count) { return rng.integer(pair * 64 + drawn++, 0, count); };
  std::vector<Placement> placements;
  for (int axis = 0; axis < 3; ++axis) {
    const auto dim = static_cast<int>(number(3));
    placements.push_back(dim == 2 ? Placement(R()) : Shard{dim, 1 + number(3), {}});
  }
  std::vector<int> order = {0, 1, 2};
  for (size_t i = 3; i-- > 1;) std::swap(order[i], order[static_cast<size_t>(number(3))]);
  return Spec(kMesh, placements, shape, DType::f32, order);
}

Dims coordinate_of(uint64_t owner) {
  Dims at;
  for (int axis = 0; axis < 3; ++axis) at.push_back(kBits.coordinate(owner, axis));
  return at;
}

TEST(OwnedPieces, EveryIndex_HasTheOwnerThatTheSpecNames) {
  const Rng rng(7, 0);
  for (uint64_t pair = 0; pair < 300; ++pair) {
    const Spec spec = draw_cuts(rng, pair, {static_cast<int64_t>(pair % 14), 5});
    int64_t at = 0;
    for (const OwnedPiece& piece : owned_pieces(cuts_of_dim(spec, 0), spec.shape()[0], kBits)) {
      ASSERT_LT(at, piece.end);
      const Runs owned = spec.owned_at(coordinate_of(piece.owner), 0);
      for (; at < piece.end; ++at)
        EXPECT_TRUE(std::any_of(
            owned.begin(), owned.end(),
            [&](const auto& run) { return run.start <= at && at < run.start + run.length; }))
            << to_string(spec) << " index " << at;
    }
    EXPECT_EQ(at, spec.shape()[0]);
  }
}

TEST(OwnedPieces, ExplicitSizes_AreThePieces) {
  const CutList cuts = {{1, 3, Shard{0, 1, {4, 0, 3}}}};
  const OwnedPieces expected = {{4, kBits.packed(1, 0)}, {7, kBits.packed(1, 2)}};
  EXPECT_EQ(owned_pieces(cuts, 7, kBits), expected);
}

TEST(OwnedPieces, ChunksWithAGap_AreThoseOfAStridedCut) {
  for (int64_t extent = 0; extent < 20; ++extent) {
    const std::vector<ChunkCut> chunks = {{-1, 3}, {0, 2}};
    const CutList strided = {{0, 2, Shard{0, 3, {}}}};
    EXPECT_EQ(owned_pieces(chunks, extent, kBits), owned_pieces(strided, extent, kBits));
  }
}

TEST(ExchangeVolume, MissingElements_AreThoseThatRanksHoldOnlyAfterwards) {
  const Rng rng(8, 0);
  for (uint64_t pair = 0; pair < 300; ++pair) {
    const Dims shape = {1 + static_cast<int64_t>(pair % 13), 5};
    const Spec from = draw_cuts(rng, 2 * pair, shape), to = draw_cuts(rng, 2 * pair + 1, shape);
    int64_t missing = 0;
    for (int64_t rank = 0; rank < 12; ++rank) {
      const Dims at = *kMesh.coordinate_of(rank);
      int64_t held = 1;
      for (int dim = 0; dim < 2; ++dim)
        held *= length(common_runs(from.owned_at(at, dim), to.owned_at(at, dim)));
      missing += element_count(to.local_shape_at(at)) - held;
    }
    EXPECT_EQ(missing_elements(from, to), Fraction(missing, 12))
        << to_string(from) << " to " << to_string(to);
  }
}

TEST(ShortList, MoreValuesThanItsCapacity_AreRefused) {
  ShortList<int, 3> list;
  for (int i : {5, 7}) list.push_back(i);
  list.insert(1, 6);
  EXPECT_TRUE(std::equal(list.begin(), list.end(), std::begin({5, 6, 7})));
  EXPECT_THROW(list.push_back(8), Error);
  list.erase(0);
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0], 6);
}

}  // namespace
}  // namespace shardproof::owned_pieces_test
