// Tests of the order of records and of the first divergence before a mismatch.
#include <gtest/gtest.h>

#include "shardproof/sim/analysis/record_order.h"

namespace shardproof::record_analysis_test {
namespace {

Record record_of(Lanes ranks, int64_t sequence, std::string kind, std::string group, int64_t call,
                 int line) {
  Record record;
  record.ranks = std::move(ranks);
  record.sequence = sequence;
  record.kind = std::move(kind);
  record.group = std::move(group);
  record.call = call;
  record.line = line;
  return record;
}

TEST(RecordOrder, EqualRecords_AnyCohorts_Merge) {
  const std::vector<Record> coarse{record_of(Lanes::range(0, 4), 1, "barrier", "world", 1, 1),
                                   record_of(Lanes::range(0, 2), 2, "barrier", "world", 2, 2)};
  std::vector<Record> fine;
  for (int64_t rank : {3, 1, 0, 2}) {
    if (rank < 2) fine.push_back(record_of(Lanes::one(rank), 2, "barrier", "world", 2, 2));
    fine.push_back(record_of(Lanes::one(rank), 1, "barrier", "world", 1, 1));
  }
  EXPECT_EQ(in_order(fine), coarse);
  EXPECT_EQ(in_order(coarse), coarse);
}

TEST(RecordOrder, Records_AreSortedByEnd) {
  Record early = record_of(Lanes::one(0), 9, "a", "g", 1, 9),
         late = record_of(Lanes::one(1), 1, "a", "g", 1, 1);
  late.end = Duration{5};
  EXPECT_EQ(in_order({late, early}), (std::vector<Record>{early, late}));
}

std::vector<Record> histories(const std::vector<std::vector<std::string>>& kinds) {
  std::vector<Record> records;
  for (size_t rank = 0; rank < kinds.size(); ++rank) {
    int64_t calls = 0;
    for (size_t i = 0; i < kinds[rank].size(); ++i) {
      const bool on_tp = kinds[rank][i] == "x" || kinds[rank][i] == "y";
      records.push_back(record_of(Lanes::one(static_cast<int64_t>(rank)),
                                  static_cast<int64_t>(i) + 1, kinds[rank][i], on_tp ? "tp" : "dp",
                                  on_tp ? ++calls : 1, static_cast<int>(i) + 10));
    }
  }
  return records;
}

std::string divergence(const std::vector<std::vector<std::string>>& kinds, int64_t call) {
  return first_divergence(histories(kinds), {Lanes::range(0, static_cast<int64_t>(kinds.size())),
                                             Lanes::one(1), "tp", call});
}

TEST(FirstDivergence, DifferentCall_BeforeTheCall_IsNamed) {
  EXPECT_EQ(divergence({{"x", "b", "x"}, {"x", "y"}}, 2),
            "rank 1 skipped  b(group=dp)  before it (line 11)");
  EXPECT_EQ(divergence({{"x", "x"}, {"x", "b", "y"}}, 2),
            "rank 1 alone made  b(group=dp)  before it (line 11)");
  EXPECT_EQ(divergence({{"b", "x", "x"}, {"c", "x", "y"}}, 2),
            "rank 1 made  c(group=dp) (line 10)  where rank 0 made  b(group=dp) (line 10)");
}

TEST(FirstDivergence, ReorderedCalls_AreDistinguished) {
  const auto in_order = [](const std::vector<std::vector<std::string>>& kinds, int64_t call) {
    return differ_in_order(histories(kinds), {Lanes::range(0, 2), Lanes::one(1), "tp", call});
  };
  EXPECT_TRUE(in_order({{"x", "y"}, {"y", "x"}}, 1));
  EXPECT_TRUE(in_order({{"x", "y"}, {"y", "x"}}, 2));
  EXPECT_FALSE(in_order({{"x", "x"}, {"x", "y"}}, 2));
  EXPECT_FALSE(in_order({{"x", "y"}, {"x", "y"}}, 1));
  EXPECT_FALSE(in_order({{"x", "y"}, {"y"}}, 1));
  EXPECT_EQ(divergence({{"x", "y"}, {"y", "x"}}, 2),
            "rank 1 made  y(group=tp)  before another call (line 10), rank 0 after it");
}

// Without a majority all members differ: one pass over the records finds the first divergence.
TEST(FirstDivergence, ManyRanksDiffer_TheFirstIsNamed) {
  constexpr int64_t kRanks = 20000;
  std::vector<std::vector<std::string>> kinds(static_cast<size_t>(kRanks), {"b", "x"});
  kinds.back() = {"x"};
  const std::vector<Record> records = histories(kinds);
  const MismatchedCollective all{Lanes::range(0, kRanks), Lanes::range(0, kRanks), "tp", 1};
  EXPECT_EQ(first_divergence(records, all), "rank 19999 skipped  b(group=dp)  before it (line 10)");
  EXPECT_FALSE(differ_in_order(records, all));
}

TEST(FirstDivergence, OnlyTheCallDiffers_GivesNoText) {
  EXPECT_EQ(divergence({{"x", "x"}, {"x", "y"}}, 2), "");
  EXPECT_EQ(divergence({{"x"}, {"y"}}, 1), "");
  EXPECT_EQ(divergence({{"x"}, {"y"}}, 5), "");
}

// The groups of tp hold other rows of an uneven shard.
TEST(FirstDivergence, EndedCallsOfOtherSizes_AreEqual) {
  std::vector<Record> records = histories({{"x", "b", "x"}, {"x", "c", "y"}});
  records[0].sizes = {6};
  records[3].sizes = {9};
  const MismatchedCollective instance{Lanes::range(0, 2), Lanes::one(1), "tp", 2};
  EXPECT_EQ(
      first_divergence(records, instance),
      "rank 1 made  x(group=tp)   x 9 (line 10)  where rank 0 made  x(group=tp)   x 6 (line 10)");
  records[0].state = records[3].state = RecordState::done;
  EXPECT_EQ(first_divergence(records, instance),
            "rank 1 made  c(group=dp) (line 11)  where rank 0 made  b(group=dp) (line 11)");
}

}  // namespace
}  // namespace shardproof::record_analysis_test
