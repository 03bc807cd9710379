// Tests the lanes of a condition that differs by rank. Those computed at once, from the lanes of
// each value of a number, equal those of an evaluation on each lane.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "shardproof/engine/check/check.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::lowered_conditions_test {
namespace {

// Returns the text of the lowered program, or of the error.
std::string lowered_text(const std::string& mesh, int64_t ranks,
                         const std::vector<std::string>& lines) {
  Job job = job_of(mesh, {});
  add_input(job, "x", Dims{4});
  add_ranks(job, "all", Lanes::range(0, ranks), lines);
  try {
    std::string text;
    for (const std::string& line : to_lines(lower_ranks(job, builtin_registries().ops).program))
      text += line.substr(0, line.find("line")) + "\n";
    return text;
  } catch (const Error& error) {
    return error.message();
  }
}

// `me`, `row` and `column` are names of the listing, so their conditions are evaluated on each
// lane.
TEST(LoweredConditions, LanesFoundAtOnce_AreThoseOfEachLane) {
  const std::pair<const char*, const char*> conditions[] = {
      {"rank == r", "me == r"},
      {"r == rank", "r == me"},
      {"rank != r", "me != r"},
      {"rank < r", "me < r"},
      {"r <= rank", "r <= me"},
      {"rank > r and rank < 2 * r", "me > r and me < 2 * r"},
      {"not rank >= r", "not me >= r"},
      {"rank == r or rank == r + 2", "me == r or me == r + 2"},
      {"rank % 4 == r", "me % 4 == r"},
      {"rank // 3 > r", "me // 3 > r"},
      {"index(dp) == r", "row == r"},
      {"index(tp) == r % 2 and index(dp) <= r", "column == r % 2 and row <= r"},
      {"rank == 2.0", "me == 2.0"},
      {"rank / 2 == r", "me / 2 == r"},
      {"rank == r - 9", "me == r - 9"},
      {"r > 1 and rank == r", "r > 1 and me == r"},
      {"rank > 0 and 4 // (r * 0) == 1", "me > 0 and 4 // (r * 0) == 1"},
      {"rank < 0 and 4 // (r * 0) == 1", "me < 0 and 4 // (r * 0) == 1"}};
  for (const auto& [at_once, each] : conditions) {
    const auto lines = [](const char* condition) {
      return std::vector<std::string>{"me = rank",
                                      "row = index(dp)",
                                      "column = index(tp)",
                                      "for r in range(6):",
                                      fmt::format("  if {}:", condition),
                                      "    x = x + 1",
                                      "  else:",
                                      "    x = x * 3"};
    };
    const std::string found = lowered_text("dp=4, tp=2", 8, lines(at_once));
    EXPECT_EQ(found, lowered_text("dp=4, tp=2", 8, lines(each))) << at_once;
    EXPECT_FALSE(found.empty());
  }
}

}  // namespace
}  // namespace shardproof::testing::lowered_conditions_test
