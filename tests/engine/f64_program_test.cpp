// Tests the law of wider floats. In a widened program every op, on floats of any dtype and on whole
// numbers in their place, gives only f64 and c128. Each value has the dtype that its op infers.
#include <gtest/gtest.h>

#include <cmath>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::f64_program_test {
namespace {

const OpRegistry& ops() { return builtin_registries().ops; }

// One call with the dtypes of a sample, and with other dtypes in their place.
std::vector<std::vector<TensorMeta>> inputs_of(const Sample& sample) {
  std::vector<std::vector<TensorMeta>> all{sample.inputs};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f8e5m2, DType::i64, DType::boolean}) {
    all.push_back(sample.inputs);
    for (TensorMeta& meta : all.back())
      if (is_floating(meta.dtype) && !meta.weak) meta.dtype = dtype;
  }
  return all;
}

std::vector<TensorMeta> results_of(const OpRecord& record, const OpCall& call) {
  try {
    return record.is_composite(call) ? std::vector<TensorMeta>{} : record.infer(call);
  } catch (const Error&) {
    return {};
  }
}

GlobalProgram global_of(const OpRecord& record, const OpCall& call,
                        const std::vector<TensorMeta>& results) {
  GlobalProgram program;
  GlobalInstr instr;
  instr.op = record.name;
  instr.attrs = *call.attrs;
  const auto add = [&](const TensorMeta& meta) {
    if (meta.absent) return kNoValue;
    program.values.push_back({"", meta.dtype, meta.shape, meta.weak, {}, {}});
    return static_cast<ValueId>(program.values.size()) - 1;
  };
  for (const TensorMeta& meta : call.inputs) instr.inputs.push_back(add(meta));
  for (const TensorMeta& meta : results) instr.outputs.push_back(add(meta));
  program.instrs.push_back(std::move(instr));
  return program;
}

SpmdProgram spmd_of(const GlobalProgram& global) {
  SpmdProgram program;
  program.world = 2;
  const Lanes lanes = Lanes::range(0, 2);
  for (const GlobalValue& value : global.values) {
    SpmdValue& made = program.values.emplace_back();
    made.dtype = value.dtype;
    made.weak = value.weak;
    made.shapes = {{lanes, value.shape}};
  }
  Compute compute;
  compute.op = global.instrs[0].op;
  compute.attrs = {{lanes, global.instrs[0].attrs}};
  compute.inputs = global.instrs[0].inputs;
  compute.outputs = global.instrs[0].outputs;
  Instr instr;
  instr.lanes = lanes;
  instr.action = std::move(compute);
  program.listings.push_back({lanes, {}, {}, ""});
  program.listings[0].instrs.push_back(std::move(instr));
  return program;
}

// An instruction of a program, without its origin.
struct Step {
  std::string op;
  Attrs attrs;
  std::vector<ValueId> inputs, outputs;
};

std::vector<Step> steps_of(const GlobalProgram& program) {
  std::vector<Step> steps;
  for (const GlobalInstr& instr : program.instrs)
    steps.push_back({instr.op, instr.attrs, instr.inputs, instr.outputs});
  return steps;
}

std::vector<Step> steps_of(const SpmdProgram& program) {
  std::vector<Step> steps;
  for (const Instr& instr : program.listings[0].instrs) {
    const Compute& compute = std::get<Compute>(instr.action);
    steps.push_back({compute.op, compute.attrs[0].attrs, compute.inputs, compute.outputs});
  }
  return steps;
}

const Dims& shape_of(const GlobalValue& value) { return value.shape; }
const Dims& shape_of(const SpmdValue& value) { return value.shapes.at(0).shape; }

template <typename Program>
void expect_wide(const Program& program, size_t written, const std::string& about) {
  std::vector<bool> made(program.values.size());
  for (const Step& step : steps_of(program)) {
    OpCall call{&step.attrs, {}};
    for (const ValueId id : step.inputs) {
      TensorMeta& meta = call.inputs.emplace_back();
      meta.absent = id == kNoValue;
      if (meta.absent) continue;
      const auto& value = program.values[static_cast<size_t>(id)];
      meta = {value.dtype, shape_of(value), value.weak, false};
      EXPECT_TRUE(static_cast<size_t>(id) < written || made[static_cast<size_t>(id)]) << about;
    }
    const std::vector<TensorMeta> results = ops().at(step.op).infer(call);
    for (size_t o = 0; o < results.size(); ++o) {
      const auto& value = program.values[static_cast<size_t>(step.outputs[o])];
      EXPECT_EQ(results[o].dtype, value.dtype) << about << " by " << step.op;
      made[static_cast<size_t>(step.outputs[o])] = true;
    }
  }
  for (size_t id = 0; id < written; ++id) {
    const auto& value = program.values[id];
    if (value.weak) continue;
    EXPECT_TRUE(!is_floating(value.dtype) || value.dtype == DType::f64) << about;
    EXPECT_NE(value.dtype, DType::c64) << about;
  }
}

TEST(WiderFloats, ResultOfAnyOp_IsWide) {
  int64_t calls = 0;
  for (const OpRecord* record : ops().all())
    for (const Sample& sample : record->samples()) {
      const Attrs attrs = with_fallbacks(*record, sample.attrs);
      for (const std::vector<TensorMeta>& inputs : inputs_of(sample)) {
        const OpCall call{&attrs, inputs};
        const std::vector<TensorMeta> results = results_of(*record, call);
        if (results.empty()) continue;
        std::string about = record->name + "(" + to_string(attrs) + ")";
        for (const TensorMeta& meta : inputs) about += fmt::format(" {}", name(meta.dtype));
        GlobalProgram global = global_of(*record, call, results);
        SpmdProgram ranks = spmd_of(global);
        const size_t written = global.values.size();
        widen_floats(global, ops());
        expect_wide(global, written, about);
        widen_floats(ranks, ops());
        expect_wide(ranks, written, about);
        ++calls;
      }
    }
  EXPECT_GT(calls, 1000);
}

// A cast and a receive name a dtype, which becomes wide. A dtype that is not written stays.
TEST(WiderFloats, DTypeThatALineNames_IsWide) {
  Job job = job_of("tp=2", {});
  add_input(job, "x", Dims{4, 6}, "tp:S(0)", DType::bf16);
  add_ranks(job, "all", Lanes::range(0, 2),
            {"a = cast(x, f32)", "if rank == 0: send(a, to=1)",
             "if rank == 1: b = recv(shape=[2, 6], dtype=f32, from=0)", "c = cast(a, i32)",
             "y = rms_norm(x)", "z = zeros([3])", "q = arange(3) / 3", "add_(a, q[0])"});
  SpmdProgram program = lower_ranks(job, ops()).program;
  widen_floats(program, ops());
  int calls = 0;
  for (const Instr& instr : program.listings[0].instrs) {
    if (const auto* made = std::get_if<Communicate>(&instr.action))
      for (const CallItem& item : made->items) {
        EXPECT_EQ(item.collective.dtype, DType::f64);
        ++calls;
      }
    const auto* compute = std::get_if<Compute>(&instr.action);
    if (compute == nullptr || compute->op != "rms_norm") continue;
    EXPECT_EQ(compute->attrs[0].attrs.number("eps"), std::ldexp(1.0, -23));
  }
  EXPECT_EQ(calls, 2);
  for (const SpmdValue& value : program.values) {
    if (value.weak || value.name.empty()) continue;
    EXPECT_FALSE(is_floating(value.dtype) && value.dtype != DType::f64) << value.name;
    EXPECT_TRUE(value.name != "c" || value.dtype == DType::i32);
  }
}

}  // namespace
}  // namespace shardproof::testing::f64_program_test
