// Tests that the shapes of a value are ordered, found by rank, and joined if they are equal.
#include "shardproof/program/ir/local_shapes.h"

#include <gtest/gtest.h>

namespace shardproof::value_shapes_test {
namespace {

Lanes every_other(int32_t first) { return Lanes::of({first, first + 2, first + 4}); }

TEST(ValueShapes, ShapesInAnyOrder_AreOrderedByFirstRank) {
  const LocalShapes shapes{{Lanes::one(7), Dims{1}}, {every_other(1), Dims{2}}};
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0].shape, Dims{2});
  EXPECT_EQ(shapes[1].shape, Dims{1});
}

TEST(ValueShapes, ShapeOfARank_IsFoundAmongInterleavedLanes) {
  const LocalShapes shapes{{every_other(0), Dims{1}}, {every_other(1), Dims{2}}};
  for (int64_t rank = 0; rank < 6; ++rank) {
    const LocalShape* const found = shapes.find(rank);
    ASSERT_NE(found, nullptr) << rank;
    EXPECT_EQ(found->shape, Dims{rank % 2 + 1}) << rank;
  }
  EXPECT_EQ(shapes.find(6), nullptr);
  EXPECT_EQ(LocalShapes{}.find(0), nullptr);
  EXPECT_EQ(shapes.lanes(), Lanes::range(0, 6));
}

TEST(ShapesByLanes, EqualShapes_BecomeOne) {
  ShapesByLanes collected;
  for (int32_t rank = 11; rank >= 0; --rank) collected.add(Lanes::one(rank), Dims{rank / 6});
  const LocalShapes expected{{Lanes::range(0, 6), Dims{0}}, {Lanes::range(6, 12), Dims{1}}};
  EXPECT_EQ(collected.shapes(), expected);
}

}  // namespace
}  // namespace shardproof::value_shapes_test
