// Tests that `shardproof fuzz` finds faults of shardproof: rules and gradients that are made wrong
// on purpose. The smallest failing program still calls the op at fault.
#include <gtest/gtest.h>

#include "shardproof/engine/generate/fuzz.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::fuzz_faults_test {
namespace {

using Spoil = void (*)(OpRecord&);

// The op passes sums of parts, which is right for linear ops alone.
void pass_sums(OpRecord& op) {
  op.rule.strategies = [honest = op.rule.strategies](
                           const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t n) {
    std::vector<Strategy> strategies = honest(call, outputs, n);
    strategies.push_back(
        partial_strategy({{ReduceOp::sum}, ReduceOp::sum}, 1, 1, LocalExecution::same_op));
    return strategies;
  };
}

void double_gradient(OpRecord& op) {
  op.gradient = [honest = op.gradient](const OpCall& call, GradientBuilder& builder) {
    std::vector<int> handles = honest(call, builder);
    for (int& handle : handles)
      if (handle != kAbsent) handle = (FormulaTerm{&builder, handle} * 2).handle;
    return handles;
  };
}

struct Fault {
  const char* op;
  const char* what;
  Spoil spoil;
  const char* oracle;  // that finds it
  uint64_t seed;       // of the first program; from 1 on it takes up to 603 programs
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.op << " " << fault.what; }

class FuzzedFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(FuzzedFaults, PlantedInAnOp_AreFound) {
  const Fault& fault = GetParam();
  Registries registries{{}, builtin_registries().backends};
  for (const OpRecord* record : builtin_registries().ops.all()) {
    OpRecord copy = *record;
    if (copy.name == fault.op) fault.spoil(copy);
    registries.ops.add(std::move(copy));
  }
  FuzzOptions options;
  options.seed = fault.seed;
  options.programs = 40;
  options.most_failures = 1;
  const FuzzCounts counts = fuzz(options, registries);
  ASSERT_EQ(counts.failures.size(), 1U) << "not found in " << counts.programs << " programs";
  const FuzzFailure& failure = counts.failures[0];
  EXPECT_EQ(failure.oracle, fault.oracle) << failure.message;
  std::string lines;
  for (const std::string& line : failure.smallest.program) lines += line + "\n";
  const std::string& infix = registries.ops.at(fault.op).infix;
  EXPECT_TRUE(lines.find(fault.op) != lines.npos ||
              (infix != "" && lines.find(infix) != lines.npos))
      << lines;
}

INSTANTIATE_TEST_SUITE_P(
    ByHand, FuzzedFaults,
    ::testing::Values(Fault{"tanh", "passes sums", pass_sums, "value", 80},
                      Fault{"relu", "passes sums", pass_sums, "value", 310},
                      Fault{"tanh", "has twice its gradient", double_gradient, "gradient", 600},
                      Fault{"mul", "has twice its gradient", double_gradient, "gradient", 30}),
    [](const auto& info) { return fmt::format("{}_{}", info.param.op, info.index); });

}  // namespace
}  // namespace shardproof::testing::fuzz_faults_test
