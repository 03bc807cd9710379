// Registers take_along_dim and scatter_along_dim, torch's gather and scatter: one index per
// element, along one dim. On the other dims an index has the position that it reads or writes, and
// may cover less than the tensor.
#include <cstring>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/index/index_items.h"
#include "shardproof/ops/index/scatter_item.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

int along_dim_of(std::string_view name, const OpCall& call) {
  return dim_of(name, call, call.attrs->integer("dim"));
}

// Throws Error(bad_input) unless the index has the tensor's dims and is no larger on any dim but
// `dim`.
void check_index(std::string_view name, const OpCall& call, int index, int dim) {
  require_integral(name, call, index);
  require_dims(name, call, index, input_shape(call, 0).size());
  for (int d = 0; d < input_shape(call, 0).size(); ++d)
    if (d != dim && input_shape(call, index)[d] > input_shape(call, 0)[d])
      refuse(name, call,
             "dim {} of the index has size {}, the input only {}; only `dim` may differ", d,
             input_shape(call, index)[d], input_shape(call, 0)[d]);
}

// Visits the index elements in row-major order: visit(i, base), where base + value * stride is the
// flat position that the index value selects.
struct IndexIteration {
  Dims index_shape, strides;
  int dim = 0;
  template <typename Visit>
  void each(const Visit& visit) const {
    int64_t count = element_count(index_shape);
    Dims at = Dims::filled(index_shape.size(), 0);
    int64_t base = 0;
    for (int64_t i = 0; i < count; ++i) {
      visit(i, base);
      for (int d = index_shape.size() - 1; d >= 0; --d) {
        int64_t step = d == dim ? 0 : strides[d];
        base += step;
        if (++at[d] < index_shape[d]) break;
        base -= at[d] * step;
        at[d] = 0;
      }
    }
  }
};

void check_value(std::string_view name, int64_t value, int64_t size) {
  if (value < 0 || value >= size)
    throw_bad_input("{}: index {} is out of range for a dim of size {}", name, value, size);
}

Kernel prepare_take(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  int dim = input_shape(call, 0).empty() ? 0 : along_dim_of("take_along_dim", call);
  const Dims& shape = input_shape(call, 0);
  IndexIteration walk{input_shape(call, 1), contiguous_strides(shape), dim};
  DType dtype = outputs[0].dtype;
  auto bytes = static_cast<size_t>(size_of(dtype));
  int64_t size = shape[dim], stride = walk.strides[dim];
  LanePlan plan{{dtype, DType::i64}, {dtype}, 0, {}};
  plan.body = [=](const LaneCall& lane) {
    const auto* index = lane.in<int64_t>(1);
    Runs runs = lane.shard ? lane.owned_input(0, dim) : Runs{};
    int64_t whole = lane.shard ? (*lane.shard->inputs)[0].shape()[dim] : size;
    walk.each([&](int64_t i, int64_t base) {
      check_value("take_along_dim", index[i], whole);
      int64_t at = lane.shard ? local_index(runs, index[i]) : index[i];
      std::byte* target = lane.outputs[0] + static_cast<size_t>(i) * bytes;
      if (at < 0)
        std::memset(target, 0, bytes);
      else
        std::memcpy(target, lane.inputs[0] + static_cast<size_t>(base + at * stride) * bytes,
                    bytes);
    });
  };
  TakeAlongItem item{shape.size(), dim, size, 0, size, size_of(dtype), {}, {}};
  for (int d = 0; d < shape.size(); ++d) {
    item.shape[d] = walk.index_shape[d];
    item.strides[d] = walk.strides[d];
  }
  plan.item = share_item(item);
  plan.item_of_part = [dim, item](const LaneCall& lane) mutable -> LaneItem {
    const std::optional<Run> held = single_run(lane.owned_input(0, dim));
    if (!held) return {};
    item.size = (*lane.shard->inputs)[0].shape()[dim];
    item.start = held->start;
    item.held = held->length;
    return share_item(item);
  };
  plan.items = element_count(walk.index_shape);
  return lane_kernel(plan, call, outputs);
}

// Shards other dims only if tensor and index have one size there. An index that covers less would
// be cut at other positions than the rows it selects.
std::vector<Strategy> take_strategies(const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
  const Dims &shape = input_shape(call, 0), &index = input_shape(call, 1);
  auto dim = along_dim_of("take_along_dim", call);
  std::string in = letters(shape.size()), out = in;
  for (int d = 0; d < shape.size(); ++d) {
    auto at = static_cast<size_t>(d);
    if (d == dim)
      in[at] = 'v', out[at] = 'x';
    else if (shape[d] != index[d])
      in[at] = out[at] = '1';
  }
  FactorOptions options;
  options.form_of['v'] = LocalExecution::needs_shard_index;
  options.partials = mover_partial_rules({0});
  return factor_strategies(in + "," + out + "->" + out, options);
}

void add_take(OpRegistry& ops) {
  OpRecord take;
  take.name = "take_along_dim";
  take.family = "index";
  take.summary = "torch.gather: for each index the element at it along dim";
  take.params = {params::tensor("input"), params::tensor("indices"),
                 params::optional("dim", ParamKind::integer)};
  decompose_when(
      take, [](const OpCall& call) { return !call.attrs->has("dim"); },
      [](Formula& f) {
        const Attrs flat{{"shape", std::vector<int64_t>{-1}}};
        return std::vector<FormulaTerm>{
            f.op("take_along_dim", {f.op("reshape", {f[0]}, flat), f.op("reshape", {f[1]}, flat)},
                 {{"dim", int64_t{0}}})};
      });
  take.infer = [](const OpCall& call) {
    check_index("take_along_dim", call, 1, along_dim_of("take_along_dim", call));
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, input_shape(call, 1)}};
  };
  take.prepare = prepare_take;
  take.rule.strategies = take_strategies;
  take.gradient = gradients({[](Gradient& g) {
    return g.op("scatter_along_dim", {g.op("zeros", {g[0]}), g[1], g.dy()},
                {{"dim", g.integer("dim")}, {"reduce", std::string("add")}});
  }});
  take.samples = [] {
    std::vector<Sample> found;
    auto add = [&](Dims shape, Dims index, int64_t dim, DType dtype) {
      Sample sample;
      sample.attrs.set("dim", dim);
      sample.inputs = {{dtype, shape}, {DType::i64, index}};
      int64_t size = shape[dim < 0 ? static_cast<int>(dim) + shape.size() : static_cast<int>(dim)];
      sample.fills = {"ints", fmt::format("ints(0, {})", size)};
      found.push_back(sample);
    };
    add({5, 7}, {5, 1}, 1, DType::f32);
    add({4, 4}, {2, 4}, 1, DType::f32);
    add({5, 3}, {2, 3}, 0, DType::bf16);
    add({6}, {4}, -1, DType::i64);
    return found;
  };
  accept_scalar_input(take);
  ops.add(std::move(take));
}

constexpr int kScatterIndex = 1, kScatterSource = 2;
const char* const kScatter = "scatter_along_dim";

bool adds(const OpCall& call) { return call.attrs->text("reduce") == "add"; }

std::vector<TensorMeta> infer_scatter(const OpCall& call) {
  check_index(kScatter, call, kScatterIndex, along_dim_of(kScatter, call));
  if (present(call, kScatterSource) == call.attrs->has("value"))
    refuse(kScatter, call, "expects exactly one of src and value");
  const std::string& reduce = call.attrs->text("reduce");
  if (reduce != "none" && reduce != "add")
    refuse(kScatter, call, "reduce must be 'none' or 'add', found '{}'", reduce);
  if (present(call, kScatterSource)) {
    same_dtype(kScatter, call, {0, kScatterSource});
    require_dims(kScatter, call, kScatterSource, input_shape(call, 0).size());
    for (int d = 0; d < input_shape(call, 0).size(); ++d)
      if (input_shape(call, kScatterIndex)[d] > input_shape(call, kScatterSource)[d])
        refuse(kScatter, call, "dim {} of the index has size {}, src only {}", d,
               input_shape(call, kScatterIndex)[d], input_shape(call, kScatterSource)[d]);
  }
  return {{input_meta(call, 0).dtype, input_shape(call, 0)}};
}

ScatterAlongItem scatter_item(const OpCall& call, int dim, DType dtype) {
  const Dims &shape = input_shape(call, 0), &index = input_shape(call, kScatterIndex);
  ScatterAlongItem item{};
  item.dims = shape.size();
  item.dim = dim;
  item.adds = adds(call);
  item.has_source = present(call, kScatterSource);
  item.floats = !is_integral(dtype) && dtype != DType::boolean;
  item.part = component_dtype(dtype);
  item.bytes = size_of(dtype);
  item.part_bytes = size_of(item.part);
  if (!item.has_source)
    store_f64(reinterpret_cast<std::byte*>(item.value), dtype, call.attrs->number("value"));
  const Dims strides = contiguous_strides(shape), of_index = contiguous_strides(index);
  const Dims of_source =
      item.has_source ? contiguous_strides(input_shape(call, kScatterSource)) : of_index;
  for (int d = 0; d < shape.size(); ++d) {
    item.shape[d] = shape[d];
    item.index_shape[d] = index[d];
    item.strides[d] = strides[d];
    item.index_strides[d] = of_index[d];
    item.source_strides[d] = of_source[d];
  }
  return item;
}

Kernel prepare_scatter(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const int dim = along_dim_of(kScatter, call);
  const Dims& shape = input_shape(call, 0);
  const DType dtype = outputs[0].dtype;
  const int64_t indices = element_count(input_shape(call, kScatterIndex));
  LanePlan plan{{dtype, DType::i64, dtype}, {dtype}, 0, {}};
  Dims lines_shape = shape;
  lines_shape[dim] = 1;
  set_items(plan, scatter_item(call, dim, dtype), element_count(lines_shape));
  plan.body = [=, size = shape[dim], lines = plan.body](const LaneCall& lane) {
    for (int64_t i = 0; i < indices; ++i) check_value(kScatter, lane.in<int64_t>(1)[i], size);
    lines(lane);
  };
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> scatter_strategies(const OpCall& call, const std::vector<TensorMeta>&,
                                         int64_t) {
  const Dims &shape = input_shape(call, 0), &index = input_shape(call, kScatterIndex);
  bool source = present(call, kScatterSource);
  std::string names = letters(shape.size());
  for (int d = 0; d < shape.size(); ++d)
    if (d == along_dim_of(kScatter, call) || shape[d] != index[d] ||
        (source && shape[d] != input_shape(call, kScatterSource)[d]))
      names[static_cast<size_t>(d)] = '1';
  FactorOptions options;
  if (source && adds(call))
    options.partials = joint_partial_rules({ReduceOp::sum}, {0, kScatterSource});
  if (source && !adds(call)) options.partials = mover_partial_rules({0, kScatterSource});
  return factor_strategies(names + "," + names + "," + (source ? names : "") + "->" + names,
                           options);
}

FormulaTerm scatter_by_input(Gradient& g) {
  if (adds(g.call)) return g.dy();
  return g.op(kScatter, {g.dy(), g[kScatterIndex], g.none()},
              {{"dim", g.integer("dim")}, {"value", 0.0}});
}

// Returns the gradient at each index. If several entries have one index, only the one that was
// written last has a gradient. A scatter of the numbers of the entries shows which one that is.
FormulaTerm scatter_by_source(Gradient& g) {
  const FormulaTerm index = g[kScatterIndex];
  const Attrs along{{"dim", g.integer("dim")}};
  FormulaTerm taken = g.op("take_along_dim", {g.dy(), index}, along);
  const Dims &shape = index.shape(), &source = g[kScatterSource].shape();
  const IntegerList sizes(shape.begin(), shape.end());
  if (!adds(g.call)) {
    const FormulaTerm numbers = g.op(
        "reshape", {g.op("arange", {}, {{"start", element_count(shape)}})}, {{"shape", sizes}});
    const FormulaTerm none = g.op("zeros", {g[0]}, {{"dtype", DType::i64}});
    const FormulaTerm last =
        g.op("take_along_dim", {g.op(kScatter, {none, index, numbers}, along), index}, along);
    taken = g.where(g.op("eq", {last, numbers}), taken, 0.0);
  }
  IntegerList pad;
  for (int d = shape.size() - 1; d >= 0; --d) {
    pad.push_back(0);
    pad.push_back(source[d] - shape[d]);
  }
  return source == shape ? taken : g.op("pad", {taken}, {{"pad", pad}, {"value", 0.0}});
}

void add_scatter(OpRegistry& ops) {
  OpRecord scatter;
  scatter.name = kScatter;
  scatter.family = "index";
  scatter.summary =
      "torch.scatter: writes src (or value) at the indices along dim; of several the last; "
      "reduce='add' sums";
  scatter.params = {params::tensor("input"),
                    params::integer("dim"),
                    params::tensor("index"),
                    params::optional_tensor("src"),
                    params::optional("value", ParamKind::number),
                    params::text("reduce", "none")};
  scatter.infer = infer_scatter;
  scatter.prepare = prepare_scatter;
  scatter.gradient = gradients({scatter_by_input, nullptr, scatter_by_source});
  scatter.rule.strategies = scatter_strategies;
  scatter.samples = [] {
    auto sample = [](Attrs attrs, Dims shape, Dims index, bool source) {
      Sample made;
      made.attrs = std::move(attrs);
      made.inputs = {{DType::f32, shape}, {DType::i64, index}, {DType::f32, index}};
      if (!source) made.inputs[2] = absent_input();
      int64_t size = shape[static_cast<int>(made.attrs.integer("dim"))];
      made.fills = {"ints", fmt::format("ints(0, {})", size), "ints"};
      return made;
    };
    Attrs write{{"dim", int64_t{0}}, {"value", 1.5}, {"reduce", std::string("none")}};
    Attrs copy{{"dim", int64_t{1}}, {"reduce", std::string("none")}};
    Attrs add{{"dim", int64_t{1}}, {"reduce", std::string("add")}};
    return std::vector<Sample>{sample(write, {7, 3}, {2, 3}, false),
                               sample(copy, {5, 4}, {5, 2}, true),
                               sample(add, {3, 4}, {3, 6}, true)};
  };
  accept_scalar_input(scatter);
  ops.add(std::move(scatter));
}

}  // namespace

void add_along_dim_ops(OpRegistry& ops) {
  add_take(ops);
  add_scatter(ops);
}

}  // namespace shardproof
