// Tests error.h.
#include "shardproof/localtensor/base/error.h"

#include <gtest/gtest.h>

namespace shardproof::error_test {
namespace {

TEST(Where, TextOfEveryPart) {
  EXPECT_EQ(to_string(Where{}), "");
  EXPECT_EQ(to_string(Where{.file = "a.json"}), "a.json");
  EXPECT_EQ(to_string(Where{.file = "typo.json", .path = "/tensors/w1/placement"}),
            "typo.json: /tensors/w1/placement");
  EXPECT_EQ(to_string(Where{"shape.json", "/program", 2, 11}),
            "shape.json: /program line 2, column 11");
  EXPECT_EQ(to_string(Where{.file = "a.json", .line = 7, .column = 3}), "a.json: line 7, column 3");
  EXPECT_EQ(to_string(Where{.line = 7}), "line 7");
  EXPECT_EQ(to_string(Where{.path = "/mesh", .column = 4}), "/mesh, column 4");
}

TEST(Error, What_IsPlaceAndMessage) {
  const Error error(ErrorKind::bad_input, "unknown key", {.file = "a.json", .path = "/x"});
  EXPECT_STREQ(error.what(), "a.json: /x: unknown key");
  EXPECT_EQ(error.message(), "unknown key");
  EXPECT_STREQ(Error(ErrorKind::io, "no such file").what(), "no such file");
}

TEST(Error, Inside_WithEmptyParts_FillsThem) {
  const Error bare(ErrorKind::limit, "too many", {.column = 5});
  const Error placed = bare.inside({.path = "/program", .line = 2}).inside({.file = "a.json"});
  EXPECT_STREQ(placed.what(), "a.json: /program line 2, column 5: too many");
  EXPECT_EQ(placed.kind(), ErrorKind::limit);
  EXPECT_EQ(placed.inside({"b.json", "/other", 9, 9}).where(), placed.where());
}

TEST(Error, Inside_WithAnotherPath_LeavesTheLineEmpty) {
  const Error error(ErrorKind::bad_input, "bad", {.path = "/mesh"});
  EXPECT_EQ(error.inside({"a.json", "/program", 3, 4}).where(), (Where{"a.json", "/mesh", 0, 0}));
}

TEST(Error, ThrowFormats) {
  try {
    throw_bad_input("dim {} of {}", 3, "x");
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "dim 3 of x");
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  }
}

std::string nearest(std::string_view word, std::initializer_list<std::string_view> names) {
  NearestName nearest(word);
  for (const std::string_view name : names) nearest.offer(name);
  return nearest.best();
}

TEST(NearestName, FindsTypingErrors) {
  EXPECT_EQ(nearest("placement", {"shape", "placements", "dtype"}), "placements");
  EXPECT_EQ(nearest("sahpe", {"dtype", "shape"}), "shape");
  EXPECT_EQ(nearest("all_gahter", {"all_reduce", "all_gather"}), "all_gather");
  EXPECT_EQ(nearest("gellu", {"relu", "gelu"}), "gelu");
  EXPECT_EQ(nearest("redistribution", {"redistribute"}), "redistribute");
}

TEST(NearestName, OtherCase_HasDistance0) {
  EXPECT_EQ(nearest("SUM", {"sub", "sum", "max"}), "sum");
  EXPECT_EQ(nearest("LayerNorm", {"layer_norm", "rms_norm"}), "layer_norm");
}

TEST(NearestName, WithoutANearName_HintIsEmpty) {
  EXPECT_EQ(nearest("softmax", {"matmul", "sum"}), "");
  EXPECT_EQ(nearest("x", {"y", "tp"}), "");
  EXPECT_EQ(nearest("ab", {"cd"}), "");
  EXPECT_EQ(nearest("fp8", {"f64", "f16"}), "");
  EXPECT_EQ(NearestName("x").hint(), "");
  NearestName first("meen");
  first.offer("mean");
  first.offer("seen");
  EXPECT_EQ(first.hint(), "; did you mean \"mean\"?");
}

TEST(InternalFailure, PrintsTheRepeatCommand_AndExitsWith3) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        set_repeat_command("shardproof run a.json --seed 7");
        SP_CHECK(1 + 1 == 3, "sum is {}", 2);
      },
      testing::ExitedWithCode(3),
      // A compiler cache may have named the file from the build folder.
      "internal error at (\\.\\./)*tests/localtensor/error_test.cpp:[0-9]+: "
      "1 \\+ 1 == 3\n  sum is 2\n"
      "(.|\n)*repeat  shardproof run a.json --seed 7");
}

}  // namespace
}  // namespace shardproof::error_test
