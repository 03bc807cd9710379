// The law of partition: for every op, every sample and any placements of its inputs, what the ranks
// compute is what one device computes, within the bound derived from the op record.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "shardproof/localtensor/error.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/ops/run_op.h"

namespace shardproof::testing {
namespace {

constexpr unsigned kSeed = 20240613;
constexpr int kDraws = 16;  // of each op, sample and mesh

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

// Partials that reduce without rounding, before and after the op: whole numbers in wide dtypes, and
// no averages of integers. Elsewhere the parts of a partial are larger than the value that the
// bound speaks of.
bool sums_exactly(const TensorMeta& meta, const Tensor& data) {
  if (!is_integral(meta.dtype) && (!is_floating(meta.dtype) || size_of(meta.dtype) < 4))
    return false;
  const std::vector<double> values = values_of(data);
  return std::all_of(values.begin(), values.end(),
                     [](double v) { return v == std::floor(v) && std::abs(v) < 1024; });
}

Placement any_placement(Draw& draw, const TensorMeta& meta, const Tensor& data, int64_t axis_size) {
  const int64_t kind = draw.below(6);
  if (kind < 3 && meta.shape.size() > 0) return shard_of(draw, meta, axis_size);
  if (kind < 5 && sums_exactly(meta, data)) {
    static constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min};
    const ReduceOp op = kOps[draw.below(std::size(kOps))];
    const bool rounds = op == ReduceOp::avg && is_integral(meta.dtype);
    if (!rounds && reduction_allowed(op, meta.dtype)) return P(op);
  }
  return R();
}

// Explicit sizes that do not fit what an outer axis leaves, and mixed partials, are refused: drawn
// again.
Spec any_spec(Draw& draw, const TensorMeta& meta, const Tensor& data, const Mesh& mesh) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    std::vector<Placement> placements;
    for (const MeshAxis& axis : mesh.axes())
      placements.push_back(any_placement(draw, meta, data, axis.size));
    try {
      return Spec(mesh, placements, meta.shape, meta.dtype);
    } catch (const Error&) {
    }
  }
  return Spec::replicated(mesh, meta.shape, meta.dtype);
}

std::string text_of(const OpRecord& record, const OpInstance& instance,
                    const std::vector<GlobalInput>& inputs) {
  std::string text = record.name + "(" + to_string(instance.attrs) + ")";
  for (const GlobalInput& input : inputs)
    if (!input.meta.absent && !input.meta.weak) text += "\n    in  " + to_string(input.spec);
  return text;
}

struct Totals {
  int64_t combos = 0, compared = 0, without_calls = 0;
  std::map<std::string, int64_t> forms;
};
Totals& totals() {
  static Totals all;
  return all;
}

class PartitionLaw : public ::testing::TestWithParam<std::string> {};

TEST_P(PartitionLaw, RanksComputeWhatOneDeviceComputes) {
  const OpRecord& record = builtin_registries().ops.at(GetParam());
  std::vector<std::string> failures;
  int64_t combos = 0;
  unsigned seed = kSeed;
  for (const Sample& sample : record.samples()) {
    const OpInstance instance = instance_of(record, sample, 17);
    for (const char* text : {"tp=2", "tp=3", "dp=2, tp=2", "dp=2, tp=3"}) {
      const Mesh mesh = Mesh::parse(text);
      Draw draw(seed++);
      for (int i = 0; i < (mesh.size() == 6 ? kDraws / 3 : kDraws); ++i) {
        std::vector<GlobalInput> inputs;
        for (size_t k = 0; k < instance.inputs.size(); ++k) {
          const TensorMeta& meta = instance.inputs[k];
          inputs.push_back({meta, instance.tensors[k], {}});
          if (!meta.absent && !meta.weak)
            inputs.back().spec = any_spec(draw, meta, instance.tensors[k], mesh);
        }
        ++combos;
        try {
          const GlobalRun run = run_one_op(record, instance.attrs, inputs, mesh);
          for (const std::string& form : run.forms) ++totals().forms[form];
          totals().without_calls += run.calls.empty();
          totals().compared += run.values_compared;
          // The parts of a partial result may be larger than the value whose bound this is.
          const bool parts = std::any_of(run.output_specs.begin(), run.output_specs.end(),
                                         [](const Spec& spec) { return spec.has_partial(); });
          if (!run.trouble.empty() && (run.exact || !parts))
            failures.push_back(text_of(record, instance, inputs) + "\n    " + run.trouble);
        } catch (const Error& error) {
          failures.push_back(text_of(record, instance, inputs) +
                             "\n    refused: " + error.message());
        }
      }
    }
  }
  totals().combos += combos;
  for (size_t i = 0; i < std::min<size_t>(5, failures.size()); ++i) ADD_FAILURE() << failures[i];
  EXPECT_TRUE(failures.empty()) << failures.size() << " of " << combos << " (seed " << kSeed << ")";
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpRecord* record : builtin_registries().ops.all()) names.push_back(record->name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(AllOps, PartitionLaw, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

// After all ops: what the draws have covered.
TEST(PartitionLawTotals, EveryFormHasRun) {
  if (totals().combos < 1000) GTEST_SKIP() << "only a part of the ops has run";
  std::printf("partition law: %lld combinations, %lld values compared, %lld without a call\n",
              static_cast<long long>(totals().combos), static_cast<long long>(totals().compared),
              static_cast<long long>(totals().without_calls));
  for (const char* form : {"same", "attrs", "shard", "lower"}) {
    std::printf("  %s %lld\n", form, static_cast<long long>(totals().forms[form]));
    EXPECT_GT(totals().forms[form], 0) << form;
  }
  EXPECT_GT(totals().compared, totals().combos / 2);
}

// Ops along a cut dim whose whole never needs to lie on one rank.
struct Thrifty {
  const char* line;
  Dims shape;
};
void PrintTo(const Thrifty& thrifty, std::ostream* out) { *out << thrifty.line; }
class NoGather : public ::testing::TestWithParam<Thrifty> {};
TEST_P(NoGather, AlongTheCutDim) {
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

}  // namespace
}  // namespace shardproof::testing
