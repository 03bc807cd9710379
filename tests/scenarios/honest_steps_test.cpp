// Rank programs that compute in several rounded steps what their truth computes in one op. Honest
// programs are never called wrong in any dtype, and the bug of each is found. The extremum of a
// partial input is equal to the input as the ranks add it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof::honest_steps_test {
namespace {

struct Sizes {
  int64_t ranks = 0, rows = 0, each = 0, width = 0;  // width: ranks * each
  double spread = 1;
};

struct Steps {
  std::string name;
  std::vector<std::string> tensors, lines;
  std::string truth, placements;  // of y
  std::string right, wrong;       // a bug writes `wrong` in place of `right`
};

std::string tensor(const std::string& name, const std::vector<int64_t>& shape,
                   const std::string& placements, double spread) {
  return fmt::format(
      R"json("{}": {{"shape": [{}], "placements": "{}", "fill": "normal(0, {})"}})json", name,
      fmt::join(shape, ", "), placements, spread);
}

std::vector<std::string> shifted_sum() {
  return {"m = all_reduce(amax(z, dim=1, keepdim=true), max, group=tp)",
          "s = all_reduce(sum(exp(z - m), dim=1, keepdim=true), sum, group=tp)"};
}

Steps softmax(const Sizes& n) {
  Steps steps{"softmax",
              {tensor("z", {n.rows, n.width}, "tp:S(1)", n.spread)},
              shifted_sum(),
              "softmax(z, dim=1)",
              "tp:S(1)",
              "all_reduce(amax(z, dim=1, keepdim=true), max, group=tp)",
              "amax(z, dim=1, keepdim=true)"};
  steps.lines.push_back("y = exp(z - m) / s");
  return steps;
}

Steps logsumexp(const Sizes& n) {
  Steps steps{"logsumexp",   {tensor("z", {n.rows, n.width}, "tp:S(1)", n.spread)},
              shifted_sum(), "logsumexp(z, dim=1, keepdim=true)",
              "R",           "y = m",
              "y = m + m"};
  steps.lines.push_back("y = m + log(s)");
  return steps;
}

Steps cross_entropy(const Sizes& n) {
  Steps steps{"cross entropy",
              {tensor("z", {n.rows, n.width}, "tp:S(1)", n.spread)},
              shifted_sum(),
              "cross_entropy(z, t)",
              "R",
              "where(mine, z - m, 0)",
              "where(mine, z, 0)"};
  steps.tensors.push_back(fmt::format(
      R"json("t": {{"shape": [{}], "dtype": "i64", "fill": "ints(0, {})"}})json", n.rows, n.width));
  steps.lines.push_back(
      fmt::format("mine = arange({0})[None, :] + index(tp) * {0} == t[:, None]", n.each));
  steps.lines.emplace_back(
      "p = all_reduce(sum(where(mine, z - m, 0), dim=1, keepdim=true), sum, group=tp)");
  steps.lines.emplace_back("y = mean(log(s) - p)");
  return steps;
}

Steps rms_norm(const Sizes& n) {
  return {
      "rms_norm",
      {tensor("x", {n.rows, n.width}, "tp:S(1)", n.spread), tensor("g", {n.width}, "tp:S(0)", 1)},
      {"s = all_reduce(sum(x * x, dim=1, keepdim=true), sum, group=tp)",
       fmt::format("y = x * rsqrt(s / {} + 0.01) * g", n.width)},
      "rms_norm(x, g, eps=0.01)",
      "tp:S(1)",
      " + 0.01",
      ""};
}

Steps layer_norm(const Sizes& n) {
  return {
      "layer_norm",
      {tensor("x", {n.rows, n.width}, "tp:S(1)", n.spread), tensor("g", {n.width}, "tp:S(0)", 1),
       tensor("b", {n.width}, "tp:S(0)", 1)},
      {fmt::format("c = x - all_reduce(sum(x, dim=1, keepdim=true), sum, group=tp) / {}", n.width),
       fmt::format("v = all_reduce(sum(c * c, dim=1, keepdim=true), sum, group=tp) / {}", n.width),
       "y = c * rsqrt(v + 0.01) * g + b"},
      "layer_norm(x, g, b, eps=0.01)",
      "tp:S(1)",
      fmt::format("group=tp) / {}\",\n\"y", n.width),
      "group=tp)\",\n\"y"};
}

Steps attention_of_heads(const Sizes& n) {
  const std::vector<int64_t> shape{n.ranks * n.rows, n.each + 1, 3};
  return {"attention of heads",
          {tensor("q", shape, "tp:S(0)", n.spread), tensor("k", shape, "tp:S(0)", n.spread),
           tensor("v", shape, "tp:S(0)", n.spread)},
          {"s = q @ k.T * 0.5", "e = exp(s - amax(s, dim=-1, keepdim=true))",
           "y = e / sum(e, dim=-1, keepdim=true) @ v"},
          "sdpa(q, k, v, scale=0.5)",
          "tp:S(0)",
          " * 0.5",
          ""};
}

Steps attention_of_keys(const Sizes& n) {
  const std::vector<int64_t> shape{2, n.width, 3};
  return {"attention of keys",
          {tensor("q", {2, n.rows, 3}, "R", n.spread), tensor("k", shape, "tp:S(1)", n.spread),
           tensor("v", shape, "tp:S(1)", n.spread)},
          {"s = q @ k.T * 0.5", "m = all_reduce(amax(s, dim=-1, keepdim=true), max, group=tp)",
           "e = exp(s - m)", "l = all_reduce(sum(e, dim=-1, keepdim=true), sum, group=tp)",
           "y = all_reduce(e @ v, sum, group=tp) / l"},
          "sdpa(q, k, v, scale=0.5)",
          "R",
          "all_reduce(amax(s, dim=-1, keepdim=true), max, group=tp)",
          "amax(s, dim=-1, keepdim=true)"};
}

Steps linear(const Sizes& n) {
  return {"linear",
          {tensor("x", {n.rows, n.width}, "tp:S(1)", n.spread),
           tensor("w", {n.width, 3}, "tp:S(0)", n.spread), tensor("b", {3}, "R", 1)},
          {"y = all_reduce(x @ w, sum, group=tp) + b"},
          "x @ w + b",
          "R",
          "x @ w, sum, group=tp) + b",
          "x @ w + b, sum, group=tp)"};
}

// Adds so many terms that a worst-case bound would allow any value, even in f64.
Steps layers(const Sizes& n) {
  constexpr int kLayers = 40;
  std::string truth = "x";
  for (int i = 0; i < kLayers; ++i) truth = fmt::format("tanh({} @ w[{}])", truth, i);
  return {"layers",
          {tensor("x", {n.rows, n.width}, "R", n.spread),
           tensor("w", {kLayers, n.width, n.width}, "tp:S(1)",
                  1.5 / std::sqrt(static_cast<double>(n.width)))},
          {"h = x", fmt::format("for i in range({}):", kLayers),
           fmt::format("  p = narrow(h, 1, index(tp) * {0}, {0}) @ w[i]", n.each),
           "  h = tanh(all_reduce(p, sum, group=tp))", "y = h * 1"},
          truth,
          "R",
          "y = h * 1",
          "y = h * 1.01"};
}

// Chooses by scores. The choice would depend on rounding if both sides computed different scores.
Steps gate_by_comparison(const Sizes& n) {
  const std::string chosen = "where({0} >= amax({0}, dim=1, keepdim=true), {0}, 0)";
  return {"gate by comparison",
          {tensor("x", {n.rows, n.width}, "tp:S(1)", n.spread),
           tensor("w", {n.width, n.width}, "tp:S(0)", 1), tensor("e", {n.width, 3}, "tp:S(0)", 1)},
          {"s = gelu(all_reduce(x @ w, sum, group=tp))",
           "g = " + fmt::format(fmt::runtime(chosen), "s"),
           fmt::format("mine = narrow(g, 1, index(tp) * {0}, {0})", n.each),
           "y = all_reduce(mine @ e, sum, group=tp) * 1"},
          fmt::format(fmt::runtime(chosen), "gelu(x @ w)") + " @ e",
          "R",
          " * 1\"",
          " * 2\""};
}

std::string text_of(const Steps& steps, const Sizes& sizes, const std::string& dtype) {
  return fmt::format(
      "{{\"version\": 1, \"about\": \"{}\", \"mesh\": \"tp={}\", \"dtype\": \"{}\",\n"
      "\"tensors\": {{{}}},\n\"ranks\": {{\"all\": [\"{}\"]}},\n"
      "\"truth\": [\"y = {}\"], \"outputs\": {{\"y\": \"{}\"}}}}",
      steps.name, sizes.ranks, dtype, fmt::join(steps.tensors, ",\n"),
      fmt::join(steps.lines, "\",\n\""), steps.truth, steps.placements);
}

std::string with_bug(std::string text, const Steps& steps) {
  const size_t at = text.find(steps.right);
  EXPECT_NE(at, std::string::npos) << text;
  return text.replace(at, steps.right.size(), steps.wrong);
}

Sizes sizes_of(uint64_t seed) {
  const Rng rng(seed, 4);
  Sizes sizes{rng.integer(0, 2, 5), rng.integer(1, 1, 6), rng.integer(2, 1, 9), 0, 1};
  sizes.width = sizes.ranks * sizes.each;
  sizes.spread = std::vector<double>{0.2, 1, 3}[static_cast<size_t>(rng.integer(3, 0, 3))];
  return sizes;
}

const std::vector<std::function<Steps(const Sizes&)>>& all_steps() {
  static const std::vector<std::function<Steps(const Sizes&)>> kAll = {
      softmax,    logsumexp,          cross_entropy,     rms_norm,
      layer_norm, attention_of_heads, attention_of_keys, linear,
      layers,     gate_by_comparison};
  return kAll;
}

RunResult run(const std::string& text, uint64_t seed) {
  const Registries registries{builtin_ops(), builtin_backends()};
  RunOptions options;
  options.seed = seed;
  return run_scenarios({load_text(text, "steps.json")}, {""}, options, registries);
}

class HonestSteps : public testing::TestWithParam<const char*> {};

TEST_P(HonestSteps, HonestProgram_IsNeverWrong_AndItsBugIs) {
  const std::string dtype = GetParam();
  int found = 0, all = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed)
    for (const auto& make : all_steps()) {
      const Sizes sizes = sizes_of(seed);
      const Steps steps = make(sizes);
      const std::string text = text_of(steps, sizes, dtype);
      const RunResult honest = run(text, seed);
      ASSERT_EQ(honest.exit_code(), 0) << text_report(honest, {}) << "\n" << text;
      ASSERT_EQ(honest.values_compared(), 1);
      const std::string bug = with_bug(text, steps);
      const RunResult wrong = run(bug, seed);
      ASSERT_LE(wrong.exit_code(), 1) << text_report(wrong, {}) << "\n" << bug;
      EXPECT_TRUE(dtype != "f32" || wrong.exit_code() == 1) << bug;
      found += wrong.exit_code();
      ++all;
    }
  EXPECT_GE(found, all * 99 / 100) << "of " << all;
}

INSTANTIATE_TEST_SUITE_P(InEachFloat, HonestSteps, testing::Values("f64", "f32", "bf16", "f16"),
                         [](const auto& info) { return std::string(info.param); });

// Not every f64 is an average over 3 ranks, so x differs from what the ranks hold by a rounding.
TEST(HonestExtremes, OfPartialInputs_AreDecided) {
  for (const char* mesh : {"dp=3, tp=2", "dp=2, tp=2", "dp=3, tp=5"})
    for (const char* lies : {"dp:P(avg) tp:S(0)", "dp:P(avg) tp:P(avg)", "dp:P(sum) tp:P(avg)"})
      for (const char* dtype : {"f64", "f32", "bf16"}) {
        const std::string text = fmt::format(
            R"json({{"version": 1, "mesh": "{}", "dtype": "{}",
            "tensors": {{"x": {{"shape": [8, 7], "placements": "{}", "fill": "uniform(0, 1)"}}}},
            "program": ["v = amax(x, dim=1)", "g = grad(sum(v), x)",
                        "h = grad(sum(amin(x, dim=0)), x)", "e = x == amax(x, dim=0)"],
            "expect": {{"undecided": 0}}}})json",
            mesh, dtype, lies);
        for (uint64_t seed = 1; seed <= 4; ++seed) {
          const RunResult result = run(text, seed);
          EXPECT_EQ(result.exit_code(), 0) << text_report(result, {}) << "\n" << text;
        }
      }
}

}  // namespace
}  // namespace shardproof::honest_steps_test
