// The law of rules (check_strategies.h) for all ops, samples, strategies and pairs of strategies on
// two axes. It runs in the sample's own dtypes, and with all floats in f64, where only a wrong rule
// differs by more than a rounding. Rules that are made wrong on purpose must fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "shardproof/ops/core/run_single_device.h"
#include "shardproof/tests/ops/agreement.h"
#include "shardproof/tests/ops/check_strategies.h"

namespace shardproof::testing {
namespace {

constexpr size_t kShownFailures = 10;
constexpr uint64_t kSeed = 17;

void check_meshes(StrategyChecker& checker, const OpInstance& instance) {
  const Mesh two = Mesh::parse("a=2"), three = Mesh::parse("a=3"), four = Mesh::parse("a=2, b=2");
  checker.check(instance, two, {{}});
  checker.check(instance, two, {{2, {}}});
  checker.check(instance, two, {{1, {1, 100}}});
  checker.check(instance, three, {{}});
  checker.check(instance, three, {{1, {0, 100, 0}}});
  checker.check(instance, three, {{1, {2, 0, 100}}});
  checker.check(instance, four, {{}, {}});
  checker.check(instance, four, {{}, {2, {}}});
}

void check_samples(StrategyChecker& checker, const OpRecord& record) {
  for (const Sample& sample : record.samples()) {
    const OpInstance own = instance_of(record, sample, kSeed);
    if (record.is_composite(own.call())) continue;
    check_meshes(checker, own);
    if (const auto wide = in_f64(own)) check_meshes(checker, *wide);
  }
}

double largest_input(const OpInstance& instance) {
  double largest = 0;
  for (const Tensor& tensor : instance.tensors)
    if (tensor.buffer) largest = std::max(largest, largest_number(tensor));
  return largest;
}

class StrategyLaws : public ::testing::TestWithParam<std::string> {};

TEST_P(StrategyLaws, EveryStrategy_PartsMakeUpTheWhole) {
  const OpRegistry ops = builtin_ops();
  const OpRecord& record = ops.at(GetParam());
  EXPECT_FALSE(record.samples().empty()) << "an op without samples is an op without laws";
  StrategyChecker checker(ops, record);
  const auto start = std::chrono::steady_clock::now();
  check_samples(checker, record);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  RecordProperty("combos", std::to_string(checker.combos()));
  std::cout << "  " << record.name << ": " << checker.combos() << " combinations, "
            << static_cast<int64_t>(static_cast<double>(checker.combos()) / taken.count())
            << " a second\n";
  EXPECT_LE(checker.refused() * 20, checker.combos()) << "lowerings refused";
  for (size_t i = 0; i < std::min(kShownFailures, checker.failures().size()); ++i)
    ADD_FAILURE() << checker.failures()[i];
  EXPECT_TRUE(checker.failures().empty())
      << checker.failures().size() << " of " << checker.combos();
}

// One device computes the same in the sample's dtypes as in f64, except for rounding.
TEST_P(StrategyLaws, OwnDtypes_AreNearF64) {
  const OpRegistry ops = builtin_ops();
  const OpRecord& record = ops.at(GetParam());
  for (const Sample& sample : record.samples()) {
    const OpInstance own = instance_of(record, sample, kSeed);
    if (record.is_composite(own.call())) continue;
    const std::optional<OpInstance> wide = in_f64(own);
    if (!wide) continue;
    const std::vector<Tensor> got = run_once(record, own.call(), own.pointers());
    const std::vector<Tensor> want = run_once(record, wide->call(), wide->pointers());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(difference_in_value(got[i], want[i], largest_input(own)), "")
          << record.name << "(" << to_string(own.attrs) << "), output " << i;
  }
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  const OpRegistry ops = builtin_ops();
  // Composite ops have no strategies of their own.
  for (const OpRecord* record : ops.all())
    if (record->infer) names.push_back(record->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllOps, StrategyLaws, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

// Returns the number of failures of an op whose strategies `spoil` has changed, on one sample.
size_t failures_of(const std::string& name, const Sample& sample,
                   const std::function<void(Strategy&)>& spoil) {
  const OpRegistry ops = builtin_ops();
  OpRecord record = ops.at(name);
  record.rule.strategies = [honest = record.rule.strategies, spoil](
                               const OpCall& call, const std::vector<TensorMeta>& outputs,
                               int64_t axis_size) {
    std::vector<Strategy> strategies = honest(call, outputs, axis_size);
    for (Strategy& strategy : strategies) spoil(strategy);
    return strategies;
  };
  StrategyChecker checker(ops, record);
  check_meshes(checker, instance_of(record, sample, kSeed));
  return checker.failures().size();
}

void leave_as_it_is(Strategy&) {}

TEST(WrongRule, SumWhosePartsAreAveraged_IsFound) {
  const Sample sample{{{"dim", int64_t{0}}}, {{DType::f64, {6, 4}}}, {"uniform(-1, 1)"}};
  EXPECT_EQ(failures_of("sum", sample, leave_as_it_is), 0u);
  EXPECT_GT(failures_of("sum", sample,
                        [](Strategy& s) {
                          if (s.inputs[0].is_shard(0)) s.outputs[0] = P(ReduceOp::avg);
                        }),
            0u);
}

// Each rank's product covers only its own columns and rows.
TEST(WrongRule, ProductWhosePartsCountAsTheWhole_IsFound) {
  const Sample sample{
      {}, {{DType::f64, {4, 6}}, {DType::f64, {6, 5}}}, {"uniform(-1, 1)", "uniform(-1, 1)"}};
  EXPECT_EQ(failures_of("matmul", sample, leave_as_it_is), 0u);
  EXPECT_GT(failures_of("matmul", sample,
                        [](Strategy& s) {
                          if (s.inputs[0].is_shard(1)) s.outputs[0] = R();
                        }),
            0u);
}

// Each rank divides by the sum of its own shard.
TEST(WrongRule, SoftmaxOfEachShardAlone_IsFound) {
  const Sample sample{{{"dim", int64_t{-1}}}, {{DType::f64, {3, 6}}}, {"uniform(-4, 4)"}};
  EXPECT_EQ(failures_of("softmax", sample, leave_as_it_is), 0u);
  EXPECT_GT(failures_of("softmax", sample,
                        [](Strategy& s) {
                          if (s.form == LocalExecution::lower_to_ops)
                            s.form = LocalExecution::same_op;
                        }),
            0u);
}

// An error of 2^-30 of a term is found in f64; another order of additions is no failure.
TEST(WrongRule, SumThatMissesALittle_IsFound) {
  const Sample sample{{{"dim", int64_t{0}}}, {{DType::f64, {6, 4}}}, {"uniform(-1, 1)"}};
  const OpRegistry ops = builtin_ops();
  OpRecord record = ops.at("sum");
  const auto honest = record.prepare;
  record.prepare = [honest](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    Kernel kernel = honest(call, outputs);
    if (call.inputs[0].shape[0] == 6) return kernel;
    kernel.run = [run = kernel.run](const KernelCall& lanes) {
      run(lanes);
      const LaneView& out = lanes.outputs->front();
      for (int64_t lane = 0; lane < lanes.lanes; ++lane)
        reinterpret_cast<double*>(out.at(lane))[0] += 0x1p-30;
    };
    return kernel;
  };
  StrategyChecker checker(ops, record);
  check_meshes(checker, instance_of(record, sample, kSeed));
  EXPECT_FALSE(checker.failures().empty());
}

}  // namespace
}  // namespace shardproof::testing
