// Tests the notes about values that the ranks reduce in a narrower dtype than one device. In bf16
// such a loss is too small for the ratio at which all other losses are noted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof::narrow_reduction_test {
namespace {

// Returns the report of a gradient in bf16 that is reduced in a dtype.
std::string report_of_reduction_in(const std::string& dtype) {
  const Registries registries{builtin_ops(), builtin_backends()};
  const std::string text = fmt::format(
      R"json({{"version": 1, "mesh": "dp=4", "dtype": "bf16",
      "tensors": {{"x": {{"shape": [8, 16], "placements": "dp:S(0)", "fill": "normal(0, 1)"}},
                   "w": {{"shape": [16, 16], "fill": "normal(0, 1)"}}}},
      "ranks": {{"all": ["y = x @ w", "loss = sum(y * y)", "g = grad(loss, w)", "h = cast(g, {})",
                         "h = all_reduce(h, sum, group=dp)", "g = cast(h, bf16)"]}},
      "truth": ["y = x @ w", "loss = sum(y * y)", "g = grad(loss, w)"],
      "outputs": {{"g": "R"}}}})json",
      dtype);
  return text_report(run_scenarios({load_text(text, "f.json")}, {""}, {}, registries), {});
}

TEST(NarrowReduction, OfBf16_IsNotedWithItsCause) {
  for (const std::string dtype : {"f8e5m2", "f8e4m3"}) {
    const std::string report = report_of_reduction_in(dtype);
    const std::string cause = "it is bf16, but line 5 reduces over dp in " + dtype;
    EXPECT_NE(report.find(cause), std::string::npos) << report;
  }
}

TEST(NarrowReduction, InTheOwnDtype_IsNotNoted) {
  for (const std::string dtype : {"bf16", "f32"}) {
    const std::string report = report_of_reduction_in(dtype);
    EXPECT_EQ(report.find("note"), std::string::npos) << report;
  }
}

}  // namespace
}  // namespace shardproof::narrow_reduction_test
