// Registers index_sum: the entries of x along a dim, added up by their index. It is the gradient of
// embedding and of index_select.
//
//   x = [1 2 3], indices = [2 0 2], size = 4 gives [2 0 4 0]
//
// In x, the dims of `indices` replace the dim `dim` of the result. If each rank has some of the
// entries, their results add up to the whole. If each rank has a part of the result, it adds the
// entries of that part.
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/index/index_sum_item.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

constexpr const char* kIndexSum = "index_sum";

// True if the index is a list of the program, not a tensor.
bool has_list(const OpCall& call) { return !present(call, 1); }

Dims index_dims(const OpCall& call) {
  if (!has_list(call)) return input_shape(call, 1);
  return {static_cast<int64_t>(integer_list(*call.attrs, "index").size())};
}

// x as [outer, count, row]; the result as [outer, size, row].
struct SummedRows {
  int dim = 0;
  int64_t outer = 1, count = 1, row = 1;
};

SummedRows summed_rows(const OpCall& call) {
  const Dims &x = input_shape(call, 0), index = index_dims(call);
  SummedRows rows;
  const int dims = x.size() - index.size() + 1;
  const int64_t given = call.attrs->integer("dim");
  if (dims < 1 || given < -dims || given >= dims)
    refuse(kIndexSum, call, "dim {} is out of range for a result of {} dims", given, dims);
  rows.dim = static_cast<int>(given < 0 ? given + dims : given);
  rows.count = element_count(index);
  for (int d = 0; d < rows.dim; ++d) rows.outer *= x[d];
  for (int d = rows.dim + index.size(); d < x.size(); ++d) rows.row *= x[d];
  return rows;
}

std::vector<TensorMeta> infer_index_sum(const OpCall& call) {
  if (has_list(call) != call.attrs->has("index"))
    refuse(kIndexSum, call, "expects the index once: as a list, or as the tensor `indices`");
  if (!has_list(call)) require_integral(kIndexSum, call, 1);
  const Dims &x = input_shape(call, 0), index = index_dims(call);
  const SummedRows rows = summed_rows(call);
  Dims shape;
  for (int d = 0; d < rows.dim; ++d) shape.push_back(x[d]);
  const int64_t size = call.attrs->integer("size");
  if (size < 0) refuse(kIndexSum, call, "size must not be negative, found {}", size);
  shape.push_back(size);
  for (int d = 0; d < index.size(); ++d)
    if (x[rows.dim + d] != index[d])
      refuse(kIndexSum, call, "x has {} entries in dim {}, the index {}", x[rows.dim + d],
             rows.dim + d, index[d]);
  for (int d = rows.dim + index.size(); d < x.size(); ++d) shape.push_back(x[d]);
  if (input_meta(call, 0).dtype == DType::boolean)
    refuse(kIndexSum, call, "not defined for bool; cast it first");
  return {{input_meta(call, 0).dtype, shape}};
}

template <typename T>
void sum_lane(const SumRowsItem<T>& item, const std::vector<int64_t>& list, const SummedRows& rows,
              const LaneCall& lane) {
  SumRowsItem<T> whole = item;
  const int64_t* index = lane.inputs[1] ? lane.in<int64_t>(1) : list.data();
  for (int64_t i = 0; i < whole.count; ++i) {
    const int64_t row = whole.row_of(index[i]);
    if ((row < 0 || row >= whole.size) && !whole.skips(index[i]))
      throw_bad_input("index_sum: index {} is out of range for {} rows", index[i], whole.size);
  }
  Runs runs = {{0, whole.size}};
  if (lane.shard)
    runs = (*lane.shard->outputs)[0].owned(lane.shard->ranks[static_cast<size_t>(lane.lane)],
                                           rows.dim);
  whole.held = 0;
  for (const Run& run : runs) whole.held += run.length;
  std::fill_n(lane.out<T>(0), rows.outer * whole.held * rows.row, T{0});
  int64_t at = 0;
  for (const Run& run : runs) {
    whole.add_run(index, run, at, rows.outer, lane);
    at += run.length;
  }
}

template <typename T>
void set_sum(LanePlan& plan, const OpCall& call, int64_t held) {
  const SummedRows rows = summed_rows(call);
  const int64_t size = call.attrs->integer("size");
  SumRowsItem<T> item{
      size, 0, held, rows.count, rows.row, call.attrs->flag("from_end"), call.attrs->has("ignore"),
      0};
  if (item.ignores) item.ignored = call.attrs->integer("ignore");
  std::vector<int64_t> list;
  if (has_list(call)) list = integer_list(*call.attrs, "index");
  plan.body = [item, list, rows](const LaneCall& lane) { sum_lane<T>(item, list, rows, lane); };
  if (has_list(call)) return;
  plan.item = share_item(item);
  plan.items = rows.outer * rows.row;
  plan.item_of_part = [item, dim = rows.dim](const LaneCall& lane) mutable -> LaneItem {
    const std::optional<Run> run = single_run(
        (*lane.shard->outputs)[0].owned(lane.shard->ranks[static_cast<size_t>(lane.lane)], dim));
    if (!run) return {};
    item.start = run->start;
    item.held = run->length;
    return share_item(item);
  };
}

Kernel prepare_index_sum(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const DType compute = compute_dtype(outputs[0].dtype);
  const int64_t held = outputs[0].shape[summed_rows(call).dim];
  LanePlan plan{{compute, DType::i64}, {compute}, 0, {}};
  switch (compute) {
    case DType::f32: set_sum<float>(plan, call, held); break;
    case DType::f64: set_sum<double>(plan, call, held); break;
    case DType::c64: set_sum<C64>(plan, call, held); break;
    case DType::c128: set_sum<C128>(plan, call, held); break;
    default: set_sum<int64_t>(plan, call, held);
  }
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> index_sum_strategies(const OpCall& call, const std::vector<TensorMeta>&,
                                           int64_t) {
  const int dims = input_shape(call, 0).size(), index = index_dims(call).size();
  const auto dim = static_cast<size_t>(summed_rows(call).dim);
  std::string in = letters(dims);
  const std::string out = in.substr(0, dim) + "v" + in.substr(dim + static_cast<size_t>(index));
  if (has_list(call)) in[dim] = '1';
  const std::string of_index = has_list(call) ? "" : in.substr(dim, static_cast<size_t>(index));
  FactorOptions options;
  options.form_of['v'] = LocalExecution::needs_shard_index;
  std::vector<ReduceOp> linear = {ReduceOp::sum};
  if (!is_integral(input_meta(call, 0).dtype)) linear.push_back(ReduceOp::avg);
  options.partials = joint_partial_rules(linear, {0});
  const bool scalar_index = !has_list(call) && index == 0;
  return factor_strategies(in + "," + (scalar_index ? " " : of_index) + "->" + out, options);
}

// The entries of dy at the indices; an ignored one has added nothing.
FormulaTerm index_sum_gradient(Gradient& g) {
  const Attrs where{{"dim", g.integer("dim")}, {"from_end", g.flag("from_end")}};
  if (has_list(g.call)) {
    Attrs listed = where;
    listed.set("index", integer_list(*g.call.attrs, "index"));
    return g.op("index_select", {g.dy(), g.none()}, listed);
  }
  return taken_at(g, g.dy(), g[1], where);
}

}  // namespace

FormulaTerm taken_at(Gradient& g, const FormulaTerm& x, const FormulaTerm& index, Attrs attrs) {
  const int64_t dim = attrs.integer("dim") + (attrs.integer("dim") < 0 ? x.dims() : 0);
  attrs.set("dim", dim);
  FormulaTerm flat = index;
  if (index.dims() == 0) flat = g.op("unsqueeze", {index}, {{"dim", int64_t{0}}});
  if (index.dims() > 1)
    flat = g.op("flatten", {index}, {{"start_dim", int64_t{0}}, {"end_dim", int64_t{-1}}});
  const FormulaTerm rows = g.op("index_select", {x, flat}, std::move(attrs));
  if (index.dims() == 1) return rows;
  if (index.dims() == 0) return g.op("squeeze", {rows}, {{"dim", IntegerList{dim}}});
  const IntegerList sizes(index.shape().begin(), index.shape().end());
  return g.op("unflatten", {rows}, {{"dim", dim}, {"sizes", sizes}});
}

void add_index_sum(OpRegistry& ops) {
  OpRecord op;
  op.name = kIndexSum;
  op.family = "index";
  op.summary = "entries of x added up by their index along dim: the gradient of index_select";
  op.params = {params::tensor("x"),
               params::integer("dim"),
               params::or_tensor(params::optional("index", ParamKind::integers), "indices"),
               params::integer("size"),
               params::optional_tensor("indices"),
               params::boolean("from_end", false),
               params::optional("ignore", ParamKind::integer)};
  op.infer = infer_index_sum;
  op.prepare = prepare_index_sum;
  op.rule.strategies = index_sum_strategies;
  op.gradient = gradients({[](Gradient& g) {
    const FormulaTerm taken = index_sum_gradient(g);
    if (!g.given("ignore")) return taken;
    FormulaTerm kept = g.op("ne", {g[1], g.integer("ignore")});
    for (int d = g[1].dims(); d < taken.dims(); ++d)
      kept = g.op("unsqueeze", {kept}, {{"dim", int64_t{-1}}});
    return g.where(kept, taken, 0.0);
  }});
  op.samples = [] {
    const auto sample = [](DType dtype, const Dims& x, const Dims& index, Attrs attrs) {
      Sample made{std::move(attrs), {{dtype, x}, {DType::i64, index}}, {"", "ints(0, 5)"}};
      return made;
    };
    const auto at = [](int64_t dim, int64_t size) { return Attrs{{"dim", dim}, {"size", size}}; };
    Sample listed = sample(DType::f32, {4, 3}, {}, at(0, 5));
    listed.inputs[1] = absent_input();
    listed.attrs.set("index", std::vector<int64_t>{4, 0, 4, 1});
    Attrs ignoring = at(0, 5), backwards = at(1, 5);
    ignoring.set("ignore", int64_t{2});
    backwards.set("from_end", true);
    Sample from_end = sample(DType::f64, {2, 4}, {4}, backwards);
    from_end.fills[1] = "ints(-5, 5)";
    return std::vector<Sample>{sample(DType::f32, {2, 3, 4}, {2, 3}, at(0, 7)),
                               sample(DType::bf16, {7, 3}, {7}, at(0, 5)),
                               sample(DType::f32, {2, 5, 3}, {5}, at(1, 6)),
                               sample(DType::i64, {4}, {4}, at(0, 5)),
                               sample(DType::f32, {6, 2}, {6}, ignoring),
                               from_end,
                               listed};
  };
  ops.add(std::move(op));
}

}  // namespace shardproof
