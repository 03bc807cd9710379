// Tests local_tensor.h and collected_parts.h: blocks, restriction, merging, and the joining of
// their copies.
#include "shardproof/localtensor/tensor/local_tensor.h"

#include <gtest/gtest.h>

#include <map>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/localtensor/tensor/collected_parts.h"

namespace shardproof::local_tensor_test {
namespace {

// Small random choices, in a fixed order.
class Dice {
 public:
  explicit Dice(uint64_t trial) : rng_(9, trial) {}
  int64_t operator()(int64_t low, int64_t high) { return rng_.integer(draws_++, low, high); }
  // Returns a random subset of the ranks; empty only if there are none.
  Lanes some(const Lanes& lanes) {
    std::vector<int32_t> ranks;
    const int64_t kind = (*this)(0, 3), first = (*this)(0, lanes.size());
    for (int64_t i = first; i < lanes.size(); ++i)
      if (kind == 0 || i == first || (*this)(0, 2) == 0) ranks.push_back(lanes[i]);
    return kind == 2 ? lanes : Lanes::of(ranks);
  }
  Slots slots(int64_t lanes) {
    const int64_t kind = (*this)(0, 4);
    if (kind == 0) return Slots::shared(lanes);
    if (kind == 1) return Slots::each(lanes);
    std::vector<int32_t> table, numbers(static_cast<size_t>(lanes), -1);
    const int64_t most = (*this)(1, lanes + 1);
    int32_t next = 0;
    for (int64_t i = 0; i < lanes; ++i) {
      int32_t& number = numbers[static_cast<size_t>((*this)(0, most))];
      if (number < 0) number = next++;
      table.push_back(number);
    }
    // Half of the tables are numbered backwards: they need not be in the order of the lanes.
    if (kind == 2)
      for (int32_t& slot : table) slot = next - 1 - slot;
    return Slots::table(table);
  }
  Tensor tensor(const Lanes& lanes) {
    const Slots its = slots(lanes.size());
    Tensor tensor = Tensor::empty(DType::i32, {2}, lanes, its);
    for (int64_t slot = 0; slot < its.count(); ++slot)
      for (int64_t i = 0; i < 2; ++i) store_i64(tensor.mutate(slot) + 4 * i, DType::i32, serial_++);
    return tensor;
  }

 private:
  Rng rng_;
  uint64_t draws_ = 0;
  int64_t serial_ = 0;
};

using Values = std::vector<double>;

std::map<int64_t, Values> by_rank(const LocalTensor& value) {
  std::map<int64_t, Values> values;
  for (const Block& block : value.blocks())
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      EXPECT_EQ(values.count(block.lanes[i]), 0u);
      values[block.lanes[i]] = values_of(block.tensor, block.slot(i));
    }
  return values;
}

void expect_invariants(const LocalTensor& value) {
  const auto& blocks = value.blocks();
  for (size_t b = 0; b < blocks.size(); ++b) {
    ASSERT_FALSE(blocks[b].lanes.empty());
    ASSERT_TRUE(blocks[b].tensor.buffer->lanes.contains(blocks[b].lanes));
    if (b > 0) {
      ASSERT_LT(blocks[b - 1].lanes[0], blocks[b].lanes[0]);
    }
  }
}

TEST(LocalTensor, RestrictMergeAndOfRankAreMapsByRank) {
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    Dice dice(trial);
    const Lanes world = dice.some(Lanes::range(0, 12));
    const LocalTensor a(dice.tensor(world));
    const LocalTensor b(dice.tensor(dice.some(world)));
    const LocalTensor c(dice.tensor(dice.some(Lanes::range(0, 12))));
    auto want = by_rank(a);
    for (const auto& [rank, values] : by_rank(b)) want[rank] = values;
    for (const auto& [rank, values] : by_rank(c)) want[rank] = values;
    const LocalTensor merged = a.merged_with(b).merged_with(c);
    expect_invariants(merged);
    ASSERT_EQ(by_rank(merged), want);
    ASSERT_EQ(merged.lanes(), world.unite(c.lanes()));

    const Lanes part = dice.some(Lanes::range(0, 12));
    const LocalTensor restricted = merged.restrict_to(part);
    expect_invariants(restricted);
    std::erase_if(want, [&](const auto& entry) { return !part.contains(entry.first); });
    ASSERT_EQ(by_rank(restricted), want);
    for (const auto& [rank, values] : want) {
      const Tensor own = restricted.of_rank(rank);
      ASSERT_EQ(values_of(own), values);
      ASSERT_EQ(own.buffer->lanes, Lanes::one(rank));
      ASSERT_TRUE(own.contiguous());
    }
    ASSERT_EQ(restricted.find(99), nullptr);
    // Parts of one buffer become one block again.
    ASSERT_EQ(a.restrict_to(part).merged_with(a).blocks().size(), 1u);
  }
}

TEST(LocalTensor, RestrictAndMerge_ShareContents_AndOfRankCopies) {
  Tensor whole = Tensor::empty(DType::i32, {1}, Lanes::range(0, 4), Slots::shared(4));
  store_i64(whole.mutate(), DType::i32, 1);
  const LocalTensor value(whole);
  const LocalTensor part = value.restrict_to(Lanes::range(1, 3));
  const Tensor own = value.of_rank(2);
  store_i64(whole.mutate(), DType::i32, 5);
  EXPECT_EQ(by_rank(part).at(2), Values{5});
  EXPECT_EQ(values_of(own), Values{1});
}

// Returns the smallest set of copies from which every lane reads the same as before, numbered in
// the order of the lanes.
TEST(LocalTensor, ManyBlocks_AreOneValueByRank) {
  constexpr int32_t kRanks = 60;
  Dice dice(1);
  const Tensor shared = dice.tensor(Lanes::range(0, kRanks));
  std::vector<Block> blocks;
  std::map<int64_t, Values> expected;
  // Single ranks in descending order; every third one views one buffer.
  for (int32_t rank = kRanks - 1; rank >= 0; --rank) {
    const Lanes lanes = Lanes::one(rank);
    blocks.push_back({lanes, rank % 3 == 0 ? shared : dice.tensor(lanes)});
    expected.merge(by_rank(LocalTensor(blocks.back())));
  }
  const LocalTensor value(std::move(blocks));
  EXPECT_EQ(value.blocks().size(), 41u);
  EXPECT_EQ(value.lanes(), Lanes::range(0, kRanks));
  EXPECT_EQ(by_rank(value), expected);
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_NE(value.find(rank), nullptr) << rank;
    EXPECT_TRUE(value.find(rank)->lanes.contains(rank)) << rank;
  }
  EXPECT_EQ(value.find(kRanks), nullptr);
}

TEST(LocalTensorDeathTest, ARankInTwoOfManyBlocks_IsABug) {
  Dice dice(2);
  std::vector<Block> blocks;
  for (int32_t rank = 0; rank < 20; ++rank)
    blocks.push_back({Lanes::one(rank), dice.tensor(Lanes::one(rank))});
  blocks.push_back({Lanes::one(7), dice.tensor(Lanes::one(7))});
  EXPECT_EXIT(LocalTensor(std::move(blocks)), testing::ExitedWithCode(3), "two blocks of a value");
}

TEST(CollectedParts, Whole_IsWhatMergingEachPartGives) {
  for (uint64_t trial = 0; trial < 200; ++trial) {
    Dice dice(trial);
    CollectedParts parts;
    LocalTensor merged;
    for (int64_t added = 0, n = dice(0, 40); added < n; ++added) {
      const Lanes lanes = dice.some(Lanes::range(dice(0, 12), 12));
      const LocalTensor part = lanes.empty() ? LocalTensor() : LocalTensor(dice.tensor(lanes));
      parts.add(part);
      merged = merged.merged_with(part);
      ASSERT_GE(parts.most_lanes(), merged.lanes().size());
      if (dice(0, 5) == 0) {
        ASSERT_EQ(by_rank(parts.whole()), by_rank(merged));
        ASSERT_EQ(parts.most_lanes(), merged.lanes().size());
      }
    }
    EXPECT_EQ(by_rank(parts.whole()), by_rank(merged));
    EXPECT_EQ(parts.whole().lanes(), merged.lanes());
  }
}

TEST(JoinSlots, AnyBlocks_GiveTheCoarsestRefinementInLaneOrder) {
  for (uint64_t trial = 0; trial < 20'000; ++trial) {
    Dice dice(trial);
    const Lanes world = dice.some(Lanes::range(0, trial % 100 == 0 ? 300 : 10));
    const Lanes lanes = dice.some(world);
    std::vector<Block> blocks;
    const int64_t inputs = dice(0, 4);
    for (int64_t k = 0; k < inputs; ++k) {
      const bool again = k > 0 && dice(0, 3) == 0;
      const Tensor tensor = again ? blocks[0].tensor : dice.tensor(dice(0, 2) == 0 ? lanes : world);
      blocks.push_back({lanes, tensor});
    }
    std::vector<const Block*> pointers;
    for (const Block& block : blocks) pointers.push_back(&block);
    const SlotJoin join = join_slots(lanes, pointers);

    ASSERT_EQ(join.slots.lanes(), lanes.size());
    ASSERT_EQ(join.sources.size(), blocks.size());
    std::map<std::vector<int64_t>, int64_t> numbers;
    for (int64_t i = 0; i < lanes.size(); ++i) {
      std::vector<int64_t> tuple;
      for (size_t k = 0; k < blocks.size(); ++k) {
        tuple.push_back(blocks[k].slot(i));
        ASSERT_EQ(join.sources[k][static_cast<size_t>(join.slots[i])], tuple.back());
      }
      const int64_t next = static_cast<int64_t>(numbers.size());
      ASSERT_EQ(join.slots[i], numbers.try_emplace(tuple, next).first->second);
    }
    ASSERT_EQ(join.slots.count(), static_cast<int64_t>(numbers.size()));
    for (const auto& source : join.sources) ASSERT_EQ(source.size(), numbers.size());
    ASSERT_TRUE(join.slots.is_ordered());
  }
}

TEST(JoinSlots, SharedEachAndTables_KeepTheirKind) {
  const Lanes lanes = Lanes::range(0, 4);
  const auto block = [&](const Slots& slots) {
    return Block{lanes, Tensor::empty(DType::f32, {1}, lanes, slots)};
  };
  const Block shared = block(Slots::shared(4)), each = block(Slots::each(4));
  const Block table = block(Slots::table({0, 1, 0, 1})), other = block(Slots::table({0, 0, 1, 1}));
  EXPECT_TRUE(join_slots(lanes, {&shared, &shared}).slots.is_shared());
  EXPECT_TRUE(join_slots(lanes, {&shared, &each, &table}).slots.is_each());
  EXPECT_TRUE(join_slots(lanes, {&table, &other}).slots.is_each());
  EXPECT_TRUE(join_slots(lanes, {&table, &shared, &table}).slots.same(table.tensor.buffer->slots));
  EXPECT_TRUE(join_slots(lanes, {}).slots.is_shared());
}

TEST(CommonParts, CoverTheLanesWithOneBlockOfEachInput) {
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    Dice dice(trial);
    const Lanes world = dice.some(Lanes::range(0, 12));
    std::vector<LocalTensor> values;
    for (int64_t k = dice(0, 4); k > 0; --k) {
      LocalTensor value(dice.tensor(world));
      for (int64_t m = dice(0, 3); m > 0; --m)
        value = value.merged_with(LocalTensor(dice.tensor(dice.some(world))));
      values.push_back(value);
    }
    std::vector<const LocalTensor*> pointers;
    for (const LocalTensor& value : values) pointers.push_back(&value);
    const Lanes lanes = dice.some(world);
    const auto parts = common_parts(lanes, pointers);

    Lanes all;
    int64_t total = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      if (p > 0) {
        ASSERT_LT(parts[p - 1].lanes[0], parts[p].lanes[0]);
      }
      ASSERT_EQ(parts[p].inputs.size(), values.size());
      for (size_t k = 0; k < values.size(); ++k) {
        const Block& input = parts[p].inputs[k];
        ASSERT_EQ(input.lanes, parts[p].lanes);
        for (int64_t i = 0; i < input.lanes.size(); ++i)
          ASSERT_EQ(values[k].find(input.lanes[i])->tensor.buffer, input.tensor.buffer);
      }
      all = all.unite(parts[p].lanes);
      total += parts[p].lanes.size();
    }
    ASSERT_EQ(all, lanes);
    ASSERT_EQ(total, lanes.size());
    if (values.size() < 2) {
      ASSERT_LE(parts.size(), values.empty() ? 1 : values[0].blocks().size());
    }
  }
}

}  // namespace
}  // namespace shardproof::local_tensor_test
