// Registers cumsum, and the two ops it lowers to over a sharded dim:
//
//   segment_sum       gives the totals of the ranks' segments: a small tensor, summed over ranks
//   cumsum_segments   starts each segment from the totals before it
//
// Both are defined on one device too, because `starts` are global indices. Example: x = [1 2 3 4]
// on 2 ranks has starts [0 2] and totals [3 7]. The ranks give [1 3] and [3+3 3+3+4] = [6 10].
#include <algorithm>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/shard_index.h"
#include "shardproof/ops/elementwise/binary_functors.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/layout/copy_boxes.h"
#include "shardproof/ops/row/row_gradients.h"
#include "shardproof/ops/row/row_kernel.h"
#include "shardproof/ops/row/row_transforms.h"

namespace shardproof {
namespace {

RowTransform cumsum_transform(DType compute) {
  switch (compute) {
    case DType::f32: return run_row<CumsumRow, float>;
    case DType::f64: return run_row<CumsumRow, double>;
    case DType::c64: return run_row<CumsumRow, C64>;
    case DType::c128: return run_row<CumsumRow, C128>;
    default: return run_row<CumsumRow, int64_t>;
  }
}

DType sum_dtype(DType in) { return is_integral(in) || in == DType::boolean ? DType::i64 : in; }

int cumsum_dim(std::string_view name, const OpCall& call) {
  return dim_of(name, call, call.attrs->integer("dim"));
}
std::vector<int64_t> starts_of(const OpCall& call) { return integer_list(*call.attrs, "starts"); }

// Sums and averages pass if the conversion of the input keeps them.
std::vector<PartialPropagation> linear_sums(const OpCall& call, const std::vector<int>& together) {
  std::vector<ReduceOp> ops = {ReduceOp::sum, ReduceOp::avg};
  const DType in = call.inputs[0].dtype;
  std::erase_if(ops, [&](ReduceOp op) { return !can_convert_partial(op, in, sum_dtype(in)); });
  return joint_partial_rules(ops, together);
}

std::vector<Strategy> cumsum_strategies(const OpCall& call) {
  const std::string all = letters(call.inputs[0].shape.size());
  const char active = all[static_cast<size_t>(cumsum_dim("cumsum", call))];
  FactorOptions options;
  options.form_of[active] = LocalExecution::lower_to_ops;
  options.cut_of[active] = ShardLayout::contiguous;
  // In a narrow dtype the lowering rounds once, at the end. Partials would be rounded part by part,
  // so they do not pass.
  const DType result = sum_dtype(call.inputs[0].dtype);
  if (compute_dtype(result) == result) options.partials = linear_sums(call, {0});
  return factor_strategies(all + "->" + all, options);
}

// Returns the first global index of every rank that owns any, sorted, without repeats.
std::vector<int64_t> segment_starts(const Spec& spec, int dim) {
  std::vector<int64_t> starts = {0};
  for (int64_t i = 0; i < spec.mesh().size(); ++i) {
    const Runs runs = spec.owned(spec.mesh().rank_at(unravel(i, spec.mesh().shape())), dim);
    if (!runs.empty()) starts.push_back(runs.front().start);
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

int lower_cumsum(const OpCall& call, const std::vector<Spec>& inputs, LowerBuilder& b) {
  const int64_t dim = cumsum_dim("cumsum", call);
  const DType result = sum_dtype(call.inputs[0].dtype), wide = compute_dtype(result);
  const Attrs segments{{"dim", dim}, {"starts", segment_starts(inputs[0], static_cast<int>(dim))}};
  const int x =
      call.inputs[0].dtype == wide ? b.input(0) : b.op("cast", {{"dtype", wide}}, {b.input(0)});
  const int parts = b.op("segment_sum", segments, {x});
  // Reduces only the axes that shard dim: partials of other axes pass through to the result.
  std::vector<Placement> placements = b.spec(parts).placements();
  for (size_t axis = 0; axis < placements.size(); ++axis)
    if (inputs[0].placement(static_cast<int>(axis)).is_shard(static_cast<int>(dim)))
      placements[axis] = R();
  const int totals = b.redistribute(parts, placements);
  const int sums = b.op("cumsum_segments", segments, {x, totals});
  return result == wide ? sums : b.op("cast", {{"dtype", result}}, {sums});
}

std::vector<Sample> cumsum_samples() {
  return {{{{"dim", int64_t{0}}}, {{DType::f32, {5, 3}}}, {"ints"}},
          {{{"dim", int64_t{-1}}}, {{DType::f32, {4, 6}}}, {"uniform(-1, 1)"}},
          {{{"dim", int64_t{1}}}, {{DType::bf16, {2, 5, 2}}}, {"uniform(-1, 1)"}},
          {{{"dim", int64_t{0}}}, {{DType::i32, {7}}}, {"ints"}},
          {{{"dim", int64_t{0}}}, {{DType::i64, {7}}}, {"ints"}}};
}

OpRecord cumsum_record() {
  OpRecord op;
  op.name = "cumsum";
  op.family = "scan";
  op.summary = "running sum along dim; integers give i64";
  op.params = {{"x", ParamKind::tensor, true, {}}, {"dim", ParamKind::integer, true, {}}};
  op.infer = [](const OpCall& call) -> std::vector<TensorMeta> {
    cumsum_dim("cumsum", call);
    return {{sum_dtype(call.inputs[0].dtype), call.inputs[0].shape}};
  };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    const DType compute = compute_dtype(outputs[0].dtype);
    return row_kernel(call.inputs[0].shape, cumsum_dim("cumsum", call), compute,
                      cumsum_transform(compute), typeid(CumsumRow));
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return cumsum_strategies(call);
  };
  op.rule.lower = [](const OpCall& call, const std::vector<Spec>& inputs, LowerBuilder& b) {
    return std::vector<int>{lower_cumsum(call, inputs, b)};
  };
  op.samples = cumsum_samples;
  op.gradient = gradients({cumsum_gradient});
  accept_scalar_input(op);
  add_dtype_parameter(op);
  return op;
}

int64_t segment_of(const std::vector<int64_t>& starts, int64_t index) {
  return std::upper_bound(starts.begin(), starts.end(), index) - starts.begin() - 1;
}

struct SegmentPlan {
  int dim = 0;
  std::vector<int64_t> starts;
};

// Calls f(first element of x, global index, first element of the totals, inner) for each index
// along dim.
template <typename F>
void for_each_slice(const SegmentPlan& plan, const KernelCall& call, int64_t lane,
                    const Dims& shape, F f) {
  const std::vector<int64_t> indices =
      global_indices(place_of_input(call, 0, lane), shape, plan.dim);
  const int64_t inner = contiguous_strides(shape)[plan.dim], count = shape[plan.dim];
  if (element_count(shape) == 0) return;
  const int64_t outer = element_count(shape) / (count * inner);
  const auto segments = static_cast<int64_t>(plan.starts.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < count; ++k)
      f((o * count + k) * inner, indices[static_cast<size_t>(k)], o * segments * inner, inner);
}

template <typename C>
void segment_sum(const SegmentPlan& plan, const KernelCall& call) {
  const LaneView& x = (*call.inputs)[0];
  const LaneView& out = (*call.outputs)[0];
  for (int64_t lane = 0; lane < call.lanes; ++lane) {
    const auto* from = reinterpret_cast<const C*>(x.at(lane));
    auto* to = reinterpret_cast<C*>(out.at(lane));
    std::fill_n(to, element_count(out.shape), C{0});
    for_each_slice(plan, call, lane, x.shape,
                   [&](int64_t at, int64_t global, int64_t totals, int64_t inner) {
                     C* sums = to + totals + segment_of(plan.starts, global) * inner;
                     for (int64_t i = 0; i < inner; ++i)
                       sums[i] = functor::Add::apply(sums[i], from[at + i]);
                   });
  }
}

template <typename C>
void cumsum_segments(const SegmentPlan& plan, const KernelCall& call) {
  const LaneView& x = (*call.inputs)[0];
  for (int64_t lane = 0; lane < call.lanes; ++lane) {
    const auto* from = reinterpret_cast<const C*>(x.at(lane));
    const auto* carry = reinterpret_cast<const C*>((*call.inputs)[1].at(lane));
    auto* to = reinterpret_cast<C*>((*call.outputs)[0].at(lane));
    for_each_slice(plan, call, lane, x.shape,
                   [&](int64_t at, int64_t global, int64_t totals, int64_t inner) {
                     const int64_t segment = segment_of(plan.starts, global);
                     const bool first = plan.starts[static_cast<size_t>(segment)] == global;
                     for (int64_t i = 0; i < inner; ++i) {
                       C before{0};
                       if (first) {
                         for (int64_t s = 0; s < segment; ++s)
                           before = functor::Add::apply(before, carry[totals + s * inner + i]);
                       } else {
                         before = to[at - inner + i];
                       }
                       to[at + i] = functor::Add::apply(before, from[at + i]);
                     }
                   });
  }
}

using SegmentRun = void (*)(const SegmentPlan&, const KernelCall&);

Kernel segment_kernel(const OpCall& call, int dim, SegmentRun f32, SegmentRun f64, SegmentRun i64) {
  const DType dtype = call.inputs[0].dtype;
  Kernel kernel;
  kernel.run = [plan = SegmentPlan{dim, starts_of(call)},
                run = dtype == DType::f32   ? f32
                      : dtype == DType::f64 ? f64
                                            : i64](const KernelCall& k) { run(plan, k); };
  return kernel;
}

void check_sum_segments(std::string_view name, const OpCall& call) {
  const DType dtype = call.inputs[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f64 && dtype != DType::i64)
    refuse(name, call, "expected f32, f64 or i64, found {}", shardproof::name(dtype));
  const std::vector<int64_t> starts = starts_of(call);
  if (starts.empty() || starts.front() != 0 || !std::is_sorted(starts.begin(), starts.end()))
    refuse(name, call, "starts must begin with 0 and ascend");
  cumsum_dim(name, call);
}

Dims totals_shape(std::string_view name, const OpCall& call) {
  Dims shape = call.inputs[0].shape;
  shape[cumsum_dim(name, call)] = static_cast<int64_t>(starts_of(call).size());
  return shape;
}

std::vector<Strategy> segment_sum_strategies(const OpCall& call) {
  std::string in = letters(call.inputs[0].shape.size()), out = in;
  out[static_cast<size_t>(cumsum_dim("segment_sum", call))] = '1';
  FactorOptions options;
  options.form = LocalExecution::needs_shard_index;
  options.partials = linear_sums(call, {0});
  return factor_strategies(in + "->" + out, options);
}

// Legal if each rank's part of dim is one run that begins where a segment begins. The totals must
// be whole along dim and have the same placements on other dims.
std::optional<std::vector<Spec>> place_segments(const OpCall& call,
                                                const std::vector<Spec>& inputs) {
  const int dim = cumsum_dim("cumsum_segments", call);
  const Spec &x = inputs[0], &totals = inputs[1];
  for (int axis = 0; axis < x.mesh().axis_count(); ++axis) {
    const Placement& cut = x.placement(axis);
    const Placement expected = cut.is_shard(dim) ? R() : cut;
    if (cut.is_partial() && !(cut == P(ReduceOp::sum)) && !(cut == P(ReduceOp::avg)))
      return std::nullopt;
    if (!(totals.placement(axis) == expected)) return std::nullopt;
  }
  const std::vector<int64_t> starts = starts_of(call);
  for (int64_t i = 0; i < x.mesh().size(); ++i) {
    const Runs runs = x.owned(x.mesh().rank_at(unravel(i, x.mesh().shape())), dim);
    if (runs.size() > 1) return std::nullopt;
    if (!runs.empty() && !std::binary_search(starts.begin(), starts.end(), runs.front().start))
      return std::nullopt;
  }
  return std::vector<Spec>{x};
}

OpRecord segment_sum_record() {
  OpRecord op;
  op.name = "segment_sum";
  op.differentiable = Differentiable::no;
  op.family = "scan";
  op.summary = "sums along dim of the segments that begin at starts";
  op.params = {{"x", ParamKind::tensor, true, {}},
               {"dim", ParamKind::integer, true, {}},
               {"starts", ParamKind::integers, true, {}}};
  op.infer = [](const OpCall& call) -> std::vector<TensorMeta> {
    check_sum_segments("segment_sum", call);
    return {{call.inputs[0].dtype, totals_shape("segment_sum", call)}};
  };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>&) {
    return segment_kernel(call, cumsum_dim("segment_sum", call), segment_sum<float>,
                          segment_sum<double>, segment_sum<int64_t>);
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return segment_sum_strategies(call);
  };
  op.samples = [] {
    const std::vector<int64_t> starts = {0, 2, 3};
    return std::vector<Sample>{
        {{{"dim", int64_t{0}}, {"starts", starts}}, {{DType::f32, {7, 2}}}, {"uniform(-1, 1)"}},
        {{{"dim", int64_t{1}}, {"starts", starts}}, {{DType::i64, {2, 6}}}, {"ints"}}};
  };
  return op;
}

OpRecord cumsum_segments_record() {
  OpRecord op;
  op.name = "cumsum_segments";
  op.differentiable = Differentiable::no;
  op.family = "scan";
  op.summary = "running sums along dim, each segment beginning with the totals before it";
  op.params = {{"x", ParamKind::tensor, true, {}},
               {"totals", ParamKind::tensor, true, {}},
               {"dim", ParamKind::integer, true, {}},
               {"starts", ParamKind::integers, true, {}}};
  op.infer = [](const OpCall& call) -> std::vector<TensorMeta> {
    check_sum_segments("cumsum_segments", call);
    if (call.inputs[1].dtype != call.inputs[0].dtype ||
        call.inputs[1].shape != totals_shape("cumsum_segments", call))
      refuse("cumsum_segments", call, "expected totals of shape {}",
             to_string(totals_shape("cumsum_segments", call)));
    return {{call.inputs[0].dtype, call.inputs[0].shape}};
  };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>&) {
    return segment_kernel(call, cumsum_dim("cumsum_segments", call), cumsum_segments<float>,
                          cumsum_segments<double>, cumsum_segments<int64_t>);
  };
  op.rule.strategies = [](const OpCall&, const std::vector<TensorMeta>&, int64_t) {
    return std::vector<Strategy>{};
  };
  op.rule.joint = [](const OpCall& call, const std::vector<TensorMeta>&,
                     const std::vector<Spec>& inputs) { return place_segments(call, inputs); };
  op.rule.joint_form = LocalExecution::needs_shard_index;
  op.samples = [] {
    const std::vector<int64_t> halves = {0, 4}, thirds = {0, 2, 4};
    return std::vector<Sample>{{{{"dim", int64_t{0}}, {"starts", halves}},
                                {{DType::f32, {7, 2}}, {DType::f32, {2, 2}}},
                                {"ints", "ints"}},
                               {{{"dim", int64_t{1}}, {"starts", thirds}},
                                {{DType::i64, {2, 6}}, {DType::i64, {2, 3}}},
                                {"ints", "ints"}}};
  };
  return op;
}

}  // namespace

void add_cumsum_ops(OpRegistry& ops) {
  ops.add(cumsum_record());
  ops.add(segment_sum_record());
  ops.add(cumsum_segments_record());
}

}  // namespace shardproof
