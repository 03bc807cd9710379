// Registers sort and topk: values in order along a dim, with their indices. Equal values keep their
// order; NaN is larger than every number.
//
// Over a sharded dim, topk lowers to two ops, so that each rank sends only k candidates.
// topk_segments gives the first k elements in order of each segment, with their indices in the dim.
// topk_merge gives the first k of these; of two equal candidates the one with the smaller index is
// first.
#include <algorithm>
#include <limits>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/layout/copy_boxes.h"
#include "shardproof/ops/reduction/reduction_gradients.h"
#include "shardproof/ops/sort/sort_order.h"

namespace shardproof {
namespace {

Ordering ordering_of(const Dims& shape, int dim, int64_t kept, bool descending) {
  Ordering order{1, shape[dim], 1, kept, descending};
  for (int d = 0; d < dim; ++d) order.outer *= shape[d];
  for (int d = dim + 1; d < shape.size(); ++d) order.inner *= shape[d];
  return order;
}

// Sets `place` to the positions 0 .. count - 1 in the order of their elements.
template <typename Value, typename Index>
void order_places(int64_t* place, int64_t count, bool descending, const Value& value,
                  const Index& index) {
  for (int64_t at = 0; at < count; ++at) place[at] = at;
  std::sort(place, place + count, [&](int64_t a, int64_t b) {
    return is_sorted_before(value(a), index(a), value(b), index(b), descending);
  });
}

template <typename T>
void order_lane(const OrderPlan& plan, const LaneCall& lane) {
  auto* place = reinterpret_cast<int64_t*>(lane.scratch);
  const Ordering& order = plan.order;
  const int64_t segments = plan.segments(), k = order.kept;
  for (int64_t o = 0; o < order.outer; ++o)
    for (int64_t s = 0; s < segments; ++s)
      for (int64_t i = 0; i < order.inner; ++i) {
        const int64_t start = plan.starts_and_lengths[static_cast<size_t>(2 * s)];
        const int64_t size = plan.starts_and_lengths[static_cast<size_t>(2 * s + 1)];
        const int64_t base = (o * order.size + start - plan.from) * order.inner + i;
        auto value = [&](int64_t at) { return lane.in<T>(0)[base + at * order.inner]; };
        auto given = [&](int64_t at) { return lane.in<int64_t>(1)[base + at * order.inner]; };
        if (plan.has_indices)
          order_places(place, size, order.descending, value, given);
        else
          order_places(place, size, order.descending, value, [](int64_t at) { return at; });
        for (int64_t at = 0; at < k; ++at) {
          const int64_t target = ((o * segments + s) * k + at) * order.inner + i;
          lane.out<T>(0)[target] = at < size ? value(place[at]) : plan.last.as<T>();
          lane.out<int64_t>(1)[target] = at >= size         ? kNoIndex
                                         : plan.has_indices ? given(place[at])
                                                            : start + place[at];
        }
      }
}

OrderPlan whole_lines(const Ordering& order, bool has_indices = false) {
  return {order, {0, order.size}, 0, has_indices, {}};
}

Kernel order_kernel(OrderPlan order, const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const DType compute = order.compute = compute_dtype(outputs[0].dtype);
  LanePlan plan{{compute}, {compute, DType::i64}, order.order.size * int64_t{sizeof(int64_t)}, {}};
  if (order.has_indices) plan.inputs.push_back(DType::i64);
  plan.body = [order](const LaneCall& lane) {
    if (order.compute == DType::i64) return order_lane<int64_t>(order, lane);
    with_float(order.compute, [&](auto zero) { order_lane<decltype(zero)>(order, lane); });
  };
  Kernel kernel = lane_kernel(plan, call, outputs);
  kernel.plan = share_plan(std::move(order));
  return kernel;
}

void require_ordered(std::string_view name, const OpCall& call) {
  if (is_complex(input_meta(call, 0).dtype)) refuse(name, call, "complex numbers have no order");
  if (input_shape(call, 0).empty()) refuse(name, call, "needs at least 1 dim");
}

std::vector<TensorMeta> order_metas(const OpCall& call, int dim, int64_t kept) {
  Dims shape = input_shape(call, 0);
  shape[dim] = kept;
  return {{input_meta(call, 0).dtype, shape}, {DType::i64, shape}};
}

std::vector<Strategy> order_strategies(const OpCall& call, int dim) {
  std::string names = letters(input_shape(call, 0).size());
  names[static_cast<size_t>(dim)] = '1';
  return factor_strategies(names + "->" + names + "," + names, {});
}

int64_t kept_of(const OpCall& call) { return call.attrs->integer("k"); }
std::vector<int64_t> segments_given(const OpCall& call) {
  return integer_list(*call.attrs, "segments");
}
int order_dim(std::string_view name, const OpCall& call) {
  require_ordered(name, call);
  return dim_of(name, call, call.attrs->integer("dim"));
}

// Returns the spec of the candidates: k for each rank that shards dim of `spec`, side by side.
Spec candidates_spec(const Spec& spec, int dim, int64_t k, DType dtype) {
  std::vector<Placement> placements = spec.placements();
  int64_t parts = 1;
  for (const int axis : spec.axes_of_dim(dim)) {
    parts *= spec.mesh().axis_size(axis);
    placements[static_cast<size_t>(axis)] = S(dim);
  }
  Dims shape = spec.shape();
  shape[dim] = parts * k;
  return Spec(spec.mesh(), placements, shape, dtype, spec.order());
}

// Returns start and length of the segment of each group of k candidates.
std::vector<int64_t> segments_of(const Spec& spec, int dim, int64_t k) {
  const Spec candidates = candidates_spec(spec, dim, k, DType::i64);
  std::vector<int64_t> segments(static_cast<size_t>(candidates.shape()[dim] / k * 2), 0);
  const Lanes ranks = spec.mesh().ranks();
  for (int64_t i = 0; i < ranks.size(); ++i) {
    const Runs owned = spec.owned(ranks[i], dim);
    const auto at = static_cast<size_t>(candidates.owned(ranks[i], dim).front().start / k * 2);
    if (owned.empty()) continue;
    segments[at] = owned.front().start;
    segments[at + 1] = owned.front().length;
  }
  return segments;
}

// Returns a value of the dtype that sorts after, or equals, every other one.
double last_value(DType dtype, bool descending) {
  if (is_floating(dtype) && !descending) return std::numeric_limits<double>::quiet_NaN();
  if (is_floating(dtype))
    return dtype == DType::f8e4m3 ? -max_finite(dtype) : -std::numeric_limits<double>::infinity();
  return 0;
}
int64_t last_integer(DType dtype, bool descending) {
  if (dtype == DType::boolean) return descending ? 0 : 1;
  const int64_t largest = dtype == DType::i64 ? std::numeric_limits<int64_t>::max()
                                              : static_cast<int64_t>(max_finite(dtype));
  if (!descending) return largest;
  return is_signed(dtype) ? -largest - 1 : 0;
}

std::vector<int> lower_topk(const OpCall& call, const std::vector<Spec>& inputs, LowerBuilder& b) {
  const int dim = order_dim("topk", call);
  const int64_t k = kept_of(call);
  const Attrs kept{{"k", k}, {"dim", int64_t{dim}}, {"largest", call.attrs->flag("largest")}};
  Attrs of_segments = kept;
  of_segments.set("segments", segments_of(inputs[0], dim, k));
  std::vector<int> candidates = b.ops("topk_segments", of_segments, {b.input(0)});
  for (int& value : candidates) {
    std::vector<Placement> placements = b.spec(value).placements();
    for (Placement& p : placements)
      if (p.is_shard(dim)) p = R();
    value = b.redistribute(value, placements);
  }
  return b.ops("topk_merge", kept, candidates);
}

std::optional<std::vector<Spec>> segments_joint(const OpCall& call, const std::vector<Spec>& inputs,
                                                DType dtype) {
  const int dim = order_dim("topk_segments", call);
  const int64_t k = kept_of(call);
  const Spec& in = inputs[0];
  if (in.has_partial()) return std::nullopt;
  const Lanes ranks = in.mesh().ranks();
  for (int64_t i = 0; i < ranks.size(); ++i)
    if (in.owned(ranks[i], dim).size() > 1) return std::nullopt;
  std::vector<Placement> placements = in.placements();
  const bool cut = !in.axes_of_dim(dim).empty();
  if (cut && segments_of(in, dim, k) != segments_given(call)) return std::nullopt;
  if (cut) return {{candidates_spec(in, dim, k, dtype), candidates_spec(in, dim, k, DType::i64)}};
  Dims shape = in.shape();
  shape[dim] = static_cast<int64_t>(segments_given(call).size()) / 2 * k;
  return {{Spec(in.mesh(), placements, shape, dtype, in.order()),
           Spec(in.mesh(), placements, shape, DType::i64, in.order())}};
}

void check_topk_segments(const OpCall& call, const std::vector<const Number*>&) {
  const char* name = "topk_segments";
  const int64_t size = input_shape(call, 0)[order_dim(name, call)],
                from = call.attrs->integer("from");
  const std::vector<int64_t> given = segments_given(call);
  if (given.size() % 2 != 0) refuse(name, call, "segments must be pairs of a start and a length");
  if (kept_of(call) < 0) refuse(name, call, "k must not be negative, found {}", kept_of(call));
  for (size_t i = 0; i < given.size(); i += 2) {
    const int64_t length = given[i + 1], last = size - length;
    const bool inside = length >= 0 && last >= 0 && given[i] >= from && given[i] <= from + last;
    if (!inside && length != 0)
      refuse(name, call, "the segment of length {} from {} is not in the dim", length, given[i]);
  }
}

void add_segments(OpRegistry& ops) {
  OpRecord segments;
  segments.name = "topk_segments";
  segments.family = "index";
  segments.summary =
      "the first k in order of each segment (start, length, ..) of a dim, and their indices";
  segments.params = {params::tensor("input"),      params::integer("k"),
                     params::integer("dim"),       params::boolean("largest", true),
                     params::integers("segments"), params::integer("from", 0)};
  segments.check = check_topk_segments;
  segments.infer = [](const OpCall& call) {
    return order_metas(call, order_dim("topk_segments", call),
                       static_cast<int64_t>(segments_given(call).size()) / 2 * kept_of(call));
  };
  segments.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    const int dim = order_dim("topk_segments", call);
    const Ordering order =
        ordering_of(input_shape(call, 0), dim, kept_of(call), call.attrs->flag("largest"));
    const DType dtype = outputs[0].dtype;
    return order_kernel(
        {order,
         segments_given(call),
         call.attrs->integer("from"),
         false,
         {last_value(dtype, order.descending), last_integer(dtype, order.descending)}},
        call, outputs);
  };
  segments.rule.strategies = [](const OpCall&, const std::vector<TensorMeta>&, int64_t) {
    return std::vector<Strategy>{};
  };
  segments.rule.joint = [](const OpCall& call, const std::vector<TensorMeta>& outputs,
                           const std::vector<Spec>& inputs) {
    return segments_joint(call, inputs, outputs[0].dtype);
  };
  segments.rule.joint_form = LocalExecution::local_attrs;
  segments.rule.local_attrs = [](const OpCall& call, const std::vector<Spec>& inputs,
                                 const std::vector<Spec>&, int64_t rank) {
    const int dim = order_dim("topk_segments", call);
    Attrs attrs = *call.attrs;
    if (inputs[0].axes_of_dim(dim).empty()) return attrs;
    const Runs own = inputs[0].owned(rank, dim);
    const int64_t start = own.empty() ? 0 : own.front().start;
    attrs.set("segments", std::vector<int64_t>{start, length(own)});
    attrs.set("from", start);
    return attrs;
  };
  segments.samples = [] {
    Attrs thirds{{"k", int64_t{2}},
                 {"dim", int64_t{0}},
                 {"largest", true},
                 {"segments", std::vector<int64_t>{0, 2, 2, 2, 4, 1}}};
    Attrs halves{{"k", int64_t{3}},
                 {"dim", int64_t{-1}},
                 {"largest", false},
                 {"segments", std::vector<int64_t>{0, 3, 3, 2}}};
    return std::vector<Sample>{sample_of({{{5, 3}}}, thirds),
                               sample_of({{{2, 5}}, DType::i64}, halves)};
  };
  ops.add(without_gradient(std::move(segments)));
}

void add_merge(OpRegistry& ops) {
  OpRecord merge;
  merge.name = "topk_merge";
  merge.family = "index";
  merge.summary =
      "the first k in order of candidates with indices; of equal ones the smaller index first";
  merge.params = {params::tensor("input"), params::tensor("indices"), params::integer("k"),
                  params::integer("dim"), params::boolean("largest", true)};
  merge.infer = [](const OpCall& call) {
    require_integral("topk_merge", call, 1);
    if (!(input_shape(call, 0) == input_shape(call, 1)))
      refuse("topk_merge", call, "values and indices must have one shape");
    return order_metas(call, order_dim("topk_merge", call), kept_of(call));
  };
  merge.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    const Ordering order = ordering_of(input_shape(call, 0), order_dim("topk_merge", call),
                                       kept_of(call), call.attrs->flag("largest"));
    return order_kernel(whole_lines(order, true), call, outputs);
  };
  merge.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    std::string names = letters(input_shape(call, 0).size());
    names[static_cast<size_t>(order_dim("topk_merge", call))] = '1';
    return factor_strategies(names + "," + names + "->" + names + "," + names, {});
  };
  merge.samples = [] {
    Sample sample = sample_of({{{5, 6}, {5, 6}}, DType::f32, {"ints", "ints(0, 9)"}},
                              {{"k", int64_t{2}}, {"dim", int64_t{-1}}, {"largest", true}});
    sample.inputs[1].dtype = DType::i64;
    return std::vector<Sample>{sample};
  };
  ops.add(without_gradient(std::move(merge)));
}

int sort_dim(const OpCall& call) {
  require_ordered("sort", call);
  return dim_of("sort", call, call.attrs->integer("dim"));
}

int topk_dim(const OpCall& call) {
  require_ordered("topk", call);
  int dim = dim_of("topk", call, call.attrs->integer("dim"));
  int64_t k = call.attrs->integer("k"), size = input_shape(call, 0)[dim];
  if (k < 0 || k > size) refuse("topk", call, "k must be from 0 to {}, found {}", size, k);
  return dim;
}

FormulaTerm to_chosen_entries(Gradient& g) { return scattered_to(g, g.dy(), g.y(1), g.dim()); }

}  // namespace

void add_sort_ops(OpRegistry& ops) {
  OpRecord sort;
  sort.name = "sort";
  sort.family = "index";
  sort.summary = "values in order along a dim, and their indices; stable";
  sort.params = {params::tensor("input"), params::integer("dim", -1),
                 params::boolean("descending", false), params::boolean("stable", true)};
  sort.infer = [](const OpCall& call) {
    int dim = sort_dim(call);
    return order_metas(call, dim, input_shape(call, 0)[dim]);
  };
  sort.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    int dim = sort_dim(call);
    const Dims& shape = input_shape(call, 0);
    return order_kernel(
        whole_lines(ordering_of(shape, dim, shape[dim], call.attrs->flag("descending"))), call,
        outputs);
  };
  sort.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return order_strategies(call, sort_dim(call));
  };
  sort.samples = [] {
    Attrs rows{{"dim", int64_t{0}}, {"descending", false}};
    Attrs last{{"dim", int64_t{-1}}, {"descending", true}};
    return std::vector<Sample>{sample_of({{{7, 3}}}, rows), sample_of({{{2, 5}}, DType::i64}, last),
                               sample_of({{{4, 1}}, DType::bf16}, rows)};
  };
  sort.gradient = gradients({to_chosen_entries});
  accept_scalar_input(sort);
  ops.add(with_kinks(std::move(sort), "equal elements"));

  OpRecord topk;
  topk.name = "topk";
  topk.family = "index";
  topk.summary = "the k largest (or smallest) values along a dim in order, and their indices";
  topk.params = {params::tensor("input"), params::integer("k"), params::integer("dim", -1),
                 params::boolean("largest", true), params::boolean("sorted", true)};
  topk.infer = [](const OpCall& call) {
    return order_metas(call, topk_dim(call), call.attrs->integer("k"));
  };
  topk.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return order_kernel(whole_lines(ordering_of(input_shape(call, 0), topk_dim(call), kept_of(call),
                                                call.attrs->flag("largest"))),
                        call, outputs);
  };
  topk.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    const int dim = topk_dim(call);
    std::vector<Strategy> strategies = order_strategies(call, dim);
    if (kept_of(call) > 0)
      strategies.push_back(
          {{S(dim)}, {R(), R()}, LocalExecution::lower_to_ops, ShardLayout::contiguous});
    return strategies;
  };
  topk.rule.lower = lower_topk;
  topk.samples = [] {
    Attrs two{{"k", int64_t{2}}, {"dim", int64_t{-1}}, {"largest", true}};
    Attrs least{{"k", int64_t{3}}, {"dim", int64_t{0}}, {"largest", false}};
    return std::vector<Sample>{sample_of({{{2, 61}}}, two), sample_of({{{5, 8}}}, two),
                               sample_of({{{5, 3}}, DType::bf16}, least),
                               sample_of({{{2, 2, 4}}, DType::i64}, two)};
  };
  topk.gradient = gradients({to_chosen_entries});
  accept_scalar_input(topk);
  ops.add(with_kinks(std::move(topk), "equal elements"));
  add_segments(ops);
  add_merge(ops);
}

}  // namespace shardproof
