// The law of rules for all ops, with few draws (engine/check_ops/check_rules.h). The parts that
// ranks compute from their shards form the result of one device. Rules that are made wrong on
// purpose must fail.
#include <gtest/gtest.h>

#include <algorithm>

#include "shardproof/engine/check_ops/check_rules.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/run_single_device.h"
#include "shardproof/tests/few_draws.h"
#include "shardproof/tests/ops/agreement.h"

namespace shardproof::testing::strategy_laws {
namespace {

constexpr size_t kShownFailures = 10;
constexpr uint64_t kSeed = 17;

std::string text_of(const WrongClaim& wrong) {
  std::string text = wrong.instance.record->name + "(" + to_string(wrong.instance.attrs) + ")";
  for (const Spec& spec : wrong.claim.inputs) text += "\n    in  " + to_string(spec);
  for (const Spec& spec : wrong.claim.placed.outputs) text += "\n    out " + to_string(spec);
  const Disagreement& first = wrong.answer.first;
  text += fmt::format("\n    {} output {}, position {}: parts {} give {}, expected {}",
                      wrong.answer.trouble, wrong.answer.output, first.position, first.parts,
                      first.got, first.want);
  return text;
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
  RuleOptions options;
  options.is_short = true;
  const OpRuleReport report = check_rule(record, ops, options);
  RecordProperty("combinations", std::to_string(report.combinations));
  EXPECT_LE(report.refused * 20, report.combinations) << "lowerings refused";
  EXPECT_EQ(report.undecided, 0);
  for (size_t i = 0; i < std::min(kShownFailures, report.wrong.size()); ++i)
    ADD_FAILURE() << text_of(report.wrong[i]);
  EXPECT_TRUE(report.wrong.empty()) << report.wrong.size() << " of " << report.combinations;
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
  int64_t at = 0;
  for (const OpRecord* record : ops.all())
    if (record->infer && at++ % (kFewDraws ? 3 : 1) == 0) names.push_back(record->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllOps, StrategyLaws, ::testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });

// Returns the number of failures of an op whose strategies `mutate` has changed, on one sample.
size_t failures_of(const std::string& name, const Sample& sample,
                   const std::function<void(Strategy&)>& mutate) {
  const OpRegistry ops = builtin_ops();
  OpRecord record = ops.at(name);
  record.rule.strategies = [honest = record.rule.strategies, mutate](
                               const OpCall& call, const std::vector<TensorMeta>& outputs,
                               int64_t axis_size) {
    std::vector<Strategy> strategies = honest(call, outputs, axis_size);
    for (Strategy& strategy : strategies) mutate(strategy);
    return strategies;
  };
  record.samples = [sample] { return std::vector<Sample>{sample}; };
  RuleOptions options;
  options.is_short = true;
  return check_rule(record, ops, options).wrong.size();
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

// One device computes the loss of rows that are all ignored; a lowering has no class to read.
TEST(Claims, LossOfNoClasses_Hold) {
  TensorMeta absent;
  absent.absent = true;
  for (const char* reduction : {"none", "sum", "mean"}) {
    const Sample sample{{{"ignore_index", int64_t{-1}}, {"reduction", std::string(reduction)}},
                        {{DType::f64, {5, 0}}, {DType::i64, {5}}, absent},
                        {"uniform(-2, 2)", "ints(-1, 0)", ""}};
    EXPECT_EQ(failures_of("cross_entropy", sample, leave_as_it_is), 0u) << reduction;
  }
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

// An error of 2^-30 of a term is found in f64; another order of additions is not a failure.
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
  record.samples = [sample] { return std::vector<Sample>{sample}; };
  RuleOptions options;
  options.is_short = true;
  EXPECT_FALSE(check_rule(record, ops, options).wrong.empty());
}

}  // namespace
}  // namespace shardproof::testing::strategy_laws
