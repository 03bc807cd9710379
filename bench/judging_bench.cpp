// Measures the cost of judging: a program with every value compared, and the same program unjudged,
// in one process (docs/judging.md). The MLP has two rows. One measures its runs alone, with
// lowering and splitting done before, as for the unjudged run. The other measures a whole call of
// `check`, which includes both. The Adam steps have a row for the whole call.
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/bench/measure.h"
#include "shardproof/engine/check/check.h"
#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/execute/executor.h"
#include "shardproof/engine/job/job.h"
#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/engine/judging/own_dtype_judge.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/localtensor/split/split.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

enum class Fill { ints, normal };

Tensor filled(const Dims& shape, Fill fill, uint64_t stream) {
  const Rng random(1, stream);
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = fill == Fill::ints ? static_cast<double>(i * 7 % 9) - 4 : 0.1 * random.normal(i);
  return tensor_of(DType::f32, shape, values);
}

void add_input(Job& job, const char* name, const Dims& shape, const char* placements, Fill fill) {
  const Mesh& mesh = job.meshes.front().second;
  const Spec spec = Spec::parse(placements, mesh, shape, DType::f32);
  job.inputs.push_back({name, spec, mesh.ranks(), filled(shape, fill, job.inputs.size())});
}

Job job_on(const char* axis, int64_t ranks) {
  Job job;
  job.world = ranks;
  job.meshes = {{"", Mesh::make({{axis, ranks}})}};
  return job;
}

// Returns the MLP of executor_bench as a global program, all lines of which are compared.
Job mlp(int64_t ranks, Fill fill) {
  Job job = job_on("tp", ranks);
  add_input(job, "x", {16, 256}, "R", fill);
  add_input(job, "w1", {256, 1024}, "tp:S(1)", fill);
  add_input(job, "w2", {1024, 256}, "tp:S(0)", fill);
  const char* activation = fill == Fill::ints ? "relu" : "gelu";
  job.program = parse_listing(
      {fmt::format("h = {}(x @ w1)", activation), "y = h @ w2", "z = redistribute(y, tp:R)"});
  return job;
}

// Returns ten data-parallel steps of Adam on a two-layer MLP, written by hand, with 5 outputs each.
Job adam(int64_t ranks) {
  constexpr int kSteps = 10;
  Job job = job_on("dp", ranks);
  add_input(job, "x", {256, 64}, "dp:S(0)", Fill::normal);
  add_input(job, "t", {256, 64}, "dp:S(0)", Fill::normal);
  for (const char* name : {"w1", "w2", "m1", "v1", "m2", "v2"})
    add_input(job, name, {64, 64}, "R", Fill::normal);
  for (size_t i = 4; i < 8; ++i)
    job.inputs[i].data = tensor_of(DType::f32, {64, 64}, std::vector<double>(4096, 0));
  const auto lines = [](const std::string& g1, const std::string& g2, const std::string& loss) {
    return std::vector<std::string>{"for s in range(0, 10):",
                                    "  a = x @ w1",
                                    "  h = tanh(a)",
                                    "  e = h @ w2 - t",
                                    loss,
                                    "  d = e / 8192",
                                    g2,
                                    g1,
                                    "  m1 = 0.9 * m1 + 0.1 * g1",
                                    "  v1 = 0.999 * v1 + 0.001 * g1 * g1",
                                    "  m2 = 0.9 * m2 + 0.1 * g2",
                                    "  v2 = 0.999 * v2 + 0.001 * g2 * g2",
                                    "  w1 = w1 - 0.01 * (m1 / (1 - 0.9 ** (s + 1))) / "
                                    "(sqrt(v1 / (1 - 0.999 ** (s + 1))) + 1e-8)",
                                    "  w2 = w2 - 0.01 * (m2 / (1 - 0.9 ** (s + 1))) / "
                                    "(sqrt(v2 / (1 - 0.999 ** (s + 1))) + 1e-8)",
                                    "  loss_{s} = l * 1",
                                    "  w1_{s} = w1 * 1",
                                    "  w2_{s} = w2 * 1",
                                    "  m1_{s} = m1 * 1",
                                    "  m2_{s} = m2 * 1"};
  };
  const std::string back = "transpose(x, 0, 1) @ ((d @ transpose(w2, 0, 1)) * (1 - h * h))";
  job.truth = parse_listing(
      lines("  g1 = " + back, "  g2 = transpose(h, 0, 1) @ d", "  l = sum(e * e) / 16384"));
  job.ranks = {{job.meshes.front().second.ranks(),
                parse_listing(lines("  g1 = all_reduce(" + back + ", sum)",
                                    "  g2 = all_reduce(transpose(h, 0, 1) @ d, sum)",
                                    "  l = all_reduce(sum(e * e) / 16384, sum)")),
                "/ranks/all"}};
  for (int step = 0; step < kSteps; ++step)
    for (const char* name : {"loss", "w1", "w2", "m1", "m2"})
      job.outputs.push_back({fmt::format("{}_{}", name, step), "R", "", {}, ""});
  return job;
}

// A job with its ranks prepared to run alone.
class Case {
 public:
  explicit Case(Job made) : job_(std::move(made)), lowered_(lower_job(job_, registries_)) {
    for (const JobInput& input : job_.inputs) inputs_.push_back(split(input.data, input.spec));
  }
  void run_unjudged() const {
    WorldOptions options;
    options.ranks = job_.world;
    const std::unique_ptr<World> world = local_world(options);
    Executor executor(lowered_.program, registries_.ops, *world, {});
    executor.start({Lanes::range(0, job_.world)}, inputs_);
    SP_CHECK(executor.run(), "the program blocks");
    world->close();
  }
  // Runs ranks and one device in the program's own dtypes, and in f64 if the judge needs it, as
  // `check` does. The second run begins with values of the first.
  void run_prepared() const {
    OwnDtypeJudge::Options options;
    options.lifted = [this]() -> const EvaluationPlan& { return lifted_->plan; };
    OwnDtypeJudge own(options);
    std::map<ValueId, LocalTensor> results;
    prepared_->run(own, {.results_by_rule = &results});
    if (own.all_equal() && !own.may_be_rounded()) return;
    F64Judge::Options in_f64;
    in_f64.own = prepared_->reference();
    F64Judge judge(in_f64);
    prepared_->lifted_without_lines_by_rule(results, own.equal())->run(judge, {});
    judge.settle();
    SP_CHECK(judge.found().empty(), "{} is wrong", judge.found().front().label.name);
  }
  void run_judged() const {
    const Outcome outcome = check(job_, registries_);
    SP_CHECK(outcome.findings.empty(), "{}", outcome.findings.front().headline);
    SP_CHECK(outcome.values_compared > 0, "nothing was compared");
  }

 private:
  Registries registries_{builtin_ops(), builtin_backends()};
  Job job_;
  LoweredJob lowered_;
  std::unique_ptr<JudgedProgram> prepared_ = JudgedProgram::make(job_, registries_);
  std::unique_ptr<LiftedReference> lifted_ = prepared_->lifted_reference();
  std::vector<LocalTensor> inputs_;
};

void print_mlp(const char* name, Fill fill, const char* target) {
  const Case one(mlp(256, fill));
  const std::vector<double> s = race({{[&] { one.run_unjudged(); }, 5},
                                      {[&] { one.run_prepared(); }, 5},
                                      {[&] { one.run_judged(); }, 5}},
                                     61);
  const std::string unjudged = "unjudged: " + milliseconds(s[0]);
  print({fmt::format("MLP forward, 256 ranks, {}: its runs", name), milliseconds(s[1]), unjudged,
         fmt::format("{:.1f}", s[1] / s[0]), target});
  print({fmt::format("MLP forward, 256 ranks, {}: `check`", name), milliseconds(s[2]), unjudged,
         fmt::format("{:.1f}", s[2] / s[0]), target});
}

void print_adam(int64_t ranks, const char* target) {
  const Case steps(adam(ranks));
  const std::vector<double> s =
      race({{[&] { steps.run_unjudged(); }, 1}, {[&] { steps.run_judged(); }, 1}}, 5);
  print({fmt::format("ten Adam steps by hand, dp={}, 50 outputs", ranks), milliseconds(s[1]),
         "unjudged: " + milliseconds(s[0]), fmt::format("{:.1f}", s[1] / s[0]), target});
  print({"  peak memory of all of the above", fmt::format("{} MB", peak_bytes() / 1'000'000), "",
         "", ranks == 4 ? "100 MB" : "200 MB"});
}

}  // namespace

int main() {
  print_head();
  print_mlp("all values equal", Fill::ints, "2.5");
  print_mlp("judged in f64", Fill::normal, "7");
  print_adam(4, "0.3 s");
  print_adam(64, "0.6 s");
}
