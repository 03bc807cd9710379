// Measures whole processes on files with gradients. `shardproof run` makes ten Adam steps by
// `train` and compares every value. `shardproof show` prints a decoder of 8 layers on 4 axes, with
// the gradient of all its weights. The baselines are the same file with one step, and without the
// gradient.
#include <fstream>

#include "shardproof/bench/measure.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

constexpr int kLayers = 8;

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = fmt::format("{}/{}.json", SHARDPROOF_BENCH_FOLDER, name);
  std::ofstream(path) << text;
  return path;
}

std::string train_file(int steps) {
  return write_file(fmt::format("train_{}", steps), fmt::format(R"json({{
 "version": 1,
 "mesh": "dp=16",
 "tensors": {{
  "x": {{"shape": [256, 64], "placements": "dp:S(0)", "fill": "normal(0, 1)"}},
  "t": {{"shape": [256, 64], "placements": "dp:S(0)", "fill": "normal(0, 1)"}},
  "w1": {{"shape": [64, 64], "fill": "normal(0, 0.1)"}},
  "w2": {{"shape": [64, 64], "fill": "normal(0, 0.1)"}}}},
 "program": ["h = relu(x @ w1)", "e = h @ w2 - t", "loss = mean(e * e)"],
 "train": {{"loss": "loss", "params": ["w1", "w2"], "optimizer": "adam(lr=0.001)", "steps": {}}}}})json",
                                                                steps));
}

void print_train() {
  const std::string one = train_file(1), ten = train_file(10);
  int64_t peak = 0;
  const std::vector<double> s = race({{[&] {
                                         run_child({SHARDPROOF_TOOL, "run", one});
                                       },
                                       1, RUSAGE_CHILDREN},
                                      {[&] {
                                         peak = run_child({SHARDPROOF_TOOL, "run", ten});
                                       },
                                       1, RUSAGE_CHILDREN}},
                                     7);
  print({"ten Adam steps by train, hidden 64, dp=16", milliseconds(s[1]),
         "one step: " + milliseconds(s[0]), fmt::format("{:.1f}", s[1] / s[0]), "0.3 s"});
  print({"  peak memory", megabytes(peak), "", "", "100 MB"});
}

// The weights of a layer, which is number `l`.
struct Weight {
  const char *name, *shape, *placements;
};
constexpr Weight kWeights[] = {{"wq", "[64, 64]", "tp:S(1) fsdp:S(0)"},
                               {"wk", "[64, 64]", "tp:S(1) fsdp:S(0)"},
                               {"wv", "[64, 64]", "tp:S(1) fsdp:S(0)"},
                               {"wo", "[64, 64]", "tp:S(0) fsdp:S(1)"},
                               {"wu", "[64, 128]", "tp:S(1) fsdp:S(0)"},
                               {"wd", "[128, 64]", "tp:S(0) fsdp:S(1)"},
                               {"n", "[64]", "R"},
                               {"r", "[64]", "R"}};

std::string decoder_file(bool with_grad) {
  std::string tensors =
      R"json("x": {"shape": [4, 16, 64], "placements": "dp:S(0)", "fill": "normal(0, 1)"})json";
  std::string names, loops;
  for (int l = 0; l < kLayers; ++l)
    for (const Weight& weight : kWeights) {
      tensors += fmt::format(",\n  \"{}{}\": {{\"shape\": {}, \"placements\": \"{}\"}}",
                             weight.name, l, weight.shape, weight.placements);
      names += fmt::format("{}{}{}", names.empty() ? "" : ", ", weight.name, l);
    }
  std::string results;
  for (int i = 0; i < kLayers * static_cast<int>(std::size(kWeights)); ++i)
    results += fmt::format("{}g{}", i == 0 ? "" : ", ", i);
  const std::string grad =
      with_grad ? fmt::format(",\n  \"{} = grad(loss, [{}])\"", results, names) : "";
  return write_file(with_grad ? "decoder_grad" : "decoder", fmt::format(R"json({{
 "version": 1,
 "mesh": "dp=2, fsdp=2, cp=2, tp=2",
 "tensors": {{
  {}}},
 "program": [
  "for l in range({}):",
  "  a = rms_norm(x, n{{l}})",
  "  q = transpose(reshape(a @ wq{{l}}, [4, 16, 4, 16]), 1, 2)",
  "  k = transpose(reshape(a @ wk{{l}}, [4, 16, 4, 16]), 1, 2)",
  "  v = transpose(reshape(a @ wv{{l}}, [4, 16, 4, 16]), 1, 2)",
  "  o = reshape(transpose(sdpa(q, k, v, causal=true), 1, 2), [4, 16, 64])",
  "  x = x + o @ wo{{l}}",
  "  b = rms_norm(x, r{{l}})",
  "  x = x + silu(b @ wu{{l}}) @ wd{{l}}",
  "loss = mean(x * x)"{}]}})json",
                                                                        tensors, kLayers, grad));
}

void print_decoder() {
  const std::string forward = decoder_file(false), both = decoder_file(true);
  const std::vector<double> s = race({{[&] {
                                         run_child({SHARDPROOF_TOOL, "show", forward});
                                       },
                                       1, RUSAGE_CHILDREN},
                                      {[&] {
                                         run_child({SHARDPROOF_TOOL, "show", both});
                                       },
                                       1, RUSAGE_CHILDREN}},
                                     7);
  print({"show of a decoder of 8 layers on 4 axes with gradient", milliseconds(s[1]),
         "without: " + milliseconds(s[0]), fmt::format("{:.1f}", s[1] / s[0]), "0.4 s"});
}

}  // namespace

int main() {
  print_head();
  print_train();
  print_decoder();
}
