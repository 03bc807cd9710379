// Registers views that map dims one to one: t, transpose, permute, squeeze, unsqueeze, expand.
#include <algorithm>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/layout/copy_boxes.h"
#include "shardproof/ops/layout/layout_gradients.h"

namespace shardproof {
namespace {

constexpr int kInserted = -1;  // an output dim of size 1 that has no input dim

// For each output dim, the input dim it shows.
using DimMap = std::vector<int>;
using MapFunction = std::function<DimMap(const OpCall&)>;

DimMap identity(int dims) {
  DimMap map;
  for (int d = 0; d < dims; ++d) map.push_back(d);
  return map;
}

Dims mapped_shape(const Dims& shape, const DimMap& map) {
  Dims result;
  for (int d : map) result.push_back(d == kInserted ? 1 : shape[d]);
  return result;
}

void require_room(std::string_view name, const OpCall& call, size_t dims) {
  if (dims > kMaxDims)
    refuse(name, call, "the result would have {} dims, more than {}", dims, kMaxDims);
}

std::string map_notation(const Dims& shape, const DimMap& map) {
  std::string names = letters(shape.size());
  for (int d = 0; d < shape.size(); ++d)
    if (std::find(map.begin(), map.end(), d) == map.end()) names[static_cast<size_t>(d)] = '1';
  std::string out;
  for (int d : map) out += d == kInserted ? '1' : names[static_cast<size_t>(d)];
  return notation_of(names, out);
}

OpRecord view_record(std::string name, std::string summary, std::vector<Param> params,
                     const MapFunction& map) {
  OpRecord record;
  record.name = name;
  record.family = "view";
  record.summary = std::move(summary);
  record.params = std::move(params);
  record.infer = [name, map](const OpCall& call) {
    DimMap dims = map(call);
    require_room(name, call, dims.size());
    const TensorMeta& input = input_meta(call, 0);
    return std::vector<TensorMeta>{{input.dtype, mapped_shape(input.shape, dims)}};
  };
  make_view(record, [map](const OpCall& call, const Dims& strides) {
    ViewLayout view;
    for (int d : map(call)) {
      view.shape.push_back(d == kInserted ? 1 : input_shape(call, 0)[d]);
      view.strides.push_back(d == kInserted ? 1 : strides[d]);
    }
    return view;
  });
  record.rule.strategies = [map](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    FactorOptions options;
    options.partials = mover_partial_rules({0});
    return factor_strategies(map_notation(input_shape(call, 0), map(call)), options);
  };
  return record;
}

DimMap swapped(const OpCall& call, int a, int b) {
  DimMap map = identity(input_shape(call, 0).size());
  std::swap(map[static_cast<size_t>(a)], map[static_cast<size_t>(b)]);
  return map;
}

DimMap t_map(const OpCall& call) {
  int dims = input_shape(call, 0).size();
  if (dims < 2) return identity(dims);  // torch returns such tensors unchanged
  return swapped(call, dims - 2, dims - 1);
}

DimMap transpose_map(const OpCall& call) {
  if (input_shape(call, 0).empty()) return {};
  return swapped(call, dim_of("transpose", call, call.attrs->integer("dim0")),
                 dim_of("transpose", call, call.attrs->integer("dim1")));
}

DimMap permute_map(const OpCall& call) {
  int dims = input_shape(call, 0).size();
  DimMap map;
  for (int64_t d : integer_list(*call.attrs, "dims")) map.push_back(dim_of("permute", call, d));
  DimMap sorted = map;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != identity(dims))
    refuse("permute", call, "dims must name each of the {} dims once", dims);
  return map;
}

DimMap squeeze_map(const OpCall& call) {
  const Dims& shape = input_shape(call, 0);
  std::vector<bool> drop(static_cast<size_t>(shape.size()), !call.attrs->has("dim"));
  if (call.attrs->has("dim"))
    for (int64_t d : integer_list(*call.attrs, "dim"))
      if (!shape.empty() || (d != 0 && d != -1))  // torch accepts dim 0 and -1 for a 0-d tensor
        drop[static_cast<size_t>(dim_of("squeeze", call, d))] = true;
  DimMap map;
  for (int d = 0; d < shape.size(); ++d)
    if (shape[d] != 1 || !drop[static_cast<size_t>(d)]) map.push_back(d);
  return map;
}

DimMap unsqueeze_map(const OpCall& call) {
  int dims = input_shape(call, 0).size();
  int64_t dim = call.attrs->integer("dim");
  if (dim < -dims - 1 || dim > dims)
    refuse("unsqueeze", call, "dim {} is out of range for {} dims", dim, dims + 1);
  DimMap map = identity(dims);
  map.insert(map.begin() + (dim < 0 ? dim + dims + 1 : dim), kInserted);
  return map;
}

// Names the dims to drop: a shard's local size may be 1 where the global size is not.
Attrs squeeze_locally(const OpCall& call, const std::vector<Spec>& inputs,
                      const std::vector<Spec>& outputs, int64_t) {
  (void)outputs;
  OpCall global = call;
  global.inputs[0].shape = inputs[0].shape();
  DimMap kept = squeeze_map(global);
  std::vector<int64_t> dropped;
  for (int d = 0; d < inputs[0].shape().size(); ++d)
    if (std::find(kept.begin(), kept.end(), d) == kept.end()) dropped.push_back(d);
  return Attrs{{"dim", dropped}};
}

std::vector<Sample> view_samples(const std::vector<std::pair<Dims, Attrs>>& cases) {
  std::vector<Sample> found;
  for (const auto& [shape, attrs] : cases) found.push_back(sample_of({{shape}}, attrs));
  found.push_back(found.front());
  found.back().inputs[0].dtype = DType::bf16;
  return found;
}

void add_squeezes(OpRegistry& ops) {
  OpRecord squeeze = view_record(
      "squeeze", "drops dims of size 1, all or those named",
      {params::tensor("input"), params::optional("dim", ParamKind::integers)}, squeeze_map);
  squeeze.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    FactorOptions options;
    options.partials = mover_partial_rules({0});
    options.form = LocalExecution::local_attrs;
    return factor_strategies(map_notation(input_shape(call, 0), squeeze_map(call)), options);
  };
  squeeze.rule.local_attrs = squeeze_locally;
  squeeze.gradient = gradients({squeeze_gradient});
  squeeze.samples = [] {
    return view_samples(
        {{{5, 1, 3}, {}}, {{1, 4, 1}, {{"dim", std::vector<int64_t>{0}}}}, {{2, 3}, {}}});
  };
  ops.add(std::move(squeeze));

  OpRecord unsqueeze =
      view_record("unsqueeze", "inserts a dim of size 1",
                  {params::tensor("input"), params::integer("dim")}, unsqueeze_map);
  unsqueeze.infix = "[None]";
  unsqueeze.gradient = gradients({unsqueeze_gradient});
  unsqueeze.samples = [] {
    return view_samples({{{5, 3}, {{"dim", int64_t{1}}}},
                         {{4}, {{"dim", int64_t{-1}}}},
                         {{0, 3}, {{"dim", int64_t{0}}}}});
  };
  ops.add(std::move(unsqueeze));
}

// Returns the sizes to expand to, with -1 resolved.
Dims expanded_shape(const OpCall& call) {
  const Dims& shape = input_shape(call, 0);
  auto sizes = integer_list(*call.attrs, "size");
  int lead = static_cast<int>(sizes.size()) - shape.size();
  if (lead < 0)
    refuse("expand", call, "expected at least one size per dim, found {} for {} dims", sizes.size(),
           shape.size());
  require_room("expand", call, sizes.size());
  Dims result;
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    int64_t size = sizes[static_cast<size_t>(d)], old = d < lead ? 1 : shape[d - lead];
    if (size == -1 && d >= lead) size = old;
    if (size < 0 || (old != size && old != 1))
      refuse("expand", call, "dim {} of size {} does not expand to {}; only size 1 does", d - lead,
             old, size);
    result.push_back(size);
  }
  return result;
}

std::vector<Strategy> expand_strategies(const OpCall& call, const std::vector<TensorMeta>& outputs,
                                        int64_t) {
  const Dims &shape = input_shape(call, 0), &result = outputs[0].shape;
  std::string names = letters(shape.size());
  int lead = result.size() - shape.size();
  std::string out(static_cast<size_t>(lead), '1');
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] != result[lead + d]) names[static_cast<size_t>(d)] = '1';
    out += names[static_cast<size_t>(d)];
  }
  FactorOptions options;
  options.form = LocalExecution::local_attrs;
  options.partials = mover_partial_rules({0});
  return factor_strategies(notation_of(names, out), options);
}

void add_expand(OpRegistry& ops) {
  OpRecord expand;
  expand.name = "expand";
  expand.family = "view";
  expand.summary = "repeats dims of size 1 without copying; -1 keeps a size";
  expand.params = {params::tensor("input"), params::integers("size")};
  expand.infer = [](const OpCall& call) {
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, expanded_shape(call)}};
  };
  make_view(expand, [](const OpCall& call, const Dims& strides) {
    ViewLayout view{0, expanded_shape(call), {}};
    const Dims& shape = input_shape(call, 0);
    int lead = view.shape.size() - shape.size();
    for (int d = 0; d < view.shape.size(); ++d)
      view.strides.push_back(d < lead || shape[d - lead] != view.shape[d] ? 0 : strides[d - lead]);
    return view;
  });
  expand.gradient = gradients({expand_gradient});
  expand.rule.strategies = expand_strategies;
  expand.rule.local_attrs = [](const OpCall&, const std::vector<Spec>&,
                               const std::vector<Spec>& outputs, int64_t rank) {
    Dims local = outputs[0].local_shape(rank);
    return Attrs{{"size", std::vector<int64_t>(local.begin(), local.end())}};
  };
  expand.samples = [] {
    return view_samples({{{5, 1}, {{"size", std::vector<int64_t>{5, 3}}}},
                         {{3}, {{"size", std::vector<int64_t>{2, -1}}}},
                         {{1, 4}, {{"size", std::vector<int64_t>{2, 0, 4}}}}});
  };
  ops.add(std::move(expand));
}

}  // namespace

void add_view_ops(OpRegistry& ops) {
  OpRecord t = view_record("t", "swaps the last two dims (x.T)", {params::tensor("input")}, t_map);
  t.infix = ".T";
  t.gradient = gradients({[](Gradient& g) { return g.op("t", {g.dy()}); }});
  t.samples = [] {
    return view_samples({{{5, 3}, {}}, {{2, 4, 3}, {}}, {{1, 0}, {}}, {{5}, {}}, {{}, {}}});
  };
  ops.add(std::move(t));

  OpRecord transpose = view_record(
      "transpose", "swaps two dims",
      {params::tensor("input"), params::integer("dim0"), params::integer("dim1")}, transpose_map);
  transpose.gradient =
      gradients({[](Gradient& g) { return g.op("transpose", {g.dy()}, *g.call.attrs); }});
  transpose.samples = [] {
    return view_samples({{{2, 5, 3}, {{"dim0", int64_t{0}}, {"dim1", int64_t{-1}}}},
                         {{4, 3}, {{"dim0", int64_t{1}}, {"dim1", int64_t{0}}}}});
  };
  ops.add(std::move(transpose));

  OpRecord permute = view_record("permute", "reorders the dims",
                                 {params::tensor("input"), params::integers("dims")}, permute_map);
  permute.gradient = gradients({permute_gradient});
  permute.samples = [] {
    return view_samples({{{2, 5, 3}, {{"dims", std::vector<int64_t>{2, 0, 1}}}},
                         {{4, 3}, {{"dims", std::vector<int64_t>{-1, 0}}}}});
  };
  ops.add(std::move(permute));
  add_squeezes(ops);
  add_expand(ops);
}

}  // namespace shardproof
