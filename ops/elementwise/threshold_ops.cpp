// Registers hardshrink and threshold. Both grow with x (threshold if its value is not above the
// edge), so that the largest of the parts gives the largest result. threshold of integers
// decomposes.
#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/elementwise/threshold_loops.h"

namespace shardproof {
namespace {

template <typename Loop>
Kernel threshold_kernel(const OpCall& call, const TileNumbers& numbers) {
  const DType compute = compute_dtype(call.inputs.at(0).dtype);
  const TypedLoop loop =
      compute == DType::f64 ? typed_loop<Loop, double>() : typed_loop<Loop, float>();
  ElementwisePlan plan{loop.run, loop.type, {compute}, {compute}};
  plan.numbers = numbers;
  return elementwise_kernel(plan);
}

std::vector<Strategy> threshold_strategies(const OpCall& call,
                                           const std::vector<TensorMeta>& outputs, bool grows) {
  std::vector<PartialPropagation> passes;
  if (grows) passes = {{{ReduceOp::max}, ReduceOp::max}, {{ReduceOp::min}, ReduceOp::min}};
  return elementwise_strategies(call, outputs, passes);
}

OpRecord threshold_record(const char* name, const char* summary, std::vector<Param> params) {
  OpRecord op;
  op.name = name;
  op.family = "activation";
  op.summary = summary;
  op.params = std::move(params);
  op.infer = [op_name = op.name](const OpCall& call) -> std::vector<TensorMeta> {
    require_floating(op_name, call, 0);
    return {{call.inputs[0].dtype, call.inputs[0].shape}};
  };
  return op;
}

std::vector<Sample> threshold_samples(const Attrs& attrs) {
  return {sample_of({{{5, 3}}, DType::f32, {"uniform(-4, 4)"}}, attrs),
          sample_of({{{4}}, DType::bf16, {"uniform(-4, 4)"}}, attrs),
          sample_of({{{2, 1, 3}}, DType::f64, {"uniform(-1, 1)"}}, attrs)};
}

void add_hardshrink(OpRegistry& ops) {
  OpRecord op = threshold_record("hardshrink", "x, 0 within lambd of 0",
                                 {params::tensor("x"), params::number("lambd", 0.5)});
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>&) {
    return threshold_kernel<HardshrinkLoop>(call, {{call.attrs->number("lambd")}, {}});
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return threshold_strategies(call, outputs, true);
  };
  op.gradient = gradients({[](Gradient& g) {
    const FormulaTerm inside = g.op("le", {g.op("abs", {g[0]}), g.number("lambd")});
    return g.where(inside, 0.0, g.dy());
  }});
  op.samples = [] { return threshold_samples({{"lambd", 0.5}}); };
  require_float_input(op);
  ops.add(std::move(op));
}

void add_threshold(OpRegistry& ops) {
  OpRecord op =
      threshold_record("threshold", "x above threshold, else value",
                       {params::tensor("x"), params::required("threshold", ParamKind::number),
                        params::required("value", ParamKind::number)});
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>&) {
    return threshold_kernel<ThresholdLoop>(
        call, {{call.attrs->number("threshold"), call.attrs->number("value")}, {}});
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    const bool grows = call.attrs->number("value") <= call.attrs->number("threshold");
    return threshold_strategies(call, outputs, grows);
  };
  op.gradient = gradients({[](Gradient& g) {
    return g.where(g.op("le", {g[0], g.number("threshold")}), 0.0, g.dy());
  }});
  op.samples = [] {
    std::vector<Sample> samples = threshold_samples({{"threshold", 0.5}, {"value", -1.0}});
    samples.push_back(samples.front());
    samples.back().attrs.set("value", 2.0);
    return samples;
  };
  decompose_when(
      op, [](const OpCall& call) { return !is_floating(call.inputs.at(0).dtype); },
      [](Formula& f) {
        const FormulaTerm below = f.op("le", {f[0], f.number("threshold")});
        const FormulaTerm kept = f.where(below, f.number("value"), f[0]);
        return FormulaTerms{kept.dtype() == f[0].dtype() ? kept : f.to(f[0].dtype(), kept)};
      });
  ops.add(std::move(op));
}

}  // namespace

void add_threshold_ops(OpRegistry& ops) {
  add_hardshrink(ops);
  add_threshold(ops);
}

}  // namespace shardproof
