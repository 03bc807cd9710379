// Tests the backward of calls of rank programs on groups of 1 to 8 ranks, by the adjoint law <A x,
// y> = <x, A^T y>. The sixteen rows are those of spmd_types (docs/design.md of
// meta-pytorch/spmd_types): R replicated with a partial gradient, I invariant, V varying, P
// partial. Values are small whole numbers in f64, so the law holds to the bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof::backward_of_calls_test {
namespace {

struct DualRow {
  const char* forward_type;   // "R -> V": of x and y
  const char* backward_type;  // of the gradients by y and x
  const char* lines;          // makes y from x
  const char* calls;          // forward and backward, as `expect` writes them
  bool divides = false;       // the call needs equal shards
};

const char* const kSame = R"j("y = x * 1")j";

const DualRow kRows[] = {
    {"R -> I", "I -> P", R"j("y = all_reduce(x * first, sum, group=tp, backward=identity)")j",
     R"j("all_reduce": 1)j"},
    {"R -> V", "V -> P", kSame, ""},
    {"R -> V", "V -> P", R"j("y = x[low:low + mine]")j", ""},
    {"R -> P", "R -> P", kSame, ""},
    {"R -> P", "R -> P", R"j("y = x * first")j", ""},
    {"I -> R", "P -> I", R"j("y = enter(x, group=tp)")j", R"j("all_reduce": 1)j"},
    {"I -> V", "V -> I", R"j("e = enter(x, group=tp)", "y = e[low:low + mine]")j",
     R"j("all_reduce": 1)j"},
    {"I -> P", "R -> I", R"j("y = enter(x, group=tp) * first")j", R"j("all_reduce": 1)j"},
    {"V -> R", "P -> V", R"j("y = all_gather(x, group=tp, backward=reduce_scatter)")j",
     R"j("all_gather": 1, "reduce_scatter": 1)j", true},
    {"V -> I", "I -> V", R"j("y = all_gather(x, group=tp, backward=slice)")j",
     R"j("all_gather": 1)j", true},
    {"V -> V", "V -> V",
     R"j("y = all_to_all(x, split=0, concat=0, group=tp, backward=all_to_all)")j",
     R"j("all_to_all": 2)j", true},
    {"V -> P", "R -> V", kSame, ""},
    {"V -> P", "R -> V", R"j("y = zeros(like=whole)", "y[low:low + mine] = x")j", ""},
    {"P -> R", "P -> R", R"j("y = all_reduce(x, sum, group=tp, backward=all_reduce)")j",
     R"j("all_reduce": 2)j"},
    {"P -> I", "I -> R", R"j("y = all_reduce(x, sum, group=tp, backward=identity)")j",
     R"j("all_reduce": 1)j"},
    {"P -> V", "V -> R", R"j("y = reduce_scatter(x, sum, group=tp, backward=all_gather)")j",
     R"j("all_gather": 1, "reduce_scatter": 1)j", true},
};

const char* placements_of(char type) {
  return type == 'V' ? "tp:S(0)" : type == 'P' ? "tp:P(sum)" : "R";
}

// A product of invariant values counts once, any other on each rank.
const char* once(char type) { return type == 'I' ? " * first" : ""; }

// Returns a scenario that compares <y, dy> - <x, dx>, summed over the ranks, with 0.
std::string scenario_of(const DualRow& row, const std::string& mesh, int size, int rows) {
  const std::string forward = row.forward_type, backward = row.backward_type;
  const char x = forward[0], y = forward[5], dy = backward[0];
  // A varying copy of a replicated value has its whole size on each rank.
  const bool local = row.lines == kSame;
  const auto length = [&](char type, char other) {
    return type == 'V' && local && other != 'V' ? rows * size : rows;
  };
  const std::string calls = size == 1 ? "" : row.calls;
  return fmt::format(
      R"json({{"version": 1, "mesh": "{}", "dtype": "f64",
         "tensors": {{"x": {{"shape": [{}], "placements": "{}"}},
                      "dy": {{"shape": [{}], "placements": "{}"}},
                      "whole": {{"shape": [{}]}}, "cut": {{"shape": [{}], "placements": "tp:S(0)"}}}},
         "ranks": {{"all": ["first = min(1, max(0, 1 - index(tp)))", "low = start(cut, 0)",
                            "mine = dim(cut, 0)", {}, "dx = grad(y, x, with=dy)",
                            "off = sum(y * dy){} - sum(x * dx){}"]}},
         "truth": ["off = sum(x * 0)"], "outputs": {{"off": "tp:P(sum)"}},
         "expect": {{"collectives": {{{}}}}}}})json",
      mesh, length(x, y), placements_of(x), length(y, x),
      dy == 'I' || dy == 'R' ? "R" : placements_of(dy), rows, rows, row.lines, once(y), once(x),
      calls);
}

TEST(BackwardOfCalls, SixteenRows_OnEveryGroup_HoldTheAdjointLaw) {
  const Registries registries{builtin_ops(), builtin_backends()};
  for (const DualRow& row : kRows)
    for (const auto& [mesh, size] : std::vector<std::pair<std::string, int>>{{"tp=1", 1},
                                                                             {"tp=2", 2},
                                                                             {"tp=3", 3},
                                                                             {"tp=4", 4},
                                                                             {"tp=5", 5},
                                                                             {"tp=7", 7},
                                                                             {"tp=8", 8},
                                                                             {"dp=2, tp=3", 3},
                                                                             {"tp=2, dp=4", 2}})
      for (const int rows : {2 * size * size, 2 * size - 1}) {
        if (row.divides && rows % (size * size) != 0) continue;
        const std::string text = scenario_of(row, mesh, size, rows);
        const RunResult result = run_scenarios({load_text(text, "f.json")}, {""}, {}, registries);
        EXPECT_EQ(result.exit_code(), 0) << row.forward_type << " " << text << "\n"
                                         << text_report(result, {});
      }
}

// Each pair moves other rows; a rank may have none.
TEST(BackwardOfCalls, ExchangeOfUnevenRows_HoldsTheAdjointLaw) {
  const Registries registries{builtin_ops(), builtin_backends()};
  const std::string text = R"json({"version": 1, "mesh": "tp=3", "dtype": "f64",
      "let": {"counts": [[2, 0, 1], [0, 0, 0], [1, 3, 0]]},
      "tensors": {"x": {"shape": [7, 2], "placements": "tp:S(0, sizes=[3, 0, 4])"},
                  "dy": {"shape": [7, 2], "placements": "tp:S(0, sizes=[3, 3, 1])"}},
      "ranks": {"all": [
        "y = all_to_all_v(x, send=counts[index(tp)], recv=counts.T[index(tp)], group=tp, backward=all_to_all_v)",
        "dx = grad(y, x, with=dy)", "off = sum(y * dy) - sum(x * dx)"]},
      "truth": ["off = sum(x * 0)"], "outputs": {"off": "tp:P(sum)"},
      "expect": {"collectives": {"all_to_all_v": 2}}})json";
  const RunResult result = run_scenarios({load_text(text, "f.json")}, {""}, {}, registries);
  EXPECT_EQ(result.exit_code(), 0) << text_report(result, {});
}

}  // namespace
}  // namespace shardproof::backward_of_calls_test
