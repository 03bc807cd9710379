// Tests that `shardproof fuzz` finds faults of shardproof: rules and gradients that are made wrong
// on purpose. The smallest failing program still calls the op at fault. The same holds for faults
// of rank programs: one line of a generated program gets a wrong backward.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shardproof/engine/generate/fuzz.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::fuzz_faults_test {
namespace {

using Mutate = void (*)(OpRecord&);

// The op passes sums of parts, which is right only for linear ops.
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
  Mutate mutate;
  const char* oracle;  // the oracle that finds the fault
  uint64_t seed;       // of the first program; from seed 1 on up to 603 programs run before the
                       // finding
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.op << " " << fault.what; }

class FuzzedFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(FuzzedFaults, PlantedInAnOp_AreFound) {
  const Fault& fault = GetParam();
  Registries registries{{}, builtin_registries().backends};
  for (const OpRecord* record : builtin_registries().ops.all()) {
    OpRecord copy = *record;
    if (copy.name == fault.op) fault.mutate(copy);
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
  for (const std::string& line : failure.smallest.one_device()) lines += line + "\n";
  const std::string& infix = registries.ops.at(fault.op).infix;
  EXPECT_TRUE(lines.find(fault.op) != lines.npos ||
              (infix != "" && lines.find(infix) != lines.npos))
      << lines;
}

// The draw of this seed takes numbers beyond 448 through f8e4m3, which saturates.
TEST(FuzzedGradients, OfACastBeyondItsRange_AreNotCompared) {
  FuzzOptions options;
  options.seed = 29675;
  options.programs = 1;
  EXPECT_TRUE(fuzz(options, builtin_registries()).failures.empty());
}

// A symmetric matrix is moved along symmetric ones: cholesky reads one triangle of it.
TEST(FuzzedGradients, OfCholesky_AgreeWithDifferences) {
  const Registries& registries = builtin_registries();
  int tried = 0;
  for (uint64_t seed = 426470; tried < 1; ++seed) {
    ASSERT_LT(seed, 428000U) << "no program differentiates cholesky";
    const ProgramText text = fuzz_program(seed, registries.ops);
    std::string lines;
    for (const std::string& line : text.one_device()) lines += line + "\n";
    if (lines.find("cholesky(") == lines.npos || lines.find("grad(") == lines.npos) continue;
    ++tried;
    EXPECT_EQ(try_program(text, seed, registries).message, "") << lines;
  }
}

INSTANTIATE_TEST_SUITE_P(
    ByHand, FuzzedFaults,
    ::testing::Values(Fault{"tanh", "passes sums", pass_sums, "value", 80},
                      Fault{"relu", "passes sums", pass_sums, "value", 310},
                      Fault{"tanh", "has twice its gradient", double_gradient, "gradient", 600},
                      Fault{"mul", "has twice its gradient", double_gradient, "gradient", 30}),
    [](const auto& info) { return fmt::format("{}_{}", info.param.op, info.index); });

// Replaces the last `from` of a line; returns false if there is none.
bool replace_last(std::string& line, const std::string& from, const std::string& to) {
  const size_t at = line.rfind(from);
  if (at == std::string::npos) return false;
  line.replace(at, from.size(), to);
  return true;
}

bool leave_out_backward(std::string& line) { return replace_last(line, ", backward=identity", ""); }
bool pass_parts_on(std::string& line) {
  return replace_last(line, "backward=all_reduce", "backward=identity");
}
bool add_copies(std::string& line) {
  return replace_last(line, "backward=identity", "backward=all_reduce");
}
bool slice_parts(std::string& line) {
  return replace_last(line, "backward=reduce_scatter", "backward=slice");
}
bool add_gathered_copies(std::string& line) {
  return replace_last(line, "backward=slice", "backward=reduce_scatter");
}

// Returns the place after "enter(x, group="; npos if there is none.
size_t group_of_enter(const std::string& line) {
  const size_t enter = line.rfind("enter(");
  return enter == std::string::npos ? enter : line.find("group=", enter) + 6;
}

bool enter_another_group(std::string& line) {
  const size_t at = group_of_enter(line);
  if (at == std::string::npos || line.compare(at, 3, "dp)") != 0) return false;
  line.replace(at, 2, "tp");
  return true;
}
bool leave_out_enter(std::string& line) {
  const size_t at = group_of_enter(line), enter = line.rfind("enter(");
  if (at == std::string::npos || line.find("enter(all_reduce") != std::string::npos) return false;
  const size_t name = enter + 6, end = line.find(')', at);
  line.replace(enter, end + 1 - enter, line.substr(name, line.find(',', name) - name));
  return true;
}

// True if the line adds the parts of a gradient that the ranks hold.
bool adds_parts(const std::string& line) { return line.find(" = all_reduce(pt") != line.npos; }

bool average_parts(std::string& line) {
  return adds_parts(line) && replace_last(line, ", sum,", ", avg,");
}
bool leave_out_sum(std::string& line) {
  if (!adds_parts(line)) return false;
  const size_t name = line.find("pt");
  line =
      line.substr(0, line.find("all_reduce")) + line.substr(name, line.find(',') - name) + " * 1";
  return true;
}

struct WrongBackward {
  const char* name;
  bool (*mutate)(std::string& line);  // false: the line has no place for the fault
  uint64_t seed;  // of the first program; from seed 1 on up to 438 programs run before the finding
};
void PrintTo(const WrongBackward& fault, std::ostream* out) { *out << fault.name; }

// Mutates the last line that can be mutated; false if there is none.
bool mutate_ranks(ProgramText& text, const WrongBackward& fault) {
  for (size_t i = text.ranks.size(); i-- > 0;)
    if (fault.mutate(text.ranks[i])) return true;
  return false;
}

class FuzzedBackwards : public ::testing::TestWithParam<WrongBackward> {};

TEST_P(FuzzedBackwards, WrittenInALineOfRanks_AreFound) {
  constexpr uint64_t kPrograms = 40;
  constexpr size_t kLeastLines = 4;
  const WrongBackward& fault = GetParam();
  const Registries& registries = builtin_registries();
  for (uint64_t seed = fault.seed; seed < fault.seed + kPrograms; ++seed) {
    const ProgramText honest = fuzz_program(seed, registries.ops);
    ProgramText text = honest;
    if (text.is_global() || !mutate_ranks(text, fault)) continue;
    const FuzzTrial trial = try_program(text, seed, registries);
    if (trial.oracle.empty()) continue;  // no gradient goes through the line
    if (trial.oracle == "error") {       // grad refuses a name that is cut off from the loss
      EXPECT_NE(trial.message.find("does not reach"), std::string::npos) << trial.message;
      continue;
    }
    if (text.ranks.size() < kLeastLines) continue;  // leaves nothing to shrink
    EXPECT_EQ(trial.oracle, "value") << trial.message;
    EXPECT_EQ(try_program(honest, seed, registries).oracle, "");
    const ProgramText smallest = smallest_failing(text, trial, seed, registries);
    EXPECT_LT(smallest.ranks.size(), text.ranks.size());
    EXPECT_EQ(try_program(smallest, seed, registries).oracle, "value");
    return;
  }
  FAIL() << "not found in " << kPrograms << " programs";
}

INSTANTIATE_TEST_SUITE_P(
    ByHand, FuzzedBackwards,
    ::testing::Values(WrongBackward{"missing", leave_out_backward, 60},
                      WrongBackward{"identity_for_all_reduce", pass_parts_on, 80},
                      WrongBackward{"all_reduce_for_identity", add_copies, 60},
                      WrongBackward{"slice_for_reduce_scatter", slice_parts, 360},
                      WrongBackward{"reduce_scatter_for_slice", add_gathered_copies, 420},
                      WrongBackward{"enter_over_another_group", enter_another_group, 80},
                      WrongBackward{"enter_left_out", leave_out_enter, 41},
                      WrongBackward{"average_of_parts", average_parts, 80},
                      WrongBackward{"sum_of_parts_left_out", leave_out_sum, 80}),
    [](const auto& info) { return std::string(info.param.name); });

// A gradient inside `as dp:R` multiplies parts by an infinity: those of zeros become NaN, so that
// the line is not written.
TEST(HonestPrograms, WithInfinitiesInAsRegions_HaveNoFinding) {
  const Registries& registries = builtin_registries();
  const auto has_infinity = [](const TensorText& tensor) {
    return std::any_of(tensor.values.begin(), tensor.values.end(),
                       [](double value) { return std::isinf(value); });
  };
  constexpr int kPrograms = kFewDraws ? 2 : 10;
  int tried = 0;
  for (uint64_t seed = 700'000; tried < kPrograms && seed < 710'000; ++seed) {
    const ProgramText text = fuzz_program(seed, registries.ops);
    const auto has = [&](const char* words) {
      return std::any_of(text.program.begin(), text.program.end(), [&](const std::string& line) {
        return line.find(words) != std::string::npos;
      });
    };
    if (!has(" as ") || !has("grad(") ||
        std::none_of(text.tensors.begin(), text.tensors.end(), has_infinity))
      continue;
    ++tried;
    EXPECT_EQ(try_program(text, seed, registries).message, "") << "seed " << seed;
  }
  EXPECT_EQ(tried, kPrograms);
}

}  // namespace
}  // namespace shardproof::testing::fuzz_faults_test
