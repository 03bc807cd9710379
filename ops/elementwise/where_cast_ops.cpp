// Registers where and cast: ops that select or convert elements and compute nothing.

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/core/widen_op_call.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/elementwise/rounding_functors.h"
#include "shardproof/ops/elementwise/select_loops.h"

namespace shardproof {
namespace {

struct Word16Bytes {
  uint64_t halves[2];
};

TileLoop where_loop_of(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return WhereLoop::run<uint8_t>;
    case 2: return WhereLoop::run<uint16_t>;
    case 4: return WhereLoop::run<uint32_t>;
    case 8: return WhereLoop::run<uint64_t>;
    default: return WhereLoop::run<Word16Bytes>;
  }
}

TileLoop copy_loop_of(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return CopyLoop::run<uint8_t>;
    case 2: return CopyLoop::run<uint16_t>;
    case 4: return CopyLoop::run<uint32_t>;
    case 8: return CopyLoop::run<uint64_t>;
    default: return CopyLoop::run<Word16Bytes>;
  }
}

// The call without its condition, whose dtype does not affect the result.
OpCall choices(const OpCall& call) { return {call.attrs, {call.inputs[1], call.inputs[2]}}; }

std::vector<TensorMeta> infer_where(const OpCall& call) {
  if (call.inputs[0].dtype != DType::boolean)
    refuse("where", call, "the condition must be bool, found {}", name(call.inputs[0].dtype));
  return {{result_dtype(choices(call)), broadcast_shape_of("where", call)}};
}

std::vector<PartialPropagation> where_passes(const OpCall&) {
  std::vector<PartialPropagation> passes;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::max,
                            ReduceOp::min, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) {
    passes.push_back({{std::nullopt, op, op}, op});
    // For idempotent reductions, a value that all parts share equals its own reduction.
    const bool idempotent = op != ReduceOp::sum && op != ReduceOp::prod && op != ReduceOp::bxor;
    if (!idempotent) continue;
    passes.push_back({{std::nullopt, op, std::nullopt}, op});
    passes.push_back({{std::nullopt, std::nullopt, op}, op});
  }
  return passes;
}

OpRecord where_record() {
  OpRecord op;
  op.name = "where";
  op.family = "elementwise";
  op.summary = "x where the condition holds, else y";
  op.params = {{"condition", ParamKind::tensor, true, {}},
               {"x", ParamKind::tensor, true, {}},
               {"y", ParamKind::tensor, true, {}}};
  op.infer = infer_where;
  op.gradient = gradients({nullptr, [](Gradient& g) { return g.where(g[0], g.dy(), 0.0); },
                           [](Gradient& g) { return g.where(g[0], 0.0, g.dy()); }});
  op.prepare = [](const OpCall&, const std::vector<TensorMeta>& outputs) {
    const DType dtype = outputs.front().dtype;
    return elementwise_kernel(
        {where_loop_of(dtype), &typeid(WhereLoop), {DType::boolean, dtype, dtype}, {dtype}});
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return elementwise_strategies(call, outputs, where_passes(call));
  };
  op.samples = [] {
    const DType f32 = DType::f32, yes = DType::boolean;
    return std::vector<Sample>{
        {{}, {{yes, {5, 4}}, {f32, {5, 4}}, {f32, {5, 4}}}, {"bools", "ints", "ints"}},
        {{}, {{yes, {3, 1}}, {DType::bf16, {4}}, {f32, {}}}, {"bools", "uniform(-1, 1)", "ints"}},
        {{}, {{yes, {7}}, {DType::i32, {7}}, {DType::i32, {7}}}, {"bools", "ints", "ints"}},
        {{}, {{yes, {2, 3}}, {yes, {3}}, {yes, {2, 3}}}, {"bools", "bools", "bools"}}};
  };
  return op;
}

// True for a cast that saturates at the largest number of f8e4m3, which has no infinity. True for
// the f64 form of such a cast, too (widen_op_call.h).
bool saturates(const OpCall& call, DType to) {
  if (call.attrs->has(kSaturatesAs)) return true;
  return to == DType::f8e4m3 && (!call.attrs->has("saturate") || call.attrs->flag("saturate"));
}

// Saturated parts do not add up to the saturated sum. The largest (smallest) saturated part is the
// saturated largest (smallest) part, so max and min pass.
std::vector<PartialPropagation> cast_passes(bool limits) {
  std::vector<PartialPropagation> passes;
  for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) passes.push_back({{op}, op});
  if (limits) return passes;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::band,
                            ReduceOp::bor, ReduceOp::bxor})
    passes.push_back({{op}, op});
  return passes;
}

Kernel prepare_cast(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const DType to = outputs.front().dtype, from = call.inputs.front().dtype;
  if (!saturates(call, to) || is_complex(from))
    return elementwise_kernel({copy_loop_of(to), &typeid(CopyLoop), {to}, {to}});
  const bool narrow = is_floating(from) && from != DType::f64;
  const TypedLoop loop = loop_for<Unary, functor::SaturateF8E4M3>(narrow ? DType::f32 : DType::f64);
  return elementwise_kernel({loop.run, loop.type, {loop.input}, {loop.output}});
}

std::vector<Sample> cast_samples() {
  auto to = [](DType from, DType dtype, const Dims& shape, const char* fill) {
    return Sample{Attrs{{"dtype", dtype}}, {{from, shape}}, {fill}};
  };
  return {to(DType::f32, DType::bf16, {5, 3}, "uniform(-2, 2)"),
          to(DType::bf16, DType::f32, {4, 4}, "uniform(-2, 2)"),
          to(DType::f32, DType::i32, {7}, "uniform(-4, 4)"),
          to(DType::i32, DType::f32, {2, 3}, "ints"),
          to(DType::i16, DType::i64, {5}, "ints"),
          to(DType::f32, DType::boolean, {5}, "ints"),
          to(DType::boolean, DType::f32, {5}, "bools"),
          to(DType::f32, DType::f8e4m3, {3, 2}, "ints"),
          to(DType::f64, DType::f8e4m3, {3, 2}, "ints(300, 900)")};
}

OpRecord conversion(const char* name, const char* summary) {
  OpRecord op;
  op.name = name;
  op.family = "elementwise";
  op.summary = summary;
  op.params = {{"x", ParamKind::tensor, true, {}}, {"dtype", ParamKind::dtype, true, {}}};
  op.infer = [](const OpCall& call) -> std::vector<TensorMeta> {
    return {{call.attrs->dtype("dtype"), call.inputs[0].shape}};
  };
  return op;
}

OpRecord cast_record() {
  OpRecord op = conversion("cast", "the same values in another dtype");
  op.params.push_back(params::boolean("saturate", true));
  op.gradient = gradients({[](Gradient& g) { return g.dy(); }});
  op.prepare = prepare_cast;
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return elementwise_strategies(call, outputs, cast_passes(saturates(call, outputs[0].dtype)));
  };
  op.samples = cast_samples;
  return op;
}

}  // namespace

void add_select_ops(OpRegistry& ops) {
  ops.add(where_record());
  ops.add(cast_record());
}

}  // namespace shardproof
