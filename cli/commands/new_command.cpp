// shardproof new: prints a scenario to start from.
#include "shardproof/cli/commands/command.h"

#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr std::string_view kMlp = R"json({
  "version": 1,
  "about": "Megatron MLP: column-parallel, then row-parallel, one all-reduce.",
  "mesh": "dp=2, tp=4",
  "let": {"tokens": 16, "hidden": 8, "ffn": "4 * hidden"},
  "tensors": {
    "x": {"shape": ["tokens", "hidden"], "placements": "dp:S(0)"},
    "w1": {"shape": ["hidden", "ffn"], "placements": "tp:S(1)"},
    "w2": {"shape": ["ffn", "hidden"], "placements": "tp:S(0)"}
  },
  "program": ["h = gelu(x @ w1)", "y = redistribute(h @ w2, tp:R)"],
  "expect": {"collectives": {"all_reduce tp": 1}}
}
)json";

constexpr std::string_view kAttention = R"json({
  "version": 1,
  "about": "Attention with the heads cut over tp: one all-reduce after the output projection.",
  "mesh": "dp=2, tp=2",
  "let": {"batch": 2, "seq": 6, "hidden": 16, "heads": 4, "hd": 4},
  "tensors": {
    "x": {"shape": ["batch", "seq", "hidden"], "placements": "dp:S(0)"},
    "wq": {"shape": ["hidden", "heads", "hd"], "placements": "tp:S(1)"},
    "wk": {"shape": ["hidden", "heads", "hd"], "placements": "tp:S(1)"},
    "wv": {"shape": ["hidden", "heads", "hd"], "placements": "tp:S(1)"},
    "wo": {"shape": ["heads", "hd", "hidden"], "placements": "tp:S(0)"}
  },
  "program": [
    "q = einsum('bsd,dhk->bhsk', x, wq)",
    "k = einsum('bsd,dhk->bhsk', x, wk)",
    "v = einsum('bsd,dhk->bhsk', x, wv)",
    "a = sdpa(q, k, v, causal=true)",
    "y = redistribute(einsum('bhsk,hkd->bsd', a, wo), tp:R)"
  ],
  "expect": {"collectives": {"all_reduce tp": 1}}
}
)json";

constexpr std::string_view kRanks = R"json({
  "version": 1,
  "about": "Row-parallel matmul written for each rank; its truth is one line on one device.",
  "mesh": "tp=4",
  "tensors": {
    "x": {"shape": [6, 8], "placements": "tp:S(1)"},
    "w": {"shape": [8, 5], "placements": "tp:S(0)"}
  },
  "ranks": {"all": ["p = x @ w", "y = all_reduce(p, sum, group=tp)"]},
  "truth": ["y = x @ w"],
  "outputs": {"y": "R"},
  "expect": {"collectives": {"all_reduce tp": 1}}
}
)json";

}  // namespace

const std::vector<Example>& examples() {
  static const std::vector<Example> kExamples = {
      {"mlp", "a tensor-parallel MLP as a global program", kMlp},
      {"attention", "an attention block with its heads cut over tp", kAttention},
      {"ranks", "what each rank does, written by hand, and its truth on one device", kRanks},
  };
  return kExamples;
}

int new_command(const CommandArguments& words, const Registries&) {
  const std::string what = words.empty() ? "" : words[0];
  NearestName nearest(what);
  for (const Example& example : examples()) {
    if (example.name == what && words.size() == 1) {
      print_out(example.text);
      return 0;
    }
    nearest.offer(example.name);
  }
  throw_bad_input("new: expected mlp, attention or ranks, found {}{}",
                  what.empty() ? "nothing" : fmt::format("\"{}\"", fmt::join(words, " ")),
                  nearest.hint());
}

std::string new_help() {
  std::string out =
      "shardproof new KIND > FILE\n\nPrints a small scenario that passes, to start from.\n\n";
  for (const Example& example : examples())
    out += fmt::format("  {:<10} {}\n", example.name, example.summary);
  return out;
}

}  // namespace shardproof
