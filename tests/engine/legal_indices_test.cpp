// Tests that fills of indices are narrowed to exactly the numbers that a call accepts.
#include "shardproof/engine/check_ops/legal_indices.h"

#include <gtest/gtest.h>

#include "shardproof/engine/check_ops/op_instance.h"

namespace shardproof::testing::legal_indices_test {
namespace {

Sample with_fills(std::vector<std::string> fills) {
  Sample sample;
  sample.fills = std::move(fills);
  sample.inputs.assign(sample.fills.size(), {DType::i64, {3}});
  return sample;
}

// Accepts numbers of low..high-1 in each input.
std::function<bool(const Sample&)> accepts_range(int64_t low, int64_t high) {
  return [=](const Sample& sample) {
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      const Tensor tensor = filled_by(sample.fills[i], DType::i64, sample.inputs[i].shape, 3);
      for (int64_t k = 0; k < tensor.elements(); ++k) {
        const int64_t number = load_i64(tensor.data() + 8 * k, DType::i64);
        if (number < low || number >= high) return false;
      }
    }
    return true;
  };
}

TEST(NarrowIndices, AnyRange_IsCutToWhatTheCallAccepts) {
  for (int64_t low = -4; low < 4; ++low)
    for (int64_t high = low + 1; high <= 5; ++high)
      for (int64_t legal = 0; legal < 4; ++legal) {
        Sample sample = with_fills({fmt::format("ints({}, {})", low, high)});
        const int64_t first = std::max(low, -legal), end = std::min(high, legal);
        EXPECT_EQ(narrow_indices(sample, accepts_range(-legal, legal)), first < end);
        if (first < end) {
          EXPECT_EQ(sample.fills[0], fmt::format("ints({}, {})", first, end));
        }
      }
}

TEST(NarrowIndices, SeveralInputs_AreEachCut) {
  Sample sample = with_fills({"ints(-9, 9)", "ints(-7, 8)"});
  ASSERT_TRUE(narrow_indices(sample, accepts_range(-2, 3)));
  EXPECT_EQ(sample.fills, (std::vector<std::string>{"ints(-2, 3)", "ints(-2, 3)"}));
}

TEST(NarrowIndices, InputsWithoutARange_KeepTheirFills) {
  Sample sample = with_fills({"ints(0, 9)", "ints", "zeros"});
  sample.inputs[1] = {DType::f32, {2}};
  const auto accepts = [](const Sample& probe) { return probe.fills[0] == "ints(0, 1)"; };
  ASSERT_TRUE(narrow_indices(sample, accepts));
  EXPECT_EQ(sample.fills, (std::vector<std::string>{"ints(0, 1)", "ints", "zeros"}));
}

TEST(NarrowIndices, CallWithoutIndices_IsAcceptedAsItIs) {
  Sample sample = with_fills({"ints"});
  EXPECT_TRUE(narrow_indices(sample, [](const Sample&) { return true; }));
  EXPECT_FALSE(narrow_indices(sample, [](const Sample&) { return false; }));
}

}  // namespace
}  // namespace shardproof::testing::legal_indices_test
