// Tests the law of partition: for every op, every sample and any placements of its inputs, the
// ranks compute what one device computes. It is tested in the sample's dtypes and with all floats
// in f64.
#include <gtest/gtest.h>

#include <cstdio>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "shardproof/engine/check/check.h"
#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::testing::partition_law_test {
namespace {

constexpr unsigned kSeed = 20240613;
// Draws for each op, sample and mesh. An op of many samples gets many placements with few draws.
constexpr int kDraws = 16, kDrawsOfMany = 4;
constexpr size_t kMany = 5;
constexpr const char* kMeshes[] = {"tp=2", "tp=3", "dp=2, tp=2", "dp=2, tp=3"};
// With few draws, one of twenty runs. These may not reach every form of an op.
constexpr int kDrawsForEachRun = kFewDraws ? 20 : 1;

class Draw {
 public:
  explicit Draw(unsigned seed) : bits_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(bits_() % static_cast<uint32_t>(n)); }

 private:
  std::mt19937 bits_;
};

Placement shard_of(Draw& draw, const TensorMeta& meta, int64_t axis_size) {
  const int dim = static_cast<int>(draw.below(meta.shape.size()));
  const int64_t kind = draw.below(6);
  if (kind == 0) return S(dim, 2);
  if (kind > 1) return S(dim);
  Shard shard{dim, 1, {}};
  int64_t rest = meta.shape[dim];
  for (int64_t i = 0; i < axis_size; ++i) {
    shard.sizes.push_back(i + 1 == axis_size ? rest : draw.below(rest + 1));
    rest -= shard.sizes.back();
  }
  return shard;
}

Placement any_placement(Draw& draw, const TensorMeta& meta, int64_t axis_size) {
  const int64_t kind = draw.below(6);
  if (kind < 3 && meta.shape.size() > 0) return shard_of(draw, meta, axis_size);
  if (kind < 5) {
    static constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min};
    const ReduceOp op = kOps[draw.below(std::size(kOps))];
    // An average of integers rounds.
    const bool rounds = op == ReduceOp::avg && is_integral(meta.dtype);
    if (!rounds && is_reduction_allowed(op, meta.dtype)) return P(op);
  }
  return R();
}

// Draws placements again if they are not legal: explicit sizes that do not fit the part of an outer
// axis, or mixed partials.
Spec any_spec(Draw& draw, const TensorMeta& meta, const Mesh& mesh) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    std::vector<Placement> placements;
    for (const MeshAxis& axis : mesh.axes())
      placements.push_back(any_placement(draw, meta, axis.size));
    try {
      return Spec(mesh, placements, meta.shape, meta.dtype);
    } catch (const Error&) {
    }
  }
  return Spec::replicated(mesh, meta.shape, meta.dtype);
}

// Counts of the combinations of one op, by the form in which it ran.
struct Count {
  int64_t combos = 0, compared = 0, without_calls = 0;
  std::map<std::string, int64_t> forms;
  void add(const Count& other) {
    combos += other.combos;
    compared += other.compared;
    without_calls += other.without_calls;
    for (const auto& [form, count] : other.forms) forms[form] += count;
  }
  void print(const std::string& what) const {
    std::printf("  %s: %lld combinations, %lld without a call;", what.c_str(),
                static_cast<long long>(combos), static_cast<long long>(without_calls));
    for (const auto& [form, count] : forms)
      std::printf(" %s %lld", form.c_str(), static_cast<long long>(count));
    std::printf("\n");
  }
};

// Prints the sum over the ops that have run, after all of them.
class AllOfThem : public ::testing::Environment {
 public:
  static Count& count() {
    static Count all;
    return all;
  }
  void TearDown() override {
    if (count().combos > 0) count().print("all ops");
  }
};
[[maybe_unused]] const ::testing::Environment* const kAllOfThem =
    ::testing::AddGlobalTestEnvironment(new AllOfThem);

const char* text_of(LocalExecution form) {
  switch (form) {
    case LocalExecution::same_op: return "same";
    case LocalExecution::local_attrs: return "attrs";
    case LocalExecution::needs_shard_index: return "shard";
    case LocalExecution::lower_to_ops: return "lower";
  }
  return "";
}

// True if some input is not replicated. A strategy whose inputs are all whole is taken for the
// placements of its result, which no draw states.
bool takes_parts(const Strategy& strategy) {
  return std::any_of(strategy.inputs.begin(), strategy.inputs.end(),
                     [](const Placement& p) { return !p.is_replicate(); });
}

// Returns the forms that the rule of an op names for this call. Without a tensor there are no
// shards, so the result is made whole.
void add_declared(const OpRecord& record, const OpCall& call, std::set<std::string>& forms) {
  if (record.is_composite(call)) {
    forms.insert("lower");
    return;
  }
  const bool tensors = std::any_of(call.inputs.begin(), call.inputs.end(),
                                   [](const TensorMeta& m) { return !m.absent && !m.weak; });
  if (!tensors) return;
  const std::vector<TensorMeta> outputs = record.infer(call);
  if (record.rule.strategies)
    for (const Strategy& strategy : record.rule.strategies(call, outputs, 2))
      if (takes_parts(strategy)) forms.insert(text_of(strategy.form));
  if (record.rule.joint) forms.insert(text_of(record.rule.joint_form));
}

class PartitionLaw : public ::testing::TestWithParam<std::string> {
 protected:
  // A refusal is a failure.
  void run(const OpInstance& instance, const Mesh& mesh, Draw& draw) {
    std::vector<GlobalInput> inputs;
    for (size_t k = 0; k < instance.inputs.size(); ++k) {
      const TensorMeta& meta = instance.inputs[k];
      inputs.push_back({meta, instance.tensors[k], {}});
      if (!meta.absent && !meta.weak) inputs.back().spec = any_spec(draw, meta, mesh);
    }
    if (drawn_++ % kDrawsForEachRun != 0) return;
    ++count_.combos;
    const OpRecord& record = *instance.record;
    try {
      const GlobalRun ran = run_one_op(record, instance.attrs, inputs, mesh);
      for (const std::string& form : ran.forms) ++count_.forms[form];
      count_.without_calls += ran.calls.empty();
      count_.compared += ran.values_compared;
      if (!ran.error.empty())
        failures_.push_back(text_of(record, instance, inputs) + "\n    " + ran.error);
    } catch (const Error& error) {
      failures_.push_back(text_of(record, instance, inputs) + "\n    refused: " + error.message());
    }
  }
  using Failures = std::vector<std::string>;
  Count count_;
  Failures failures_;
  int64_t drawn_ = 0;

  static std::string text_of(const OpRecord& record, const OpInstance& instance,
                             const std::vector<GlobalInput>& inputs) {
    std::string text = record.name + "(" + to_string(instance.attrs) + ")";
    for (const GlobalInput& input : inputs)
      if (!input.meta.absent && !input.meta.weak) text += "\n    in  " + to_string(input.spec);
    return text;
  }
};

TEST_P(PartitionLaw, Ranks_WithAnyPlacements_ComputeWhatOneDeviceComputes) {
  const OpRecord& record = builtin_registries().ops.at(GetParam());
  std::set<std::string> declared;
  unsigned seed = kSeed;
  const std::vector<Sample> samples = record.samples();
  const int draws = samples.size() < kMany ? kDraws : kDrawsOfMany;
  for (const Sample& sample : samples) {
    const OpInstance instance = instance_of(record, sample, 17);
    add_declared(record, instance.call(), declared);
    for (const char* text : kMeshes) {
      const Mesh mesh = Mesh::parse(text);
      Draw draw(seed++);
      for (int i = 0; i < (mesh.size() == 6 ? draws / 3 : draws); ++i) run(instance, mesh, draw);
    }
  }
  for (size_t i = 0; i < std::min<size_t>(5, failures_.size()); ++i) ADD_FAILURE() << failures_[i];
  EXPECT_TRUE(failures_.empty()) << failures_.size() << " of " << count_.combos << " (seed "
                                 << kSeed << ")";
  for (const std::string& form : declared) {
    if (kDrawsForEachRun > 1) break;
    EXPECT_GT(count_.forms[form], 0)
        << record.name << " declares the form " << form << ", and no draw has reached it";
  }
  EXPECT_GT(count_.compared, count_.combos / 2);
  count_.print(record.name);
  AllOfThem::count().add(count_);
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpRecord* record : builtin_registries().ops.all()) names.push_back(record->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(AllOps, PartitionLaw, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

// A wrong claim must be found, because the same error in a rule would look like it.
TEST(WrongClaim, ComparedWithOneDevice_IsFound) {
  for (const char* line : {"y0 = sum(x, dim=1) as tp:R", "y0 = sum(x, dim=1) as tp:P(avg)",
                           "y0 = (x @ w) as tp:R", "y0 = softmax(x, dim=1) as tp:S(1)"}) {
    Job job = job_of("tp=2", {line});
    add_input(job, "x", Dims{4, 6}, "tp:S(1)");
    add_input(job, "w", Dims{6, 5}, "tp:S(0)");
    EXPECT_NE(run_lines(job).error, "") << line;
  }
  for (const char* line : {"y0 = sum(x, dim=1) as tp:P(sum)", "y0 = (x @ w) as tp:P(sum)"}) {
    Job job = job_of("tp=2", {line});
    add_input(job, "x", Dims{4, 6}, "tp:S(1)");
    add_input(job, "w", Dims{6, 5}, "tp:S(0)");
    EXPECT_EQ(run_lines(job).error, "") << line;
  }
}

// Parts of a sum over any other number add up to the quotient; over 0 they add up to NaN.
TEST(QuotientOfPartialSum, ByNumberZero_IsReducedBefore) {
  Job job = job_of("tp=3", {"h = x / 2", "q = x / 0", "z = x / (0 * 1.5)"});
  add_input(job, "x", Dims{4, 6}, "tp:P(sum)");
  const Outcome outcome = check(job, builtin_registries());
  EXPECT_TRUE(outcome.findings.empty()) << to_string(outcome.findings.at(0));
  EXPECT_TRUE(outcome.values.at("h").spec->has_partial());
  EXPECT_FALSE(outcome.values.at("q").spec->has_partial());
  EXPECT_FALSE(outcome.values.at("z").spec->has_partial());
}

// Ops along a cut dim that never need the whole value on one rank.
struct Thrifty {
  const char* line;
  Dims shape;
};
void PrintTo(const Thrifty& thrifty, std::ostream* out) { *out << thrifty.line; }
class NoGather : public ::testing::TestWithParam<Thrifty> {};
TEST_P(NoGather, Op_AlongTheCutDim_GathersNothing) {
  for (const char* placements : {"tp:S(1)", "tp:S(1, sizes=[0, 300, 7])", "tp:S(1, split=2)"}) {
    Job job = job_of("tp=3", {GetParam().line});
    add_input(job, "x", GetParam().shape, placements);
    add_input(job, "g", Dims{307}, "");
    job.inputs.push_back({"labels", Spec::replicated(job.meshes[0].second, Dims{4}, DType::i64),
                          job.meshes[0].second.ranks(),
                          tensor_of(DType::i64, Dims{4}, {6, 0, 3, 5}), Category::activations});
    const Outcome outcome = check(job, builtin_registries());
    EXPECT_TRUE(outcome.findings.empty()) << placements << to_string(outcome.findings.at(0));
    for (const CallCount& call : outcome.calls) {
      EXPECT_NE(call.kind, "all_gather") << GetParam().line << " " << placements;
      EXPECT_NE(call.kind, "all_to_all") << GetParam().line << " " << placements;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(ByHand, NoGather,
                         ::testing::Values(Thrifty{"y = softmax(x, dim=-1)", {4, 307}},
                                           Thrifty{"y = log_softmax(x, dim=-1)", {4, 307}},
                                           Thrifty{"y = logsumexp(x, dim=-1)", {4, 307}},
                                           Thrifty{"y = mean(x, dim=-1)", {4, 307}},
                                           Thrifty{"y = mean(x)", {4, 307}},
                                           Thrifty{"y = var(x, dim=-1)", {4, 307}},
                                           Thrifty{"y = sum(x, dim=-1)", {4, 307}},
                                           Thrifty{"y = amax(x, dim=-1)", {4, 307}},
                                           Thrifty{"y = layer_norm(x)", {4, 307}},
                                           Thrifty{"y = cross_entropy(x, labels)", {4, 307}},
                                           Thrifty{"y = rms_norm(x, g)", {4, 307}}));

// An input that an op takes twice is redistributed once.
TEST(SameInputTwice, Redistribution_IsMadeOnce) {
  const std::pair<const char*, const char*> cases[] = {{"y = cat([x, x], dim=1)", "tp:S(1)"},
                                                       {"y = x * x", "tp:P(sum)"},
                                                       {"y = maximum(x, x)", "tp:P(sum)"}};
  for (const auto& [line, placements] : cases) {
    Job job = job_of("tp=3", {line});
    add_input(job, "x", Dims{4, 7}, placements);
    const Outcome outcome = check(job, builtin_registries());
    EXPECT_TRUE(outcome.findings.empty()) << line;
    int64_t calls = 0;
    for (const CallCount& call : outcome.calls) calls += call.count;
    EXPECT_EQ(calls, 1) << line;
  }
}

// An axis of one rank changes neither calls nor bytes, and is not searched. A gradient with many
// choices on two axes is partitioned on three more axes.
TEST(AxesOfOneRank, Program_MakesTheSameCalls) {
  const auto calls_on = [](const std::string& mesh, const std::string& x, const std::string& w) {
    Job job = job_of(mesh, {"y = conv2d(x, w)", "loss = sum(tanh(y))",
                            "gx, gw = grad(loss, [x, w])", "z = softmax(gx, dim=1)"});
    add_input(job, "x", Dims{2, 4, 6, 5}, x);
    add_input(job, "w", Dims{4, 4, 3, 3}, w);
    const Outcome outcome = check(job, builtin_registries());
    EXPECT_TRUE(outcome.findings.empty()) << to_string(outcome.findings.at(0));
    std::map<std::string, std::pair<int64_t, Fraction>> calls;
    for (const CallCount& call : outcome.calls) {
      auto& [count, bytes] = calls[call.kind + " " + call.group];
      count += call.count * call.lanes.size();
      bytes = bytes + call.bytes * call.lanes.size();
    }
    return calls;
  };
  const std::string x = "a:S(1, split=2) b:P(max)", w = "a:S(0)";
  const auto calls = calls_on("a=2, b=3", x, w);
  EXPECT_FALSE(calls.empty());
  EXPECT_EQ(calls_on("a=2, b=3, c=1, d=1, e=1", x, w), calls);
  EXPECT_EQ(calls_on("c=1, a=2, d=1, b=3", x, w), calls);
  // Placements on axes of one rank may decide between choices of one price.
  EXPECT_FALSE(calls_on("c=1, a=2, d=1, b=3", "c:S(2) d:S(1) " + x, "d:S(1) " + w).empty());
}

}  // namespace
}  // namespace shardproof::testing::partition_law_test
