// Tests the text of mesh.h and process_group.h. tests/conformance compares the algebra with
// PyTorch's.
#include "shardproof/localtensor/mesh/mesh.h"

#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/mesh/process_group.h"

namespace shardproof::mesh_test {
namespace {

std::string error_of(const char* text) {
  try {
    Mesh::parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MeshText, ParsesBack) {
  for (const char* text :
       {"dp=2, tp=4", "tp=4 on 2-5", "tp=3 on 0 4 2", "a=2, b=2 on 3 1 2 0", "x=1"}) {
    EXPECT_EQ(to_string(Mesh::parse(text)), text);
    EXPECT_EQ(Mesh::parse(to_string(Mesh::parse(text))), Mesh::parse(text));
  }
  EXPECT_EQ(to_string(Mesh::parse("2x4")), "dim0=2, dim1=4");
  EXPECT_EQ(Mesh::parse("tp=4 on 0 1 2 3"), Mesh::parse("tp=4"));
}

TEST(MeshText, Errors) {
  EXPECT_NE(error_of("").find("at least one axis"), std::string::npos);
  EXPECT_NE(error_of("tp").find("expected '=' after the axis tp"), std::string::npos);
  EXPECT_NE(error_of("tp=0").find("sizes start at 1"), std::string::npos);
  EXPECT_NE(error_of("tp=2, tp=2").find("the name 'tp'"), std::string::npos);
  EXPECT_NE(error_of("tp=3 on 0 1").find("expected 3 ranks"), std::string::npos);
  EXPECT_NE(error_of("tp=2 on 1 1").find("occurs twice"), std::string::npos);
  EXPECT_NE(error_of("a=99999, b=99999").find("2147483647"), std::string::npos);
  EXPECT_NE(error_of("tp=2 in 0-1").find("expected ',' or 'on', found 'i'"), std::string::npos);
  try {
    Mesh::parse("data=2, model=4").axis("modle");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean \"model\""), std::string::npos);
  }
}

TEST(Mesh, CoordinatesOfListedRanks) {
  const Mesh mesh = Mesh::parse("a=2, b=2 on 3 1 2 0");
  EXPECT_EQ(*mesh.coordinate_of(2), (Dims{1, 0}));
  EXPECT_EQ(mesh.rank_at({0, 1}), 1);
  EXPECT_FALSE(mesh.coordinate_of(4).has_value());
  EXPECT_EQ(mesh.ranks(), Lanes::range(0, 4));
}

TEST(Mesh, ABillionRanks_TakeConstantMemory) {
  const Mesh mesh = Mesh::make({{"pp", 1024}, {"dp", 1024}, {"tp", 1024}});
  const Group group = Group::of_axes(mesh, {0, 2});
  EXPECT_EQ(group.size(), 1024 * 1024);
  EXPECT_EQ(group.count(), 1024);
  EXPECT_EQ(group.member(7, 1024), (1 << 20) + 7 * 1024);
  EXPECT_EQ(group.sibling_of((1 << 20) + 7 * 1024), 7);
}

// Parts that were cut from the root in different ways need not be digits of one number. If
// concatenate accepts them, each rank is in its own sibling, and no rank is beyond the root.
TEST(Mesh, Concatenate_RefusesPartsWithoutARegularCover) {
  int accepted = 0, refused = 0;
  for (const int64_t ranks : {12, 24})
    for (int64_t a = 2; a < ranks; ++a)
      for (int64_t b = 2; b < ranks; ++b) {
        if (ranks % a != 0 || ranks % b != 0) continue;
        const Mesh root = Mesh::make({{"r", ranks}});
        const Mesh slow = root.unflatten("r", {{"a", a}, {"x", ranks / a}}).slice({"a"});
        const Mesh fast = root.unflatten("r", {{"y", ranks / b}, {"b", b}}).slice({"b"});
        try {
          const Mesh both = Mesh::concatenate({slow, fast});
          ++accepted;
          for (int64_t rank = 0; rank < ranks; ++rank) {
            const Lanes sibling = both.containing(rank).ranks();
            EXPECT_TRUE(sibling.contains(rank)) << a << " " << b << " rank " << rank;
            EXPECT_TRUE(Lanes::range(0, ranks).contains(sibling)) << a << " " << b;
            EXPECT_EQ(sibling.size(), a * b);
          }
        } catch (const Error& error) {
          ++refused;
          EXPECT_EQ(error.kind(), ErrorKind::bad_input);
        }
      }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
  const Mesh root = Mesh::parse("r=12");
  EXPECT_THROW(Mesh::concatenate({root.unflatten("r", {{"a", 4}, {"x", 3}}).slice({"a"}),
                                  root.unflatten("r", {{"y", 6}, {"b", 2}}).slice({"b"})}),
               Error);
}

TEST(Group, EqualGroupsHaveOneKey) {
  const Mesh mesh = Mesh::parse("dp=2, tp=4");
  EXPECT_EQ(Group::of_axes(mesh, {0, 1}).key(), Group::world(8).key());
  EXPECT_EQ(Group::of_ranks("all", {0, 1, 2, 3, 4, 5, 6, 7}), Group::world(8));
  EXPECT_EQ(Group::of_axes(mesh.slice({"tp"}), {0}), Group::of_axes(mesh, {1}));
  EXPECT_NE(Group::of_axes(mesh, {0}), Group::of_axes(mesh, {1}));
  EXPECT_NE(Group::of_ranks("g", {0, 1, 3}), Group::of_ranks("g", {1, 0, 3}));
  const Mesh listed = Mesh::parse("dp=2, tp=2 on 4 5 6 7");
  EXPECT_EQ(Group::of_axes(listed, {1}), Group::of_axes(Mesh::parse("a=2, b=2 on 4-7"), {1}));
  const Mesh mixed = Mesh::parse("a=2, b=2 on 3 1 2 0");
  EXPECT_EQ(Group::of_axes(mixed, {0}).members(0), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(Group::of_axes(mixed, {0}).members(1), (std::vector<int32_t>{3, 2}));
}

TEST(Group, Text) {
  EXPECT_EQ(to_string(Group::of_axes(Mesh::parse("dp=2, tp=4"), {1})), "tp [0 1 2 3] [4 5 6 7]");
  EXPECT_EQ(Group::of_axes(Mesh::parse("dp=2, tp=4"), {0, 1}).name(), "dp+tp");
  EXPECT_THROW(Group::of_ranks("g", {1, 1}), Error);
  EXPECT_THROW(Group::of_axes(Mesh::parse("dp=2"), {1}), Error);
}

}  // namespace
}  // namespace shardproof::mesh_test
