// Tests the comparison of values that two runs recorded in different ways: whole, as shards, or as
// digests.
#include <gtest/gtest.h>

#include <map>

#include "shardproof/engine/compare/record_value.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/scenarios/record/run_comparison.h"

namespace shardproof::recorded_values_test {
namespace {

// Returns the same contents as one whole value or as shards.
RecordedValue in_parts(RecordedValue value, const LocalTensor& locals) {
  value.whole = false;
  value.parts.clear();
  for (int64_t i = 0; i < value.lanes.size(); ++i)
    value.parts.push_back({Lanes::one(value.lanes[i]), locals.of_rank(value.lanes[i])});
  return value;
}

// Returns the value with another element at `place`, on the rank that holds it.
void expect_no_difference_but(const Spec& spec, const Dims& place, int32_t rank) {
  std::vector<double> numbers(static_cast<size_t>(element_count(spec.shape())), 1);
  SpmdValue info;
  info.name = info.bound = "x";
  const auto locals = [&] { return split(tensor_of(spec.dtype(), spec.shape(), numbers), spec); };
  const auto seen = [&] { return record_value(info, spec, locals()); };
  const RecordedValue whole = seen(), parts = in_parts(whole, locals());
  numbers.at(static_cast<size_t>(place[0] * spec.shape()[1] + place[1])) = 2;
  const RecordedValue other = seen(), other_parts = in_parts(other, locals());
  for (const RecordedValue* a : {&whole, &parts}) {
    for (const RecordedValue* b : {&whole, &parts})
      EXPECT_FALSE(compare_recorded_values(*a, *b, {}, {}));
    for (const RecordedValue* b : {&other, &other_parts}) {
      const std::optional<ValueDifference> difference = compare_recorded_values(*a, *b, {}, {});
      ASSERT_TRUE(difference);
      EXPECT_EQ(difference->index, place);
      EXPECT_EQ(difference->owners, Lanes::one(rank));
      EXPECT_EQ(difference->ranks, Lanes::one(rank));
      EXPECT_EQ(difference->elements, 1);
    }
  }
}

TEST(RecordedValues, WholeValueAndShards_CompareEqual) {
  const auto spec = [](const char* mesh, int64_t side) {
    return Spec::parse("dp:S(0) tp:S(1)", Mesh::parse(mesh), {side, side}, DType::f32);
  };
  expect_no_difference_but(spec("dp=2, tp=3", 6), {3, 4}, 5);
  // This ends in time only if the comparison is not quadratic in the ranks.
  expect_no_difference_but(spec("dp=128, tp=128", 128), {3, 4}, 3 * 128 + 4);
}

TEST(RecordedValues, DigestsOfManyRanks_AreComparedFast) {
  RecordedValue a;
  for (int32_t rank = 0; rank < 1 << 17; ++rank)
    a.digests.push_back({Lanes::one(rank), static_cast<uint64_t>(rank) * 3});
  a.lanes = Lanes::range(0, 1 << 17);
  RecordedValue b = a;
  EXPECT_FALSE(compare_recorded_values(a, b, {}, {}));
  b.digests[5].digest = 1;
  EXPECT_EQ(compare_recorded_values(a, b, {}, {})->ranks, Lanes::one(5));
}

// Ranks with a different or missing digest are reported.
TEST(RecordedValues, Digests_GiveTheRanksThatDiffer) {
  uint64_t draw = 1;
  const auto drawn = [&](uint64_t below) {
    draw = draw * 6364136223846793005ull + 1442695040888963407ull;
    return (draw >> 33) % below;
  };
  for (int round = 0; round < 200; ++round) {
    RecordedValue a, b;
    std::vector<int32_t> differing;
    std::map<uint64_t, std::vector<int32_t>> of_a, of_b;
    for (int32_t rank = 0; rank < 12; ++rank) {
      const uint64_t own = drawn(5), other = drawn(3) == 0 ? drawn(5) : own, who = drawn(8);
      if (who != 0) of_a[own].push_back(rank);
      if (who != 1) of_b[other].push_back(rank);
      if (who < 2 || own != other) differing.push_back(rank);
    }
    for (auto& [value, ranks] : {std::pair(&a, &of_a), std::pair(&b, &of_b)})
      for (auto& [digest, own] : *ranks) {
        value->digests.push_back({Lanes::of(own), digest});
        value->lanes = value->lanes.unite(value->digests.back().lanes);
      }
    const std::optional<ValueDifference> difference = compare_recorded_values(a, b, {}, {});
    EXPECT_EQ(difference ? difference->ranks : Lanes(), Lanes::of(differing)) << round;
  }
}

}  // namespace
}  // namespace shardproof::recorded_values_test
