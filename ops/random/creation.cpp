// Implements ops/random/creation.h. Registers zeros, ones, full, empty and arange, and also dim and
// start: the size and the start of a rank's shard.
#include <cmath>
#include <cstring>
#include <limits>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/shard_index.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/layout/copy_boxes.h"
#include "shardproof/ops/random/creation.h"

namespace shardproof {

std::vector<Param> creation_params() {
  return {{"shape", ParamKind::integers, false, {}, "like"},
          {"dtype", ParamKind::dtype, false, {}},
          {"like", ParamKind::optional_tensor, false, {}}};
}

std::vector<TensorMeta> infer_creation(std::string_view name, const OpCall& call, DType fallback) {
  const bool like = present(call, 0);
  const bool shaped = call.attrs && call.attrs->has("shape");
  if (like == shaped) refuse(name, call, "expects exactly one of a shape and like=");
  TensorMeta meta;
  meta.dtype = like ? call.inputs[0].dtype : fallback;
  if (call.attrs && call.attrs->has("dtype")) meta.dtype = call.attrs->dtype("dtype");
  meta.shape = like ? call.inputs[0].shape : Dims(integer_list(*call.attrs, "shape"));
  for (const int64_t size : meta.shape)
    if (size < 0)
      refuse(name, call, "sizes must not be negative, found {} in {}", size, to_string(meta.shape));
  return {meta};
}

std::vector<Strategy> creation_strategies(const OpCall& call, const TensorMeta& output,
                                          LocalExecution form) {
  const std::string dims = letters(output.shape.size());
  const bool like = present(call, 0);
  FactorOptions options;
  // Without `like`, the rank's shape is an attribute.
  options.form = form == LocalExecution::same_op && !like ? LocalExecution::local_attrs : form;
  const std::string inputs = call.inputs.empty() ? "" : like ? " " + dims : " ";
  std::vector<Strategy> strategies = factor_strategies(inputs + "->" + dims, options);
  if (like) {
    // Only the shape of `like` is used, so any partial is accepted.
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::max,
                              ReduceOp::min, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor})
      strategies.push_back({{P(op)}, {R()}, form, ShardLayout::any});
  }
  return strategies;
}

Attrs creation_local_attrs(const OpCall& call, const std::vector<Spec>&,
                           const std::vector<Spec>& outputs, int64_t rank) {
  Attrs attrs = call.attrs ? *call.attrs : Attrs{};
  if (present(call, 0)) return attrs;
  const Dims local = outputs[0].local_shape(rank);
  attrs.set("shape", std::vector<int64_t>(local.begin(), local.end()));
  return attrs;
}

namespace {

using Pattern = FillPlan;

Pattern element_of(DType dtype, const AttrValue& value) {
  Pattern pattern{};
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    store_i64(pattern.element.data(), dtype, *whole);
  } else if (const auto* truth = std::get_if<bool>(&value)) {
    store_i64(pattern.element.data(), dtype, *truth ? 1 : 0);
  } else {
    store_f64(pattern.element.data(), dtype, std::get<double>(value));
  }
  return pattern;
}

Kernel fill_kernel(const Pattern& pattern) {
  Kernel kernel;
  kernel.plan = share_plan(pattern);
  kernel.accepts_strides = true;
  kernel.run = [pattern](const KernelCall& call) {
    const LaneView& out = call.outputs->front();
    const auto bytes = static_cast<size_t>(size_of(out.dtype));
    const auto total = bytes * static_cast<size_t>(element_count(out.shape));
    for (int64_t lane = 0; lane < call.lanes && total > 0; ++lane) {
      std::byte* to = out.at(lane);
      std::memcpy(to, pattern.element.data(), bytes);
      // Each copy doubles the filled part.
      for (size_t done = bytes; done < total; done *= 2)
        std::memcpy(to + done, to, std::min(done, total - done));
    }
  };
  return kernel;
}

// Returns the value of `empty`: recognizable as undefined, and the same in every run.
AttrValue poison(DType dtype) {
  if (is_floating(dtype) || is_complex(dtype)) return std::numeric_limits<double>::quiet_NaN();
  return int64_t{0x5555555555555555};
}

struct FillRow {
  const char* name;
  const char* summary;
  bool given;  // true: the value is an attribute
  bool poisoned;
  int64_t value;
};
const FillRow kFillRows[] = {
    {"zeros", "zeros([4, n], bf16) or zeros(like=x)", false, false, 0},
    {"ones", "ones([4, n], bf16) or ones(like=x)", false, false, 1},
    {"empty", "contents undefined: NaN, or a pattern of bits", false, true, 0},
    {"full", "full([4, n], 2.5) or full(like=x, value=2.5)", true, false, 0},
};

AttrValue value_of(const FillRow& row, const OpCall& call, DType dtype) {
  if (row.given) return call.attrs->values().find("value")->second;
  return row.poisoned ? poison(dtype) : AttrValue(row.value);
}

DType default_dtype(const FillRow& row, const OpCall& call) {
  if (!row.given) return kDefaultFloat;
  const AttrValue& value = call.attrs->values().find("value")->second;
  if (std::holds_alternative<bool>(value)) return DType::boolean;
  return std::holds_alternative<int64_t>(value) ? DType::i64 : kDefaultFloat;
}

std::vector<Sample> fill_samples(const FillRow& row) {
  auto attrs = [&](Attrs a) {
    if (row.given) a.set("value", 2.5);
    return a;
  };
  using List = std::vector<int64_t>;
  const TensorMeta none{DType::f32, {}, false, true};
  std::vector<Sample> samples = {
      {attrs({{"shape", List{5, 3}}}), {none}, {"ints"}},
      {attrs({{"shape", List{4}}, {"dtype", DType::bf16}}), {none}, {"ints"}},
      {attrs({}), {{DType::f32, {7, 2}}}, {"ints"}},
      {attrs({{"dtype", DType::i32}}), {{DType::f64, {3}}}, {"ints"}}};
  return samples;
}

std::vector<Param> fill_params(const FillRow& row) {
  std::vector<Param> params = creation_params();
  if (row.given) params.insert(params.begin() + 1, {"value", ParamKind::scalar, true, {}});
  return params;
}

const OpTable<FillRow> kFillTable = {
    "creation",
    fill_params,
    [](const FillRow& row, const OpCall& call) {
      return infer_creation(row.name, call, default_dtype(row, call));
    },
    [](const FillRow& row, const OpCall& call, const std::vector<TensorMeta>& outputs) {
      const DType dtype = outputs[0].dtype;
      return fill_kernel(element_of(dtype, value_of(row, call, dtype)));
    },
    [](const FillRow&, const OpCall& call, const std::vector<TensorMeta>& outputs) {
      return creation_strategies(call, outputs[0], LocalExecution::same_op);
    },
    fill_samples,
    [](const FillRow&, OpRecord& op) {
      op.rule.local_attrs = creation_local_attrs;
      op.differentiable = Differentiable::no;
    }};

// dim(x, 0), start(x, 0). If that dim is sharded, the results differ between ranks. A value of a
// global program is one tensor, so only shardings of other dims are strategies.
OpRecord place_record(const char* op_name, const char* summary, bool start) {
  OpRecord op;
  op.name = op_name;
  op.differentiable = Differentiable::no;
  op.family = "creation";
  op.summary = summary;
  op.params = {{"x", ParamKind::tensor, true, {}}, {"dim", ParamKind::integer, true, {}}};
  op.infer = [op_name](const OpCall& call) -> std::vector<TensorMeta> {
    dim_of(op_name, call, call.attrs->integer("dim"));
    return {{DType::i64, {}}};
  };
  op.prepare = [op_name, start](const OpCall& call, const std::vector<TensorMeta>&) {
    Kernel kernel;
    kernel.accepts_strides = true;
    kernel.run = [start,
                  dim = dim_of(op_name, call, call.attrs->integer("dim"))](const KernelCall& run) {
      const Dims& local = run.inputs->front().shape;
      for (int64_t lane = 0; lane < run.lanes; ++lane) {
        const GlobalPlace place = place_of_input(run, 0, lane);
        const int64_t first = place.spec ? place.spec->start(place.rank)[dim] : 0;
        store_i64(run.outputs->front().at(lane), DType::i64, start ? first : local[dim]);
      }
    };
    return kernel;
  };
  op.rule.strategies = [op_name](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    std::vector<Strategy> strategies;
    const int requested = dim_of(op_name, call, call.attrs->integer("dim"));
    for (int d = 0; d < call.inputs[0].shape.size(); ++d)
      if (d != requested)
        strategies.push_back({{S(d)}, {R()}, LocalExecution::needs_shard_index, ShardLayout::any});
    for (const ReduceOp reduce : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min})
      strategies.push_back(
          {{P(reduce)}, {R()}, LocalExecution::needs_shard_index, ShardLayout::any});
    return strategies;
  };
  op.samples = [] {
    return std::vector<Sample>{{{{"dim", int64_t{0}}}, {{DType::f32, {5, 3}}}, {"ints"}},
                               {{{"dim", int64_t{-1}}}, {{DType::i64, {4}}}, {"ints"}}};
  };
  return op;
}

struct Progression {
  double start = 0, step = 1;
  int64_t count = 0;
  bool whole = true;
};

Progression progression_of(const OpCall& call) {
  const Attrs& attrs = *call.attrs;
  Progression p;
  const bool ends = attrs.has("end");
  const double end = attrs.number(ends ? "end" : "start");
  p.start = ends ? attrs.number("start") : 0;
  p.step = attrs.number("step");
  for (const char* name : {"start", "end", "step"})
    if (attrs.has(name))
      p.whole = p.whole && std::holds_alternative<int64_t>(attrs.values().find(name)->second);
  const double steps = std::ceil((end - p.start) / p.step);
  if (!std::isfinite(steps) || steps < 0 || steps > 0x1p40)
    refuse("arange", call, "counting from {} to {} in steps of {} gives no length from 0 to 2^40",
           p.start, end, p.step);
  p.count = static_cast<int64_t>(steps);
  return p;
}

// arange is whole on every rank; a shard of it is a slice, which needs no communication.
OpRecord arange_record() {
  OpRecord op;
  op.name = "arange";
  op.differentiable = Differentiable::no;
  op.family = "creation";
  op.summary = "arange(n) or arange(start, end, step): numbers `step` apart, without end";
  op.params = {{"start", ParamKind::number, true, {}},
               {"end", ParamKind::number, false, {}},
               {"step", ParamKind::number, false, int64_t{1}},
               {"dtype", ParamKind::dtype, false, {}}};
  op.infer = [](const OpCall& call) -> std::vector<TensorMeta> {
    const Progression p = progression_of(call);
    const DType natural = p.whole ? DType::i64 : kDefaultFloat;
    return {{call.attrs->has("dtype") ? call.attrs->dtype("dtype") : natural, Dims{p.count}}};
  };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    Kernel kernel;
    kernel.run = [p = progression_of(call), dtype = outputs[0].dtype](const KernelCall& run) {
      for (int64_t lane = 0; lane < run.lanes; ++lane)
        for (int64_t i = 0; i < p.count; ++i)
          store_f64(run.outputs->front().at(lane) + i * size_of(dtype), dtype,
                    p.start + static_cast<double>(i) * p.step);
    };
    return kernel;
  };
  op.rule.strategies = [](const OpCall&, const std::vector<TensorMeta>&, int64_t) {
    return std::vector<Strategy>{};
  };
  op.samples = [] {
    return std::vector<Sample>{{{{"start", int64_t{5}}}, {}, {}},
                               {{{"start", 0.5}, {"end", int64_t{3}}, {"step", 0.75}}, {}, {}}};
  };
  return op;
}

}  // namespace

void add_creation_ops(OpRegistry& ops) {
  add_rows(ops, kFillTable, kFillRows);
  ops.add(arange_record());
  ops.add(place_record("dim", "this rank's local size of a dim", false));
  ops.add(place_record(
      "start", "global index of this rank's first element of a dim; the global size if it has none",
      true));
}

}  // namespace shardproof
