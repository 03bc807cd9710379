// Tests the reference run: values on demand, values that the ranks hold in their place, copies, and
// lines that are computed again.
#include "shardproof/engine/reference/reference_run.h"

#include <gtest/gtest.h>

#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::reference_run_test {
namespace {

// Returns a program of one input x = [1, 2, 3] in f32.
struct Program {
  GlobalProgram program;
  EvaluationPlan plan;

  explicit Program(const std::vector<std::string>& lines, bool lifted = false)
      : program(lowered(lines, lifted)), plan(program, builtin_registries().ops) {}

  static GlobalProgram lowered(const std::vector<std::string>& lines, bool lifted) {
    GlobalContext context;
    context.ops = &builtin_registries().ops;
    context.inputs = {{"x", {DType::f32, Dims{3}}}};
    GlobalProgram program = lower_global(parse_listing(lines), context, "/program");
    if (lifted) widen_floats(program, *context.ops);
    return program;
  }
  ValueId id(const std::string& name) const { return program.names.at(name); }
  ReferenceRun run(const std::vector<std::string>& wanted, bool keeps_all = false) const {
    std::vector<bool> ids(program.values.size(), false);
    for (const std::string& name : wanted) ids[static_cast<size_t>(id(name))] = true;
    const DType dtype = program.values[static_cast<size_t>(program.inputs[0])].dtype;
    return {plan, {tensor_of(dtype, Dims{3}, {1, 2, 3})}, ids, keeps_all};
  }
};

using Values = std::vector<double>;

TEST(ReferenceRun, HeldValue_IsWhatFollowsIsComputedFrom) {
  const Program p({"a = x + 1", "b = a * 2", "c = b + a"});
  ReferenceRun run = p.run({"a", "b", "c"});
  EXPECT_EQ(values_of(run.value(p.id("a"))), (Values{2, 3, 4}));
  run.hold(p.id("a"), tensor_of(DType::f32, Dims{3}, {10, 20, 30}));
  EXPECT_EQ(values_of(run.value(p.id("b"))), (Values{20, 40, 60}));
  run.hold(p.id("b"), tensor_of(DType::f32, Dims{3}, {1, 1, 1}));
  EXPECT_EQ(values_of(run.value(p.id("c"))), (Values{11, 21, 31}));
}

TEST(ReferenceRun, CopyThatIsHeld_HoldsItsSourceToo) {
  const Program p({"w = x + 1", "w_0 = w * 1", "y = w + 1"});
  ReferenceRun run = p.run({"w_0", "y"});
  run.value(p.id("w_0"));
  const std::vector<ValueId> held =
      run.hold(p.id("w_0"), tensor_of(DType::f32, Dims{3}, {5, 6, 7}));
  EXPECT_EQ(held.size(), 2U);
  EXPECT_EQ(values_of(run.value(p.id("y"))), (Values{6, 7, 8}));
}

TEST(ReferenceRun, InputsAndOpsThatAreNoCopies_AreNotHeldByWhatIsMadeOfThem) {
  const Program p({"a = x * 1", "b = x + 1", "c = clamp(b, -100, 100)", "d = a + b"});
  ReferenceRun run = p.run({"a", "c", "d"});
  run.value(p.id("a"));
  EXPECT_EQ(run.hold(p.id("a"), tensor_of(DType::f32, Dims{3}, {9, 9, 9})).size(), 1U);
  run.value(p.id("c"));
  EXPECT_EQ(run.hold(p.id("c"), tensor_of(DType::f32, Dims{3}, {8, 8, 8})).size(), 1U);
  EXPECT_EQ(values_of(run.value(p.id("d"))), (Values{11, 12, 13}));
}

TEST(ReferenceRun, Value_IsFreedAfterItsLastUse_UnlessAllAreKept) {
  const Program p({"a = x + 1", "b = a * 2", "c = b * 3", "d = c + 1"});
  for (const bool keeps : {false, true}) {
    ReferenceRun run = p.run({"a", "b", "c", "d"}, keeps);
    for (const char* name : {"a", "b", "c", "d"}) {
      const Tensor value = run.value(p.id(name));
      run.hold(p.id(name), value);
    }
    EXPECT_EQ(run.find(p.id("a")) != nullptr, keeps);
    EXPECT_NE(run.find(p.id("d")), nullptr);
  }
}

TEST(ReferenceRun, LineAgain_InOtherDtypes_TakesTheHeldInputs) {
  const std::vector<std::string> lines{"a = x + 1", "b = a / 3"};
  const Program own(lines), lifted(lines, true);
  ReferenceRun run = own.run({"a", "b"});
  run.value(own.id("a"));
  run.hold(own.id("a"), tensor_of(DType::f32, Dims{3}, {1, 1, 1}));
  const Tensor value = run.value(own.id("b"));
  EXPECT_EQ(run.line_inputs(), std::vector<ValueId>{own.id("a")});
  const Tensor exact = run.again(own.id("b"), lifted.plan);
  EXPECT_EQ(exact.dtype, DType::f64);
  EXPECT_EQ(values_of(exact)[0], 1.0 / 3);
  EXPECT_NE(values_of(value)[0], 1.0 / 3);
}

TEST(ReferenceRun, LineAgain_ComputesWhatItSharesWithAnEarlierLine) {
  const std::vector<std::string> lines{"z = x / 3", "a = z * 2", "c = z * 3"};
  const Program own(lines), lifted(lines, true);
  ReferenceRun run = own.run({"a", "c"});
  run.value(own.id("a"));
  run.hold(own.id("a"), tensor_of(DType::f32, Dims{3}, {1, 1, 1}));
  run.value(own.id("c"));
  EXPECT_EQ(run.line_inputs(), std::vector<ValueId>{own.id("x")});
  EXPECT_EQ(run.line().size(), 2U);
  EXPECT_EQ(values_of(run.again(own.id("c"), lifted.plan)), (Values{1.0 / 3 * 3, 2.0 / 3 * 3, 3}));
}

// Draws chains of lines with wanted values, copies and ranks' values that differ, and compares each
// line with what is computed without anything shared.
TEST(ReferenceRun, LineAgain_WithWhatLinesShare_IsTheSame) {
  const LineArithmetic kinds[] = {LineArithmetic::held_inputs, LineArithmetic::rounded_inputs,
                                  in_direction(LineArithmetic::moved, 2)};
  for (uint64_t draw = 0; draw < 100; ++draw) {
    uint64_t next = 0;
    const Rng random(draw, 99);
    const auto below = [&](uint64_t n) { return random.bits(next++) % n; };
    std::vector<std::string> lines{"a0 = x + 1", "a1 = x * 2"}, wanted;
    for (int i = 2; i < 20; ++i) {
      const auto earlier = [&] {
        return fmt::format("a{}", static_cast<uint64_t>(i) - 1 - below(std::min(i, 4)));
      };
      lines.push_back(below(5) == 0 ? fmt::format("a{} = {} * 1", i, earlier())
                                    : fmt::format("a{} = {} * 0.7 + {}", i, earlier(), earlier()));
      if (below(3) == 0) wanted.push_back(fmt::format("a{}", i));
    }
    const Program own(lines), lifted(lines, true);
    ReferenceRun run = own.run(wanted);
    // Some values are judged out of order.
    for (size_t i = 1; i < wanted.size(); ++i)
      if (below(4) == 0) std::swap(wanted[i - 1], wanted[i]);
    for (const std::string& name : wanted) {
      const ValueId id = own.id(name);
      const Tensor value = run.value(id);
      for (const LineArithmetic kind : kinds) {
        const InputChange change = [&](ValueId input, const Tensor& tensor) {
          return moved(tensor, std::vector<double>(3, 0x1p45 * static_cast<int>(kind)), 0, input);
        };
        EXPECT_EQ(values_of(run.again(id, lifted.plan, change, kind)),
                  values_of(run.again(id, lifted.plan, change)))
            << fmt::format("draw {}, {} of:\n{}", draw, name, fmt::join(lines, "\n"));
      }
      if (below(4) != 0)
        run.hold(id, tensor_of(DType::f32, Dims{3}, {0.1 * next, 5, value.elements() + 0.5}));
      else
        run.hold(id, value);
    }
  }
}

TEST(ReferenceRun, HeldValue_StaysWhileALaterLineMayBeginAtIt) {
  const Program p({"a = x + 1", "z = a * 2", "b = z + 1", "c = z + 2", "d = c + 1"});
  ReferenceRun run = p.run({"a", "b", "c", "d"});
  for (const char* name : {"a", "b", "c"}) {
    const Tensor value = run.value(p.id(name));
    run.hold(p.id(name), value);
    EXPECT_NE(run.find(p.id("a")), nullptr) << name;
  }
  run.value(p.id("d"));
  EXPECT_EQ(run.find(p.id("a")), nullptr);
  EXPECT_EQ(run.find(p.id("z")), nullptr);
}

TEST(ReferenceRun, LongChain_IsComputedWithoutRecursion) {
  const Program p({"a = x * 1", "for i in range(20000):", "  a = a + 1", "b = a - 20000"});
  ReferenceRun run = p.run({"b"});
  EXPECT_EQ(values_of(run.value(p.id("b"))), (Values{1, 2, 3}));
}

}  // namespace
}  // namespace shardproof::testing::reference_run_test
