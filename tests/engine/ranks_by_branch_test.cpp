// Tests engine/execute/ranks_by_branch.h on lowered rank programs: the sets of ranks, and the
// programs that block as one cohort.
#include "shardproof/engine/execute/ranks_by_branch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::ranks_by_branch_test {
namespace {

using Lines = std::vector<std::string>;

SpmdProgram program_of(int64_t ranks, const Lines& lines) {
  Job job = job_of(fmt::format("w={}", ranks), {});
  add_input(job, "x", Dims{4});
  add_ranks(job, "all", Lanes::range(0, ranks), lines);
  return lower_ranks(job, builtin_registries().ops).program;
}

std::string sets_of(int64_t ranks, const Lines& lines, int64_t most = 1000) {
  std::string text;
  for (const Lanes& set : ranks_by_branch(program_of(ranks, lines), most))
    text += (text.empty() ? "" : ", ") + to_string(set);
  return text;
}

bool blocks(const Lines& lines, int64_t ranks = 8) {
  return blocks_as_cohort(program_of(ranks, lines));
}

const Lines kRing = {"if rank % 2 == 0:",
                     "  send(x, to=(rank + 1) % world)",
                     "  y = recv(like=x, from=(rank + world - 1) % world)",
                     "else:",
                     "  y = recv(like=x, from=(rank + world - 1) % world)",
                     "  send(x, to=(rank + 1) % world)"};

TEST(RanksByBranch, RanksOfEqualCalls_AreOneSet) {
  EXPECT_EQ(sets_of(6, {"y = x * 2", "y = all_reduce(y, sum)"}), "0-5");
  EXPECT_EQ(sets_of(6, {"if rank < 3: x = x * 2", "y = all_reduce(x, sum)"}), "0-5");
  EXPECT_EQ(
      sets_of(6, {"if rank < 3:", "  y = all_reduce(x, sum)", "else:", "  y = all_reduce(x, max)"}),
      "0-2, 3-5");
  EXPECT_EQ(sets_of(8, {"if rank < 3: put(x, to=7)", "if rank % 2 == 0: put(x, to=7)"}),
            "0 2, 1, 3 5 7, 4 6");
  EXPECT_EQ(sets_of(6, {"e = record()", "if rank < 2: wait(e)"}), "0 1, 2-5");
}

TEST(RanksByBranch, RankThatSendsToItsSet_IsCutOff) {
  EXPECT_EQ(sets_of(6, kRing), "0 2 4, 1 3 5");
  EXPECT_EQ(sets_of(7, kRing), "0 2 4, 1 3 5, 6");
}

TEST(RanksByBranch, SendAndReceiveOfOneGroup_StayTogether) {
  EXPECT_EQ(sets_of(6, {"group:", "  send(x, to=(rank + 1) % world)",
                        "  y = recv(like=x, from=(rank + world - 1) % world)"}),
            "0-5");
}

TEST(RanksByBranch, SetsThatBlockOrAreTooMany_AreNone) {
  EXPECT_EQ(sets_of(64, {"if rank > 0: x = recv(like=x, from=rank - 1)",
                         "if rank < world - 1: send(x, to=rank + 1)"}),
            "");
  EXPECT_EQ(sets_of(6, {"send(x, to=(rank + 1) % world)",
                        "y = recv(like=x, from=(rank + world - 1) % world)"}),
            "");
  EXPECT_EQ(sets_of(7, kRing, 2), "");
  EXPECT_EQ(sets_of(8, {"for i in range(8):", "  if rank == i: put(x, to=0)"}, 7), "");
}

TEST(RanksByBranch, CohortBlocks_IfARankMakesBothCallsOfAMessage) {
  EXPECT_FALSE(blocks(kRing));
  EXPECT_TRUE(blocks(kRing, 7));
  EXPECT_TRUE(blocks({"if rank > 0: x = recv(like=x, from=rank - 1)",
                      "if rank < world - 1: send(x, to=rank + 1)"}));
  EXPECT_TRUE(blocks(
      {"send(x, to=(rank + 1) % world)", "y = recv(like=x, from=(rank + world - 1) % world)"}));
  EXPECT_FALSE(blocks({"if rank == 0: send(x, to=1)", "if rank == 1: x = recv(like=x, from=0)"}));
  // The second send of rank 0 is the one that ranks 0 and 1 receive together.
  const Lines twice = {"if rank == 0: send(x, to=1)", "if rank == 1: x = recv(like=x, from=0)",
                       "if rank < 2: send(x, to=(rank + 1) % world)",
                       "if rank == 1 or rank == 2: x = recv(like=x, from=rank - 1)"};
  EXPECT_TRUE(blocks(twice));
  EXPECT_FALSE(blocks({twice[0], twice[1], twice[0], twice[1]}));
  EXPECT_FALSE(blocks({"group:", "  send(x, to=(rank + 1) % world)",
                       "  y = recv(like=x, from=(rank + world - 1) % world)"}));
  EXPECT_FALSE(blocks({"on side: y = recv(like=x, from=(rank + 1) % world)",
                       "send(x, to=(rank + world - 1) % world)"}));
  EXPECT_FALSE(blocks({"if rank < 4: y = all_reduce(x, sum)"}));
}

}  // namespace
}  // namespace shardproof::testing::ranks_by_branch_test
