// sort and topk: values in order along a dim, with the indices they came from. Equal values keep
// their order; NaN counts as larger than all.
#include <algorithm>
#include <cmath>

#include "shardproof/ops/call_text.h"
#include "shardproof/ops/families.h"
#include "shardproof/ops/lane_kernel.h"
#include "shardproof/ops/params.h"

namespace shardproof {
namespace {

// A dim in the midst of [outer, size, inner]; the first `kept` in order are given.
struct Ordering {
  int64_t outer = 1, size = 0, inner = 1, kept = 0;
  bool descending = false;
};

Ordering ordering_of(const Dims& shape, int dim, int64_t kept, bool descending) {
  Ordering order{1, shape[dim], 1, kept, descending};
  for (int d = 0; d < dim; ++d) order.outer *= shape[d];
  for (int d = dim + 1; d < shape.size(); ++d) order.inner *= shape[d];
  return order;
}

template <typename T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) return !std::isnan(a);
  }
  return a < b;
}

template <typename T>
void order_lane(const Ordering& order, const LaneCall& lane) {
  auto* place = reinterpret_cast<int64_t*>(lane.scratch);
  for (int64_t o = 0; o < order.outer; ++o) {
    for (int64_t i = 0; i < order.inner; ++i) {
      const T* row = lane.in<T>(0) + o * order.size * order.inner + i;
      auto value = [&](int64_t at) { return row[at * order.inner]; };
      for (int64_t at = 0; at < order.size; ++at) place[at] = at;
      // The index decides between equals, so that no sort needs memory to be stable.
      std::sort(place, place + order.size, [&](int64_t a, int64_t b) {
        if (less(value(a), value(b))) return !order.descending;
        if (less(value(b), value(a))) return order.descending;
        return a < b;
      });
      int64_t target = o * order.kept * order.inner + i;
      for (int64_t at = 0; at < order.kept; ++at, target += order.inner) {
        lane.out<T>(0)[target] = value(place[at]);
        lane.out<int64_t>(1)[target] = place[at];
      }
    }
  }
}

Kernel prepare_order(const Ordering& order, const OpCall& call,
                     const std::vector<TensorMeta>& outputs) {
  DType compute = compute_dtype(outputs[0].dtype);
  LanePlan plan{{compute}, {compute, DType::i64}, order.size * int64_t{sizeof(int64_t)}, {}};
  plan.body = [order, compute](const LaneCall& lane) {
    if (compute == DType::i64) return order_lane<int64_t>(order, lane);
    with_float(compute, [&](auto zero) { order_lane<decltype(zero)>(order, lane); });
  };
  return lane_kernel(plan, call, outputs);
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

// Sorting moves the k-th value by no more than the largest error of its row; which index stands
// there is then unknown where anything is.
std::vector<Bound> order_bound(const BoundCall& call, int dim) {
  if (all_exact(call))
    return {Bound::exact_of(*call.outputs[0]), Bound::exact_of(*call.outputs[1])};
  const Tensor& out = *call.outputs[0];
  Ordering in = ordering_of(call.inputs[0]->shape, dim, out.shape[dim], false);
  std::vector<double> errors(static_cast<size_t>(out.elements()));
  for (int64_t o = 0; o < in.outer; ++o) {
    for (int64_t i = 0; i < in.inner; ++i) {
      double largest = 0;
      for (int64_t at = 0; at < in.size; ++at)
        largest =
            std::max(largest, error_of(*call.input_bounds[0], (o * in.size + at) * in.inner + i));
      for (int64_t at = 0; at < in.kept; ++at)
        errors[static_cast<size_t>((o * in.kept + at) * in.inner + i)] = largest;
    }
  }
  return {bound_from_errors(out, errors), bound_from_errors(*call.outputs[1], errors)};
}

int sort_dim(const OpCall& call) {
  require_ordered("sort", call);
  return dim_of("sort", call, call.attrs->integer("dim"));
}

int topk_dim(const OpCall& call) {
  require_ordered("topk", call);
  int dim = dim_of("topk", call, call.attrs->integer("dim"));
  int64_t k = call.attrs->integer("k"), size = input_shape(call, 0)[dim];
  if (k < 0 || k > size) refuse("topk", call, "k = {} of {} elements", k, size);
  return dim;
}

}  // namespace

void add_order_ops(OpRegistry& ops) {
  OpRecord sort;
  sort.name = "sort";
  sort.family = "index";
  sort.summary = "values in order along a dim, and their indices; stable";
  sort.params = {params::tensor("input"), params::integer("dim", -1),
                 params::boolean("descending", false)};
  sort.infer = [](const OpCall& call) {
    int dim = sort_dim(call);
    return order_metas(call, dim, input_shape(call, 0)[dim]);
  };
  sort.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    int dim = sort_dim(call);
    const Dims& shape = input_shape(call, 0);
    return prepare_order(ordering_of(shape, dim, shape[dim], call.attrs->flag("descending")), call,
                         outputs);
  };
  sort.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return order_strategies(call, sort_dim(call));
  };
  sort.bound = [](const BoundCall& call) { return order_bound(call, sort_dim(*call.call)); };
  sort.samples = [] {
    Attrs rows{{"dim", int64_t{0}}, {"descending", false}};
    Attrs last{{"dim", int64_t{-1}}, {"descending", true}};
    return std::vector<Sample>{sample_of({{{7, 3}}}, rows), sample_of({{{2, 5}}, DType::i64}, last),
                               sample_of({{{4, 1}}, DType::bf16}, rows)};
  };
  ops.add(std::move(sort));

  OpRecord topk;
  topk.name = "topk";
  topk.family = "index";
  topk.summary = "the k largest (or smallest) values along a dim in order, and their indices";
  topk.params = {params::tensor("input"), params::integer("k"), params::integer("dim", -1),
                 params::boolean("largest", true)};
  topk.infer = [](const OpCall& call) {
    return order_metas(call, topk_dim(call), call.attrs->integer("k"));
  };
  topk.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_order(ordering_of(input_shape(call, 0), topk_dim(call), call.attrs->integer("k"),
                                     call.attrs->flag("largest")),
                         call, outputs);
  };
  topk.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return order_strategies(call, topk_dim(call));
  };
  topk.bound = [](const BoundCall& call) { return order_bound(call, topk_dim(*call.call)); };
  topk.samples = [] {
    Attrs two{{"k", int64_t{2}}, {"dim", int64_t{-1}}, {"largest", true}};
    Attrs least{{"k", int64_t{3}}, {"dim", int64_t{0}}, {"largest", false}};
    return std::vector<Sample>{sample_of({{{5, 8}}}, two),
                               sample_of({{{5, 3}}, DType::bf16}, least),
                               sample_of({{{2, 2, 4}}, DType::i64}, two)};
  };
  ops.add(std::move(topk));
}

}  // namespace shardproof
