// Tests spec.h: placements text against a mesh and a shape, errors and their columns, ownership.
#include "shardproof/localtensor/placement/spec.h"

#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"

namespace shardproof::spec_test {
namespace {

const Dims kShape = {8, 12};

Spec parse(const char* text, const char* mesh = "dp=2, tp=4", const Spec* base = nullptr) {
  return Spec::parse(text, Mesh::parse(mesh), kShape, DType::f32, base);
}

// Returns "message @ column".
std::string error_of(const char* text, const char* mesh = "dp=2, tp=4") {
  try {
    parse(text, mesh);
  } catch (const Error& error) {
    return error.message() + " @ " + std::to_string(error.where().column);
  }
  return "no error";
}

TEST(SpecText, NamesPositionsAndBase) {
  EXPECT_EQ(parse("tp:S(0)").placements(), (std::vector<Placement>{R(), S(0)}));
  EXPECT_EQ(parse("S(0) P(sum)"), parse("tp:P(sum) dp:S(0)"));
  EXPECT_EQ(parse("dp:S(-1)"), parse("dp:S(1)"));
  EXPECT_EQ(parse(""), parse("R"));
  const Spec base = parse("dp:S(0) tp:S(1)");
  EXPECT_EQ(parse("tp:S(0)", "dp=2, tp=4", &base), parse("dp:S(0) tp:S(0)"));
  EXPECT_EQ(parse("R", "dp=2, tp=4", &base), parse("R"));
  const Spec ordered = parse("dp:S(0, after=tp) tp:S(0)");
  EXPECT_EQ(parse("dp:R", "dp=2, tp=4", &ordered), parse("tp:S(0)"));
}

TEST(SpecText, PrintsBack) {
  for (const char* text :
       {"R", "dp:S(0) tp:P(sum)", "dp:S(0, after=tp) tp:S(0)", "tp:S(1, split=3)",
        "dp:S(0, sizes=[3, 5])", "dp:P(norm(2))", "dp:S(0, split=2, after=tp) tp:S(0)"})
    EXPECT_EQ(placements_text(parse(text)), text);
  EXPECT_EQ(to_string(parse("dp:S(0) tp:P(sum)")), "f32[8, 12] dp:S(0) tp:P(sum) on dp=2, tp=4");
  // All six orders of three axes on one dim.
  for (const char* text :
       {"a:S(0) b:S(0) c:S(0)", "a:S(0) b:S(0, after=c) c:S(0)", "a:S(0, after=b) b:S(0) c:S(0)",
        "a:S(0, after=c) b:S(0) c:S(0)", "a:S(0, after=c) b:S(0, after=a) c:S(0)",
        "a:S(0, after=b) b:S(0, after=c) c:S(0)"})
    EXPECT_EQ(placements_text(parse(text, "a=2, b=2, c=2")), text);
}

TEST(SpecText, Errors) {
  EXPECT_EQ(error_of("dp:S(0) pt:S(1)"),
            "no mesh axis 'pt' in \"dp=2, tp=4\"; did you mean \"tp\"? @ 9");
  EXPECT_NE(error_of("dp:S(0) dp:S(1)").find("one placement for axis 'dp', found two @ 9"),
            std::string::npos);
  EXPECT_NE(error_of("dp:S(2)").find("2"), std::string::npos);
  EXPECT_NE(error_of("S(0)").find("expected 2 placements by position"), std::string::npos);
  EXPECT_NE(error_of("dp:P").find("write P(sum)"), std::string::npos);
  EXPECT_NE(error_of("dp:P(mul)").find("unknown reduction 'mul'"), std::string::npos);
  EXPECT_NE(error_of("dp:Shard").find("found 'Shard'; write S(0)"), std::string::npos);
  EXPECT_NE(error_of("dp:P(sum) tp:P(max)").find("P(sum) and P(max)"), std::string::npos);
  EXPECT_EQ(error_of("dp:P(sum) tp:P(avg)"), "no error");
  EXPECT_NE(error_of("dp:S(0, sizes=[3, 6])").find("add up to 9, but dim 0 has 8"),
            std::string::npos);
  EXPECT_NE(error_of("dp:S(0, sizes=[8])").find("expected 2 sizes, one for each rank, found 1"),
            std::string::npos);
  EXPECT_NE(error_of("dp:S(0, after=tp)").find("expected another axis that cuts dim 0, found 'tp'"),
            std::string::npos);
  EXPECT_NE(error_of("dp:S(0, after=tp) tp:S(0, after=dp)").find("makes a cycle"),
            std::string::npos);
  EXPECT_NE(error_of("dp:P(band)").find("band cannot reduce f32"), std::string::npos);
  EXPECT_NE(error_of("dp:S(0)tp:R").find("expected a space after a placement"), std::string::npos);
  EXPECT_NE(error_of("dp:P(norm(0))").find("finite p other than 0, found norm(0)"),
            std::string::npos);
}

// Explicit sizes cut the extent that the outer axes leave, which must be the same at every
// coordinate.
TEST(Spec, ExplicitSizesUnderAnOuterCut) {
  EXPECT_EQ(parse("dp:S(0) tp:S(0, sizes=[1, 0, 3, 0])").local_shape(6), (Dims{3, 12}));
  EXPECT_NE(
      error_of("dp:S(0, sizes=[3, 5]) tp:S(0, sizes=[1, 1, 1, 1])").find("the sizes add up to 4"),
      std::string::npos);
}

// Axes of the base keep their explicit sizes while they add up; else the chunk rule cuts.
TEST(Spec, SizesOfTheBaseThatNoLongerAddUp_GiveWay) {
  const Spec base = parse("tp:S(0, sizes=[8, 0, 0, 0])");
  const auto after = [&](const char* text) {
    return placements_text(Spec::parse(text, base.mesh(), base.shape(), base.dtype(), &base));
  };
  EXPECT_EQ(after("dp:S(1)"), "dp:S(1) tp:S(0, sizes=[8, 0, 0, 0])");
  EXPECT_EQ(after("dp:S(0)"), "dp:S(0) tp:S(0)");
  EXPECT_EQ(after("dp:S(0, after=tp)"), "dp:S(0, after=tp) tp:S(0, sizes=[8, 0, 0, 0])");
  EXPECT_EQ(after("dp:S(0, sizes=[3, 5])"), "dp:S(0, sizes=[3, 5]) tp:S(0)");
}

TEST(Spec, CanonicalOrder) {
  const Mesh mesh = Mesh::parse("dp=2, tp=4");
  const Spec a(mesh, {S(0), S(1)}, kShape, DType::f32, {1, 0});
  EXPECT_EQ(a, parse("dp:S(0) tp:S(1)"));
  EXPECT_EQ(parse("dp:S(0)").with_placement(1, S(0)), parse("dp:S(0) tp:S(0)"));
  EXPECT_EQ(parse("tp:S(0)").with_placement(0, S(0)), parse("dp:S(0, after=tp) tp:S(0)"));
}

TEST(Spec, SameOwnership) {
  EXPECT_TRUE(parse("dp:S(0, after=tp) tp:S(0)").same_ownership(parse("dp:S(0, split=4) tp:S(0)")));
  EXPECT_FALSE(parse("dp:S(0) tp:S(0)").same_ownership(parse("dp:S(0, after=tp) tp:S(0)")));
  EXPECT_FALSE(parse("dp:P(sum)").same_ownership(parse("R")));
  EXPECT_TRUE(parse("dp:S(0, sizes=[4, 4])").same_ownership(parse("dp:S(0)")));
}

TEST(Spec, LargestLocalPart) {
  EXPECT_EQ(parse("dp:S(0) tp:S(1)").max_local_elements(), 4 * 3);
  EXPECT_EQ(parse("tp:S(0, sizes=[0, 7, 1, 0])").max_local_elements(), 7 * 12);
}

}  // namespace
}  // namespace shardproof::spec_test
