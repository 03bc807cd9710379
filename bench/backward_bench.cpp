// Measures the cost of an op's gradient compared with the op: one op forward, and the same with
// grad. Both run as a program of one rank and as one of four ranks that share the rows.
//
//   backward_bench [op]
//
// Peak memory counts the tensors of a rank, not the workspace of a kernel.
#include <map>

#include "shardproof/backends/local/local_backend.h"
#include "shardproof/bench/measure.h"
#include "shardproof/engine/check/check.h"
#include "shardproof/engine/execute/executor.h"
#include "shardproof/engine/job/job.h"
#include "shardproof/localtensor/split/split.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

constexpr int64_t kRanks = 4;

struct Input {
  std::string name;
  Dims shape;
  std::string placements;  // of four ranks
  DType dtype = DType::f32;
  int64_t integers = 0;  // above 0: labels or indices below this number
};

struct OpCase {
  std::string text;  // its text in the table
  std::vector<Input> inputs;
  std::string forward, backward;
  std::string target = "2.5";  // of backward / forward; torch has 1 to 2.5
};

OpCase elementwise(const std::string& op) {
  return {op + " of [512, 1024]",
          {{"x", {512, 1024}, "dp:S(0)"}, {"dy", {512, 1024}, "dp:S(0)"}},
          "y = " + op + "(x)",
          "gx = grad(y, x, with=dy)"};
}

OpCase norm(const std::string& op, bool bias, DType dtype) {
  OpCase work{fmt::format("{} of [512, 1024] {}", op, name(dtype)),
              {{"x", {512, 1024}, "dp:S(0)", dtype},
               {"dy", {512, 1024}, "dp:S(0)", dtype},
               {"w", {1024}, "dp:R", dtype}},
              "y = " + op + "(x, w)",
              "gx, gw = grad(y, [x, w], with=dy)"};
  if (!bias) return work;
  work.inputs.push_back({"b", {1024}, "dp:R", dtype});
  work.forward = "y = " + op + "(x, weight=w, bias=b)";
  work.backward = "gx, gw, gb = grad(y, [x, w, b], with=dy)";
  return work;
}

OpCase loss(const std::string& op, DType dtype) {
  return {fmt::format("{} of [256, 8192] {}", op, name(dtype)),
          {{"x", {256, 8192}, "dp:S(0)", dtype}, {"t", {256}, "dp:S(0)", DType::i64, 8192}},
          "y = " + op + "(x, t)",
          "gx = grad(y, x)"};
}

OpCase attention(DType dtype, bool causal) {
  const Dims shape{4, 4, 256, 64};
  std::vector<Input> inputs;
  for (const char* input : {"q", "k", "v", "dy"})
    inputs.push_back({input, shape, "dp:S(0)", dtype});
  return {fmt::format("sdpa of [4, 4, 256, 64] {}{}", name(dtype), causal ? " causal" : ""), inputs,
          fmt::format("y = sdpa(q, k, v, causal={})", causal),
          "gq, gk, gv = grad(y, [q, k, v], with=dy)"};
}

std::map<std::string, OpCase> works() {
  std::map<std::string, OpCase> all;
  for (const char* op : {"gelu", "silu"}) all[op] = elementwise(op);
  all["layer_norm"] = norm("layer_norm", true, DType::f32);
  all["layer_norm_bf16"] = norm("layer_norm", true, DType::bf16);
  all["rms_norm"] = norm("rms_norm", false, DType::f32);
  all["cross_entropy"] = loss("cross_entropy", DType::f32);
  all["cross_entropy_bf16"] = loss("cross_entropy", DType::bf16);
  all["nll_loss"] = loss("nll_loss", DType::f32);
  all["nll_loss"].target = "";  // forward reads one number a row, backward writes all
  all["sdpa"] = attention(DType::f32, false);
  all["sdpa_causal"] = attention(DType::f32, true);
  all["sdpa_bf16"] = attention(DType::bf16, false);
  all["embedding"] = {"embedding of 4096 ids in [8192, 256]",
                      {{"ids", {4096}, "dp:S(0)", DType::i64, 8192},
                       {"w", {8192, 256}, "dp:R"},
                       {"dy", {4096, 256}, "dp:S(0)"}},
                      "y = embedding(ids, w)",
                      "gw = grad(y, w, with=dy)"};
  all["conv2d"] = {"conv2d of [8, 16, 32, 32] by [32, 16, 3, 3]",
                   {{"x", {8, 16, 32, 32}, "dp:S(0)"},
                    {"w", {32, 16, 3, 3}, "dp:R"},
                    {"b", {32}, "dp:R"},
                    {"dy", {8, 32, 32, 32}, "dp:S(0)"}},
                   "y = conv2d(x, w, b, padding=1)",
                   "gx, gw, gb = grad(y, [x, w, b], with=dy)"};
  all["scatter"] = {"scatter_along_dim of [512, 1024] into [512, 4096]",
                    {{"x", {512, 4096}, "dp:S(0)"},
                     {"i", {512, 1024}, "dp:S(0)", DType::i64, 4096},
                     {"s", {512, 1024}, "dp:S(0)"},
                     {"dy", {512, 4096}, "dp:S(0)"}},
                    "y = scatter_along_dim(x, 1, i, src=s, reduce='add')",
                    "gx, gs = grad(y, [x, s], with=dy)"};
  return all;
}

Tensor drawn(const Input& input) {
  Tensor tensor = Tensor::empty(input.dtype, input.shape);
  std::byte* to = tensor.mutate();
  for (int64_t i = 0; i < tensor.elements(); ++i, to += size_of(input.dtype)) {
    const int64_t draw = i * 7919 % 1013;
    store_f64(to, input.dtype,
              input.integers > 0 ? static_cast<double>(draw * 31 % input.integers)
                                 : static_cast<double>(draw - 506) / 256);
  }
  return tensor;
}

// A lowered program with split inputs, prepared once for all repetitions.
struct Program {
  Registries registries{builtin_ops(), builtin_backends()};
  int64_t ranks;
  LoweredJob lowered;
  std::vector<LocalTensor> inputs;

  Program(const OpCase& work, int64_t ranks, bool with_grad) : ranks(ranks) {
    Job job;
    job.world = ranks;
    const Mesh mesh = Mesh::make({{"dp", ranks}});
    job.meshes = {{"", mesh}};
    for (const Input& input : work.inputs) {
      const Spec spec = Spec::parse(input.placements, mesh, input.shape, input.dtype);
      const Tensor data = drawn(input);
      job.inputs.push_back({input.name, spec, mesh.ranks(), data});
      inputs.push_back(split(data, spec));
    }
    std::vector<std::string> lines{work.forward};
    if (with_grad) lines.push_back(work.backward);
    job.ranks = {{mesh.ranks(), parse_listing(lines), "/ranks/all"}};
    lowered = lower_job(job, registries);
  }

  // Returns the peak memory of a rank.
  int64_t run() const {
    WorldOptions options;
    options.ranks = ranks;
    const std::unique_ptr<World> world = local_world(options);
    Executor executor(lowered.program, registries.ops, *world, {});
    executor.start({Lanes::range(0, ranks)}, inputs);
    SP_CHECK(executor.run(), "the program blocks");
    const WorldReport report = world->close();
    SP_CHECK(report.findings.empty(), "the program is wrong");
    return report.peak_bytes;
  }
};

void print_work(const OpCase& work) {
  for (const int64_t ranks : {int64_t{1}, kRanks}) {
    const Program forward(work, ranks, false), both(work, ranks, true);
    const std::vector<double> s = race({{[&] { forward.run(); }, 2}, {[&] { both.run(); }, 1}}, 7);
    print({fmt::format("{}, {} rank{}: backward", work.text, ranks, ranks == 1 ? "" : "s"),
           milliseconds(s[1] - s[0]), "forward: " + milliseconds(s[0]),
           fmt::format("{:.2f}", (s[1] - s[0]) / s[0]), work.target});
    if (ranks > 1) continue;
    const int64_t before = forward.run(), with_grad = both.run();
    print({work.text + ": peak memory with grad", megabytes(with_grad),
           "forward: " + megabytes(before),
           fmt::format("{:.2f}", static_cast<double>(with_grad) / static_cast<double>(before)),
           ""});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, OpCase> all = works();
  print_head();
  for (const auto& [op, work] : all)
    if (argc < 2 || op == argv[1]) print_work(work);
}
