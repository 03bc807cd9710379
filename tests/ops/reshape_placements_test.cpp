// Tests propagation through reshape: PyTorch's documented cases, and the law that a placement, if
// there is one, is never wrong.
#include "shardproof/ops/layout/reshape_placements.h"

#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/ops/core/op.h"

namespace shardproof::reshape_placements_test {
namespace {

std::string propagated(const char* mesh, const char* placements, const Dims& from, const Dims& to) {
  Spec input = Spec::parse(placements, Mesh::parse(mesh), from, DType::f32);
  auto output = reshaped_spec(input, to);
  return output ? placements_text(*output) : "none";
}

TEST(ReshapePlacements, UnchangedDims_KeepTheirShards) {
  EXPECT_EQ(propagated("tp=2", "tp:S(3)", {2, 3, 4, 5}, {6, 4, 5}), "tp:S(2)");
  EXPECT_EQ(propagated("tp=2", "tp:S(1, split=2)", {6, 8, 2, 2}, {6, 8, 4}), "tp:S(1, split=2)");
  EXPECT_EQ(propagated("tp=2", "tp:P(max)", {6, 8}, {48}), "tp:P(max)");
  EXPECT_EQ(propagated("tp=2", "R", {6, 8}, {48}), "R");
}

TEST(ReshapePlacements, FlattenedDims_GivePlainOrStridedShards) {
  EXPECT_EQ(propagated("x=3", "x:S(1)", {2, 3, 4}, {6, 4}), "x:S(0, split=2)");
  EXPECT_EQ(propagated("x=2", "x:S(0)", {2, 3, 4}, {6, 4}), "x:S(0)");
}

TEST(ReshapePlacements, UnflattenedDims_ResolveStridedShards) {
  EXPECT_EQ(propagated("x=3", "x:S(0, split=2)", {6, 4}, {2, 3, 4}), "x:S(1)");
  EXPECT_EQ(propagated("x=2", "x:S(0)", {6, 4}, {2, 3, 4}), "x:S(0)");
}

TEST(ReshapePlacements, UnevenRows_GetTheirSizes) {
  EXPECT_EQ(propagated("x=2", "x:S(0)", {3, 4}, {12}), "x:S(0, sizes=[8, 4])");
  EXPECT_EQ(propagated("x=2", "x:S(0, sizes=[8, 4])", {12}, {3, 4}), "x:S(0)");
}

TEST(ReshapePlacements, ShardsOfNoPlacement_AreRejected) {
  EXPECT_EQ(propagated("x=4", "x:S(1)", {12, 8}, {16, 6}), "none");
  EXPECT_EQ(propagated("x=2", "x:S(0)", {12}, {3, 4}), "none");
}

TEST(ReshapePlacements, TwoAxesOnOneDim_AreBothPlaced) {
  EXPECT_EQ(propagated("a=2, b=2", "a:S(0) b:S(0)", {4, 6}, {24}), "a:S(0) b:S(0)");
  EXPECT_EQ(propagated("a=2, b=3", "a:S(0) b:S(1)", {4, 6}, {24}), "a:S(0) b:S(0, split=2)");
  EXPECT_EQ(propagated("a=2, b=3", "a:S(0) b:S(0, split=2)", {24}, {4, 6}), "a:S(0) b:S(1)");
}

// For every input placement with a result: reshaping the ranks' parts locally and assembling them
// under the result gives the reshaped whole. Exhaustive over small shapes, with plain, strided and
// doubled shards.
TEST(ReshapePlacements, EveryInput_IsNeverPlacedWrong) {
  const std::pair<Dims, Dims> kShapes[] = {
      {{4, 6}, {24}},      {{24}, {4, 6}},         {{4, 6}, {8, 3}},      {{2, 3, 4}, {6, 4}},
      {{6, 4}, {2, 3, 4}}, {{2, 3, 5}, {6, 5}},    {{12, 8}, {16, 6}},    {{3, 4}, {12}},
      {{5, 3}, {15}},      {{1, 6, 1}, {2, 3}},    {{4, 5}, {2, 2, 5}},   {{7, 4}, {28}},
      {{4, 3, 2}, {24}},   {{6, 5}, {2, 3, 5, 1}}, {{2, 2, 6}, {4, 3, 2}}};
  int answered = 0, refused = 0;
  for (const char* mesh_text : {"a=2", "a=3", "a=4", "a=2, b=2", "a=2, b=3"}) {
    Mesh mesh = Mesh::parse(mesh_text);
    for (const auto& [from, to] : kShapes) {
      std::vector<Placement> choices = {R()};
      for (int d = 0; d < from.size(); ++d)
        for (int64_t split : {1, 2, 3}) choices.push_back(S(d, split));
      std::vector<double> values;
      for (int64_t i = 0; i < element_count(from); ++i) values.push_back(static_cast<double>(i));
      Tensor whole = tensor_of(DType::f32, from, values);
      int64_t combinations = 1;
      for (int a = 0; a < mesh.axis_count(); ++a)
        combinations *= static_cast<int64_t>(choices.size());
      for (int64_t c = 0; c < combinations; ++c) {
        std::vector<Placement> placements;
        for (int64_t a = 0, rest = c; a < mesh.axis_count(); ++a) {
          placements.push_back(choices[static_cast<size_t>(rest) % choices.size()]);
          rest /= static_cast<int64_t>(choices.size());
        }
        Spec input(mesh, placements, from, DType::f32);
        auto output = reshaped_spec(input, to);
        ++(output ? answered : refused);
        if (!output) continue;
        LocalTensor parts = split(whole, input);
        LocalTensor expected = split(tensor_of(DType::f32, to, values), *output);
        for (int32_t rank = 0; rank < mesh.size(); ++rank) {
          Tensor part = parts.of_rank(rank), same = expected.of_rank(rank);
          EXPECT_EQ(values_of(part), values_of(same))
              << to_string(input) << " -> " << to_string(*output);
        }
      }
    }
  }
  EXPECT_GT(answered, 500);
  EXPECT_GT(refused, 100);
}

// The rule gives each rank a shape with the number of elements of its part.
TEST(ReshapePlacements, LocalAttributes_FillTheLocalShape) {
  OpRegistry ops = builtin_ops();
  const OpRecord& reshape = ops.at("reshape");
  Attrs attrs{{"shape", std::vector<int64_t>{12}}};
  OpCall call{&attrs, {{DType::f32, {3, 4}}}};
  Spec input = Spec::parse("x:S(0)", Mesh::parse("x=2"), {3, 4}, DType::f32);
  auto outputs = reshape.rule.joint(call, reshape.infer(call), {input});
  ASSERT_TRUE(outputs.has_value());
  for (int64_t rank : {0, 1}) {
    Attrs local = reshape.rule.local_attrs(call, {input}, *outputs, rank);
    EXPECT_EQ(local.integers("shape"), (std::vector<int64_t>{rank == 0 ? 8 : 4}));
  }
}

}  // namespace
}  // namespace shardproof::reshape_placements_test
