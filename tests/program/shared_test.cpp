// Tests values that copies share: a copy equals its original, and a change of one copy changes no
// other.
#include <gtest/gtest.h>

#include <map>

#include "shardproof/program/value/attrs.h"
#include "shardproof/program/value/shared.h"

namespace shardproof::testing::shared_test {
namespace {

TEST(SharedText, Copy_IsEqualAndTheSameText) {
  const SharedText text("k=7"), copy = text, other(std::string("k=7")), empty;
  EXPECT_EQ(&copy.str(), &text.str());
  EXPECT_EQ(text, other);
  EXPECT_EQ(text, "k=7");
  EXPECT_EQ(text, std::string("k=7"));
  EXPECT_FALSE(text == empty);
  EXPECT_EQ(empty, SharedText(""));
  EXPECT_TRUE(empty.empty());
  EXPECT_EQ(empty.str(), "");
  EXPECT_EQ(fmt::format("{} {:>5}", text, text), "k=7   k=7");
  std::map<std::string, int> by_text;
  by_text[text] = 1;
  EXPECT_EQ(by_text.count("k=7"), 1u);
}

TEST(Shared, IsAnOptionalThatCopiesShare) {
  Shared<int> none, one(1), copy = one;
  EXPECT_FALSE(none);
  EXPECT_EQ(&*one, &*copy);
  EXPECT_EQ(one, Shared<int>(std::optional<int>(1)));
  EXPECT_FALSE(one == none);
  EXPECT_EQ(std::optional<int>(one), 1);
  copy.reset();
  EXPECT_FALSE(copy);
  EXPECT_EQ(*one, 1);
}

TEST(Attrs, ChangeOfACopy_LeavesTheOriginal) {
  const Attrs original{{"dim", int64_t{1}}};
  Attrs copy = original;
  EXPECT_EQ(copy.identity(), original.identity());
  copy.set("dim", int64_t{2});
  EXPECT_NE(copy.identity(), original.identity());
  EXPECT_EQ(original.integer("dim"), 1);
  EXPECT_EQ(copy.integer("dim"), 2);
  EXPECT_FALSE(copy == original);
  copy.set("dim", int64_t{1});
  EXPECT_EQ(copy, original);
  Attrs none;
  EXPECT_EQ(none, Attrs());
  none.set("eps", 0.5);
  EXPECT_TRUE(none.has("eps"));
  EXPECT_FALSE(Attrs().has("eps"));
}

}  // namespace
}  // namespace shardproof::testing::shared_test
