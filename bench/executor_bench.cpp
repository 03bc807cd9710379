// Measures the executor on one core without probes:
// - a tensor-parallel MLP compared with the same MLP unsharded;
// - the cost of an op beyond its kernel;
// - all-reduces of much data compared with the read bandwidth of the core.
// Each repetition is a whole run of one program: a new world, its executor, and its close.
#include <numeric>
#include <string_view>

#include "shardproof/backends/local/local_backend.h"
#include "shardproof/bench/measure.h"
#include "shardproof/engine/check/check.h"
#include "shardproof/engine/execute/executor.h"
#include "shardproof/engine/job/job.h"
#include "shardproof/localtensor/split/split.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

Tensor ints(const Dims& shape) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 9) - 4;
  return tensor_of(DType::f32, shape, values);
}

struct Input {
  std::string name;
  Dims shape;
  std::string placements;
};

// A lowered program with split inputs, prepared once for all repetitions.
struct Program {
  Registries registries{builtin_ops(), builtin_backends()};
  int64_t ranks;
  LoweredJob lowered;
  std::vector<LocalTensor> inputs;

  Program(int64_t ranks, const std::vector<Input>& tensors, std::vector<std::string> lines)
      : ranks(ranks) {
    Job job;
    job.world = ranks;
    const Mesh mesh = Mesh::make({{"tp", ranks}});
    job.meshes = {{"", mesh}};
    for (const Input& input : tensors) {
      const Spec spec = Spec::parse(input.placements, mesh, input.shape, DType::f32);
      const Tensor data = ints(input.shape);
      job.inputs.push_back({input.name, spec, mesh.ranks(), data});
      inputs.push_back(split(data, spec));
    }
    job.ranks = {{mesh.ranks(), parse_listing(lines), "/ranks/all"}};
    lowered = lower_job(job, registries);
  }

  void run(const std::vector<Lanes>& cohorts) const {
    WorldOptions options;
    options.ranks = ranks;
    const std::unique_ptr<World> world = local_world(options);
    Executor executor(lowered.program, registries.ops, *world, {});
    executor.start(cohorts, inputs);
    SP_CHECK(executor.run(), "the program blocks");
    const WorldReport report = world->close();
    SP_CHECK(report.findings.empty(), "the program is wrong");
  }
  void run_coarse() const { run({Lanes::range(0, ranks)}); }
  void run_alone() const {
    std::vector<Lanes> cohorts;
    for (int64_t rank = 0; rank < ranks; ++rank) cohorts.push_back(Lanes::one(rank));
    run(cohorts);
  }
};

Program mlp(int64_t ranks) {
  const std::string w1 = ranks == 1 ? "tp:R" : "tp:S(1)", w2 = ranks == 1 ? "tp:R" : "tp:S(0)";
  std::vector<std::string> lines{"h = gelu(x @ w1)", "y = h @ w2"};
  if (ranks > 1) lines.push_back("z = all_reduce(y, sum)");
  return {
      ranks, {{"x", {16, 256}, "tp:R"}, {"w1", {256, 1024}, w1}, {"w2", {1024, 256}, w2}}, lines};
}

void print_mlp() {
  const Program whole = mlp(1), four = mlp(4), many = mlp(256), most = mlp(1024);
  const std::vector<double> s = race({{[&] { whole.run_coarse(); }, 10},
                                      {[&] { four.run_coarse(); }, 10},
                                      {[&] { many.run_coarse(); }, 3},
                                      {[&] { most.run_coarse(); }, 1}},
                                     21);
  const std::string baseline = "unsharded, own kernels: " + milliseconds(s[0]);
  const char* names[] = {"", "4", "256", "1024"};
  const char* targets[] = {"", "ratio 1.2", "1.2 ms", "3 ms, under 100 MB"};
  for (size_t i = 1; i < s.size(); ++i)
    print({fmt::format("MLP forward, {} ranks", names[i]), milliseconds(s[i]), baseline,
           fmt::format("{:.2f}", s[i] / s[0]), targets[i]});
  print({"MLP, peak memory of all of the above", fmt::format("{} MB", peak_bytes() / 1'000'000), "",
         "", "under 100 MB"});
}

// The backward of the MLP: by grad, and by the lines that an author would write.
Program mlp_step(int64_t ranks, bool by_grad) {
  std::vector<std::string> lines{"a = enter(x, group=tp)", "h = relu(a @ w1)",
                                 "y = all_reduce(h @ w2, sum, group=tp, backward=identity)",
                                 "gx, g1, g2 = grad(y, [x, w1, w2], with=dy)"};
  if (!by_grad)
    lines = {"h = relu(x @ w1)", "y = all_reduce(h @ w2, sum, group=tp)",
             "g2 = h.T @ dy",    "gh = where(h <= 0, 0, dy @ w2.T)",
             "g1 = x.T @ gh",    "gx = all_reduce(gh @ w1.T, sum, group=tp)"};
  return {ranks,
          {{"x", {16, 256}, "tp:R"},
           {"dy", {16, 256}, "tp:R"},
           {"w1", {256, 1024}, "tp:S(1)"},
           {"w2", {1024, 256}, "tp:S(0)"}},
          lines};
}

void print_mlp_step() {
  const std::pair<int64_t, const char*> rows[] = {{4, "1.3 ms"}, {64, "1.5 ms"}, {256, "3 ms"}};
  for (const auto& [ranks, target] : rows) {
    const Program hand = mlp_step(ranks, false), grad = mlp_step(ranks, true);
    const std::vector<double> s =
        race({{[&] { hand.run_coarse(); }, 5}, {[&] { grad.run_coarse(); }, 5}}, 11);
    print({fmt::format("MLP forward and backward by grad, {} ranks", ranks), milliseconds(s[1]),
           "by hand: " + milliseconds(s[0]), fmt::format("{:.2f}", s[1] / s[0]), target});
  }
}

// Measures ops on tiny tensors that differ by rank, so that the executor dominates. The share of
// the kernel is measured with the same number of elements in one tensor of one rank.
void print_overhead(int64_t ranks, const char* grouping, int64_t ops, double target) {
  std::vector<std::string> lines;
  for (int64_t i = 0; i < ops; ++i) lines.push_back("x = x + w");
  const Program tiny(ranks, {{"x", {ranks * 4}, "tp:S(0)"}, {"w", {ranks * 4}, "tp:S(0)"}}, lines);
  const Program kernel(1, {{"x", {ranks * 4}, "tp:S(0)"}, {"w", {ranks * 4}, "tp:S(0)"}}, lines);
  const bool alone = std::string_view(grouping) == "cohorts of one";
  const std::vector<double> s = race({{[&] { kernel.run_coarse(); }, 3},
                                      {[&] { alone ? tiny.run_alone() : tiny.run_coarse(); }, 1}});
  const double each = 1e6 / static_cast<double>(ops * ranks);
  print({fmt::format("op outside its kernel, {} ranks, {}", ranks, grouping),
         fmt::format("{:.3f} us an op and rank", (s[1] - s[0]) * each),
         fmt::format("the same elements on one rank: {:.3f} us", s[0] * each),
         fmt::format("{:.1f}", s[1] / s[0]), fmt::format("{} us", target)});
}

double read_all(const std::vector<float>& data) {
  float sums[64] = {};
  for (size_t i = 0; i + 64 <= data.size(); i += 64)
    for (size_t j = 0; j < 64; ++j) sums[j] += data[i + j];
  return std::accumulate(sums, sums + 64, 0.0);
}

void print_bandwidth() {
  constexpr int64_t kRanks = 256, kElements = 1 << 18, kCalls = 5;
  const int64_t bytes = kRanks * kElements * 4;
  std::vector<std::string> lines;
  for (int i = 0; i < kCalls; ++i) lines.push_back(fmt::format("y{} = all_reduce(x, sum)", i));
  const Program reduce(kRanks, {{"x", {kRanks * kElements}, "tp:S(0)"}}, lines);
  const std::vector<float> data(static_cast<size_t>(kRanks * kElements), 1.0f);
  volatile double sum = 0;
  const std::vector<double> s =
      race({{[&] { sum = read_all(data); }, kCalls}, {[&] { reduce.run_coarse(); }, 1}}, 7);
  const double core = static_cast<double>(bytes) / s[0],
               ours = kCalls * static_cast<double>(bytes) / s[1];
  print({"5 all_reduce of 1 MiB over 256 ranks", fmt::format("{:.1f} GB/s read", ours * 1e-9),
         fmt::format("one core reads {:.1f} GB/s", core * 1e-9), fmt::format("{:.2f}", ours / core),
         "0.5"});
}

}  // namespace

int main() {
  print_head();
  print_mlp();
  print_mlp_step();
  print_overhead(1024, "one cohort", 200, 0.1);
  print_overhead(256, "cohorts of one", 200, 0.5);
  print_bandwidth();
}
