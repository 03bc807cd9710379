// Tests the loops and the names of printed programs.
#include "shardproof/program/ir/roll_loops.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardproof/program/ir/name_lines.h"

namespace shardproof::roll_loops_test {
namespace {

PrintedLine line_of(const std::string& text, const std::string& instance) {
  PrintedLine line;
  line.text = text;
  line.origin = {1, 1, instance};
  return line;
}

std::string made(ValueId id) { return mark_value(id, true); }
std::string used(ValueId id) { return mark_value(id, false); }

// Returns the lines with names, without remarks.
std::vector<std::string> printed(std::vector<PrintedLine> lines, std::vector<std::string> bound,
                                 std::vector<ValueId> inputs, std::set<ValueId> at_end = {}) {
  LineValues values;
  values.bound = std::move(bound);
  values.inputs = std::move(inputs);
  values.read_at_end = std::move(at_end);
  std::vector<std::string> text;
  for (const ListingLine& line : name_lines(std::move(lines), values).lines)
    text.push_back(line.text);
  return text;
}

using Lines = std::vector<std::string>;

TEST(RollLoops, EqualPasses_AreOneBlock_WithAState) {
  const Lines text = printed({line_of(made(1) + " = relu(" + used(0) + ")", "i=0"),
                              line_of(made(2) + " = relu(" + used(1) + ")", "i=1"),
                              line_of(made(3) + " = relu(" + used(2) + ")", "i=2")},
                             {"h", "h", "h", "h"}, {0}, {3});
  EXPECT_EQ(text, (Lines{"for i in range(3):", "  h_1 = relu(h)", "  h = h_1"}));
}

// recv(..) has a line for each local shape, and all of them bind one value.
TEST(RollLoops, StateThatLinesOfSomeRanksBind_IsBoundAgainOnAllOfThem) {
  const auto received = [](ValueId next, ValueId now, const std::string& pass) {
    std::vector<PrintedLine> lines;
    for (const std::string rank : {"0", "1"}) {
      lines.push_back(line_of(made(next) + " = recv(like=" + used(now) + ")", pass));
      lines.back().blocks = {"if index(dp) == " + rank};
    }
    return lines;
  };
  std::vector<PrintedLine> lines = received(1, 0, "i=0");
  for (PrintedLine& line : received(2, 1, "i=1")) lines.push_back(std::move(line));
  const Lines text = printed(std::move(lines), {"h", "h", "h"}, {0}, {2});
  EXPECT_EQ(text, (Lines{"for i in range(2):", "  if index(dp) == 0: h_1 = recv(like=h)",
                         "  if index(dp) == 1: h_1 = recv(like=h)", "  if index(dp) == 0: h = h_1",
                         "  if index(dp) == 1: h = h_1"}));
}

// The passes bind h_1 and h_2. They read h_0 and h_1, but h_0 is two values.
TEST(RollLoops, ResultsWithANameEachThatNoHoleReads_KeepTheLoopExpanded) {
  const Lines text = printed({line_of(made(1) + " = relu(" + used(0) + ")", "i=0"),
                              line_of(made(2) + " = relu(" + used(1) + ")", "i=1"),
                              line_of(made(3) + " = neg(" + used(2) + ")", "")},
                             {"h_0", "h_1", "h_2", "h_0"}, {0}, {3});
  EXPECT_EQ(text, (Lines{"h_1 = relu(h_0)", "h_2 = relu(h_1)", "h_0_1 = neg(h_2)"}));
}

TEST(RollLoops, FirstValueThatIsReadLater_KeepsItsName) {
  const Lines text = printed({line_of(made(1) + " = relu(" + used(0) + ")", "i=0"),
                              line_of(made(2) + " = relu(" + used(1) + ")", "i=1"),
                              line_of(made(3) + " = add(" + used(0) + ", " + used(2) + ")", "")},
                             {"h", "h", "h", "y"}, {0}, {3});
  EXPECT_EQ(text, (Lines{"h_1 = h", "for i in range(2):", "  h_2 = relu(h_1)", "  h_1 = h_2",
                         "y = add(h, h_2)"}));
}

TEST(RollLoops, NumbersAndNames_FollowTheVariable) {
  const Lines text = printed({line_of(made(2) + " = slot(3, like=" + used(0) + ")", "i=1"),
                              line_of("check(" + used(2) + ", 'h_1')", "i=1"),
                              line_of(made(3) + " = slot(4, like=" + used(1) + ")", "i=2"),
                              line_of("check(" + used(3) + ", 'h_2')", "i=2")},
                             {"x1", "x2", "", ""}, {0, 1});
  EXPECT_EQ(text, (Lines{"for i in range(1, 3):", "  _1 = slot(i + 2, like=x{i})",
                         "  check(_1, 'h_{i}')"}));
}

TEST(RollLoops, OtherFirstPass_IsPrintedBeforeTheLoop) {
  const Lines text = printed({line_of(made(1) + " = exp(" + used(0) + ")", "i=0"),
                              line_of(made(2) + " = relu(" + used(0) + ")", "i=1"),
                              line_of(made(3) + " = relu(" + used(0) + ")", "i=2")},
                             {"x", "y", "y", "y"}, {0}, {3});
  EXPECT_EQ(text, (Lines{"y = exp(x)", "for i in range(1, 3):", "  y_1 = relu(x)"}));
}

TEST(RollLoops, InnerLoops_AreBlocksInBlocks) {
  std::vector<PrintedLine> lines;
  ValueId id = 0;
  for (const char* outer : {"i=0", "i=1"})
    for (const char* inner : {", j=0", ", j=1"}) {
      lines.push_back(
          line_of(made(id + 1) + " = relu(" + used(id) + ")", std::string(outer) + inner));
      ++id;
    }
  const Lines text = printed(std::move(lines), {"h", "h", "h", "h", "h"}, {0}, {4});
  ASSERT_GE(text.size(), 3U);
  EXPECT_EQ(text[0], "for i in range(2):");
  EXPECT_EQ(std::count(text.begin(), text.end(), "  for j in range(2):"), 1);
}

TEST(RollLoops, ValueOfAnEarlierPassThatIsReadLater_KeepsTheLoopExpanded) {
  const Lines text = printed({line_of(made(1) + " = relu(" + used(0) + ")", "i=0"),
                              line_of(made(2) + " = relu(" + used(0) + ")", "i=1"),
                              line_of(made(3) + " = add(" + used(1) + ", " + used(2) + ")", "")},
                             {"x", "y", "y", "z"}, {0}, {3});
  EXPECT_EQ(text, (Lines{"y = relu(x)", "y_1 = relu(x)", "z = add(y, y_1)"}));
}

TEST(NameLines, NameThatIsBoundAgain_GetsTheNextFreeNumber) {
  const Lines text = printed(
      {line_of(made(1) + " = all_reduce(" + used(0) + ", sum)", ""),
       line_of("free(" + used(0) + ")", ""), line_of(made(2) + " = exp(" + used(1) + ")", "")},
      {"g", "g", "g_1"}, {0});
  EXPECT_EQ(text, (Lines{"g_2 = all_reduce(g, sum)", "free(g)", "g_1 = exp(g_2)"}));
}

TEST(NameLines, NamesThatChangePlaces_AreReadFirst) {
  NamedLines named;
  named.names = {{0, "b"}, {1, "a"}};
  bind_names_at_end({{"a", 0}, {"b", 1}}, named);
  std::vector<std::string> text;
  for (const ListingLine& line : named.lines) text.push_back(line.text);
  EXPECT_EQ(text, (Lines{"end_of_a = b", "end_of_b = a", "a = end_of_a", "b = end_of_b"}));
}

}  // namespace
}  // namespace shardproof::roll_loops_test
