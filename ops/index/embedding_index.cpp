// Registers embedding, index_select, one_hot: rows by their indices. An index out of range is an
// error in the user's data. The kernel throws Error(bad_input) that names it, and never reads
// outside the tensor.
//
// On a sharded dim a rank returns the rows that it owns, and zeros for other rows. So the ranks'
// results sum to the whole exactly.
#include <cstring>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/index/index_items.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {

void throw_item_error(const LanePlan& plan, const LaneCall& on_host) {
  plan.body(on_host);
  SP_UNREACHABLE("the host accepts an index that the device rejected");
}

namespace {

// The source as [outer, size, row].
struct IndexedRows {
  std::string name;
  int64_t outer = 1, size = 0, row_bytes = 0, count = 0;
  int input = 0, dim = 0;  // which input is read, along which of its dims
  bool from_end = false;   // true: -1 is the last row
};

void take_rows(const IndexedRows& rows, const LaneCall& call, const int64_t* index) {
  Runs runs = {{0, rows.size}};
  int64_t size = rows.size;
  if (call.shard) {
    runs = call.owned_input(rows.input, rows.dim);
    size = (*call.shard->inputs)[static_cast<size_t>(rows.input)].shape()[rows.dim];
  }
  const std::byte* source = call.inputs[rows.input];
  std::byte* target = call.outputs[0];
  for (int64_t o = 0; o < rows.outer; ++o) {
    for (int64_t i = 0; i < rows.count; ++i, target += rows.row_bytes) {
      const int64_t row = rows.from_end && index[i] < 0 ? index[i] + size : index[i];
      if (row < 0 || row >= size)
        throw_bad_input("{}: index {} is out of range for {} rows", rows.name, index[i], size);
      int64_t at = call.shard ? local_index(runs, row) : row;
      if (at < 0)
        std::memset(target, 0, static_cast<size_t>(rows.row_bytes));
      else
        std::memcpy(target, source + (o * rows.size + at) * rows.row_bytes,
                    static_cast<size_t>(rows.row_bytes));
    }
  }
}

IndexedRows indexed_rows(std::string name, const Dims& shape, int dim, DType dtype, int64_t count) {
  IndexedRows rows{std::move(name), 1, shape[dim], size_of(dtype), count, 0, dim};
  for (int d = 0; d < dim; ++d) rows.outer *= shape[d];
  for (int d = dim + 1; d < shape.size(); ++d) rows.row_bytes *= shape[d];
  return rows;
}

TakeRowsItem take_rows_item(const IndexedRows& rows, int data, int index, DType dtype) {
  const int64_t bytes = size_of(dtype);
  return {data,  index,        rows.size, 0, rows.size, rows.count, rows.row_bytes / bytes,
          bytes, rows.from_end};
}

std::function<LaneItem(const LaneCall&)> item_of_held_rows(const IndexedRows& rows,
                                                           TakeRowsItem item) {
  return [input = rows.input, dim = rows.dim, item](const LaneCall& lane) mutable -> LaneItem {
    const std::optional<Run> held = single_run(lane.owned_input(input, dim));
    if (!held) return {};
    item.size = (*lane.shard->inputs)[static_cast<size_t>(input)].shape()[dim];
    item.start = held->start;
    item.held = held->length;
    return share_item(item);
  };
}

std::vector<TensorMeta> infer_embedding(const OpCall& call) {
  require_integral("embedding", call, 0);
  require_dims("embedding", call, 1, 2);
  Dims shape = input_shape(call, 0);
  if (shape.size() >= kMaxDims)
    refuse("embedding", call, "the result would have more than {} dims", kMaxDims);
  shape.push_back(input_shape(call, 1)[1]);
  return {{input_meta(call, 1).dtype, shape}};
}

Kernel prepare_embedding(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  DType dtype = input_meta(call, 1).dtype;
  IndexedRows rows = indexed_rows("embedding", input_shape(call, 1), 0, dtype,
                                  element_count(input_shape(call, 0)));
  rows.input = 1;
  LanePlan plan{{DType::i64, dtype}, {dtype}, 0, {}};
  plan.body = [rows](const LaneCall& lane) { take_rows(rows, lane, lane.in<int64_t>(0)); };
  const TakeRowsItem item = take_rows_item(rows, 1, 0, dtype);
  plan.item = share_item(item);
  plan.item_of_part = item_of_held_rows(rows, item);
  plan.items = element_count(outputs[0].shape);
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> embedding_strategies(const OpCall& call, const std::vector<TensorMeta>&,
                                           int64_t) {
  std::string ids = letters(input_shape(call, 0).size());
  FactorOptions options;
  options.form_of['v'] = LocalExecution::needs_shard_index;
  options.partials = mover_partial_rules({1});
  return factor_strategies((ids.empty() ? " " : ids) + ",vh->" + ids + "h", options);
}

void add_embedding(OpRegistry& ops) {
  OpRecord embedding;
  embedding.name = "embedding";
  embedding.family = "index";
  embedding.summary = "the rows of a table at the given ids";
  // The row of the padding index gets no gradient.
  embedding.params = {params::tensor("input"), params::tensor("weight"),
                      params::optional("padding_idx", ParamKind::integer)};
  embedding.infer = infer_embedding;
  embedding.prepare = prepare_embedding;
  embedding.gradient = gradients({nullptr, [](Gradient& g) {
                                    const int64_t rows = g[1].shape()[0];
                                    Attrs attrs{{"dim", int64_t{0}}, {"size", rows}};
                                    if (g.given("padding_idx")) {
                                      const int64_t ignored = g.integer("padding_idx");
                                      attrs.set("ignore", ignored < 0 ? ignored + rows : ignored);
                                    }
                                    return g.op("index_sum", {g.dy(), g[0]}, std::move(attrs));
                                  }});
  embedding.rule.strategies = embedding_strategies;
  embedding.samples = [] {
    std::vector<Sample> found;
    auto add = [&](Dims ids, Dims table, DType dtype) {
      Sample sample;
      sample.inputs = {{DType::i64, ids}, {dtype, table}};
      sample.fills = {fmt::format("ints(0, {})", table[0]), "ints"};
      found.push_back(sample);
    };
    add({5}, {7, 3}, DType::f32);
    add({2, 3}, {4, 2}, DType::bf16);
    add({4}, {1, 3}, DType::f32);
    add({0}, {6, 2}, DType::f32);
    return found;
  };
  ops.add(std::move(embedding));
}

// True if the index is a list of the program, not a tensor.
bool listed(const OpCall& call) { return !present(call, 1); }

int index_select_dim(const OpCall& call) {
  return dim_of("index_select", call, call.attrs->integer("dim"));
}

std::vector<TensorMeta> infer_select(const OpCall& call) {
  int dim = index_select_dim(call);
  Dims shape = input_shape(call, 0);
  if (listed(call) != call.attrs->has("index"))
    refuse("index_select", call, "expects the index once: as a list, or as the tensor `indices`");
  if (listed(call)) {
    shape[dim] = static_cast<int64_t>(integer_list(*call.attrs, "index").size());
  } else {
    require_integral("index_select", call, 1);
    require_dims("index_select", call, 1, 1);
    shape[dim] = input_shape(call, 1)[0];
  }
  return {{input_meta(call, 0).dtype, shape}};
}

// Returns a copy of one box per entry, for a short list of valid rows; otherwise nothing.
KernelPlan moves_of_list(const IndexedRows& rows, const std::vector<int64_t>& list,
                         const Dims& shape, const Dims& result) {
  constexpr size_t kMostMoves = 64;
  if (list.size() > kMostMoves) return {};
  BoxCopyPlan plan{{}, {shape}, {result}, false, 0};
  for (size_t i = 0; i < list.size(); ++i) {
    const int64_t row = rows.from_end && list[i] < 0 ? list[i] + rows.size : list[i];
    if (row < 0 || row >= rows.size) return {};
    const Dims none = Dims::filled(shape.size(), 0);
    BoxCopy move{0, 0, none, Dims::filled(shape.size(), 1), none, result};
    move.from[rows.dim] = row;
    move.to[rows.dim] = static_cast<int64_t>(i);
    move.extent[rows.dim] = 1;
    plan.moves.push_back(move);
  }
  return share_plan(std::move(plan));
}

Kernel prepare_select(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  int dim = index_select_dim(call);
  DType dtype = outputs[0].dtype;
  IndexedRows rows =
      indexed_rows("index_select", input_shape(call, 0), dim, dtype, outputs[0].shape[dim]);
  rows.from_end = call.attrs->has("from_end") && call.attrs->flag("from_end");
  std::vector<int64_t> list;
  if (listed(call)) list = integer_list(*call.attrs, "index");
  LanePlan plan{{dtype, DType::i64}, {dtype}, 0, {}};
  plan.body = [rows, list](const LaneCall& lane) {
    take_rows(rows, lane, lane.inputs[1] ? lane.in<int64_t>(1) : list.data());
  };
  if (!listed(call)) {
    const TakeRowsItem item = take_rows_item(rows, 0, 1, dtype);
    plan.item = share_item(item);
    plan.item_of_part = item_of_held_rows(rows, item);
  }
  plan.items = element_count(outputs[0].shape);
  Kernel kernel = lane_kernel(plan, call, outputs);
  if (listed(call)) kernel.plan = moves_of_list(rows, list, input_shape(call, 0), outputs[0].shape);
  return kernel;
}

std::vector<Strategy> select_strategies(const OpCall& call, const std::vector<TensorMeta>&,
                                        int64_t) {
  std::string in = letters(input_shape(call, 0).size()), out = in;
  auto dim = static_cast<size_t>(index_select_dim(call));
  in[dim] = 'v';
  out[dim] = listed(call) ? '1' : 'x';
  FactorOptions options;
  options.form_of['v'] = LocalExecution::needs_shard_index;
  options.partials = mover_partial_rules({0});
  return factor_strategies(in + "," + (listed(call) ? "" : "x") + "->" + out, options);
}

void add_index_select(OpRegistry& ops) {
  OpRecord select;
  select.name = "index_select";
  select.family = "index";
  select.infix = "[list]";
  select.summary = "entries of a dim by a list or a tensor of indices; from_end: -1 is the last";
  select.params = {params::tensor("input"), params::integer("dim"),
                   params::or_tensor(params::optional("index", ParamKind::integers), "indices"),
                   params::optional_tensor("indices"), params::boolean("from_end", false)};
  select.infer = infer_select;
  select.prepare = prepare_select;
  select.rule.strategies = select_strategies;
  select.gradient = gradients({[](Gradient& g) {
    const int dim = g.dim();
    Attrs attrs{
        {"dim", int64_t{dim}}, {"size", g[0].shape()[dim]}, {"from_end", g.flag("from_end")}};
    if (listed(g.call)) attrs.set("index", integer_list(*g.call.attrs, "index"));
    return g.op("index_sum", {g.dy(), listed(g.call) ? g.none() : g[1]}, std::move(attrs));
  }});
  select.samples = [] {
    Attrs list{{"dim", int64_t{0}}, {"index", std::vector<int64_t>{4, 0, 4}}};
    Sample by_list = sample_of({{{5, 3}}}, list);
    by_list.inputs.push_back(absent_input());
    by_list.fills = {"ints", ""};
    Sample by_tensor = sample_of({{{2, 5}}, DType::bf16}, {{"dim", int64_t{-1}}});
    by_tensor.inputs.push_back({DType::i64, {4}});
    by_tensor.fills = {"ints", "ints(0, 5)"};
    Sample from_end = by_tensor;
    from_end.attrs.set("from_end", true);
    from_end.fills[1] = "ints(-5, 5)";
    return std::vector<Sample>{by_list, by_tensor, from_end};
  };
  accept_scalar_input(select);
  ops.add(std::move(select));
}

std::vector<TensorMeta> infer_one_hot(const OpCall& call) {
  require_integral("one_hot", call, 0);
  int64_t classes = call.attrs->integer("num_classes");
  if (classes < 1) refuse("one_hot", call, "num_classes must be at least 1, found {}", classes);
  Dims shape = input_shape(call, 0);
  if (shape.size() >= kMaxDims)
    refuse("one_hot", call, "the result would have more than {} dims", kMaxDims);
  shape.push_back(classes);
  return {{DType::i64, shape}};
}

Kernel prepare_one_hot(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  int64_t classes = call.attrs->integer("num_classes");
  int64_t count = element_count(input_shape(call, 0));
  LanePlan plan{{DType::i64}, {DType::i64}, 0, {}};
  plan.body = [=](const LaneCall& lane) {
    const auto* label = lane.in<int64_t>(0);
    auto* out = lane.out<int64_t>(0);
    for (int64_t i = 0; i < count; ++i) {
      if (label[i] < 0 || label[i] >= classes)
        throw_bad_input("one_hot: index {} is out of range for {} classes", label[i], classes);
      for (int64_t c = 0; c < classes; ++c) *out++ = c == label[i] ? 1 : 0;
    }
  };
  plan.item = share_item(OneHotItem{classes});
  plan.items = count * classes;
  return lane_kernel(plan, call, outputs);
}

void add_one_hot(OpRegistry& ops) {
  OpRecord one_hot;
  one_hot.name = "one_hot";
  one_hot.family = "index";
  one_hot.summary = "1 where the class is the label, else 0 (i64)";
  one_hot.params = {params::tensor("input"), params::integer("num_classes")};
  one_hot.infer = infer_one_hot;
  one_hot.prepare = prepare_one_hot;
  one_hot.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    std::string names = letters(input_shape(call, 0).size());
    return factor_strategies(notation_of(names, names + "1"), {});
  };
  one_hot.samples = [] {
    Sample sample;
    sample.attrs.set("num_classes", int64_t{5});
    sample.inputs = {{DType::i64, {2, 3}}};
    sample.fills = {"ints(0, 5)"};
    return std::vector<Sample>{sample};
  };
  ops.add(without_gradient(std::move(one_hot)));
}

}  // namespace

void add_index_ops(OpRegistry& ops) {
  add_embedding(ops);
  add_index_select(ops);
  add_one_hot(ops);
  add_index_sum(ops);
}

}  // namespace shardproof
