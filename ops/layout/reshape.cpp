// Registers reshape, view, flatten, unflatten: the same elements in row-major order under another
// shape.
#include <algorithm>

#include "shardproof/localtensor/tensor/copy_strided.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/layout/copy_boxes.h"
#include "shardproof/ops/layout/layout_gradients.h"
#include "shardproof/ops/layout/reshape_placements.h"

namespace shardproof {
namespace {

using ShapeFunction = std::function<Dims(const OpCall&)>;

// Returns `sizes` with -1 replaced so that the shape has `elements` elements. Throws
// Error(bad_input) if that is impossible.
Dims resolved(std::string_view name, const OpCall& call, const std::vector<int64_t>& sizes,
              int64_t elements) {
  if (sizes.size() > kMaxDims)
    refuse(name, call, "the result would have more than {} dims", kMaxDims);
  Dims shape;
  int open = -1;
  int64_t known = 1;
  for (int64_t size : sizes) {
    if (size == -1 && open >= 0) refuse(name, call, "only one size may be -1");
    if (size == -1)
      open = shape.size();
    else if (size < 0)
      refuse(name, call, "sizes must not be negative, found {}", size);
    else
      known *= size;
    shape.push_back(size == -1 ? 1 : size);
  }
  bool fits = open < 0 ? known == elements : known > 0 && elements % known == 0;
  if (!fits) {
    Dims requested;
    for (int64_t size : sizes) requested.push_back(size);
    refuse(name, call, "{} elements do not fill the shape {}", elements, to_string(requested));
  }
  if (open >= 0) shape[open] = elements / known;
  return shape;
}

Dims reshape_shape(const OpCall& call) {
  return resolved("reshape", call, integer_list(*call.attrs, "shape"),
                  element_count(input_shape(call, 0)));
}

Dims flatten_shape(const OpCall& call) {
  const Dims& shape = input_shape(call, 0);
  if (shape.empty()) return {1};
  int first = dim_of("flatten", call, call.attrs->integer("start_dim"));
  int last = dim_of("flatten", call, call.attrs->integer("end_dim"));
  if (first > last) refuse("flatten", call, "start_dim {} is after end_dim {}", first, last);
  Dims result;
  for (int d = 0; d < shape.size(); ++d) {
    if (d > first && d <= last)
      result[first] *= shape[d];
    else
      result.push_back(shape[d]);
  }
  return result;
}

Dims unflatten_shape(const OpCall& call) {
  const Dims& shape = input_shape(call, 0);
  int dim = dim_of("unflatten", call, call.attrs->integer("dim"));
  Dims sizes = resolved("unflatten", call, integer_list(*call.attrs, "sizes"), shape[dim]);
  if (shape.size() - 1 + sizes.size() > kMaxDims)
    refuse("unflatten", call, "the result would have more than {} dims", kMaxDims);
  Dims result;
  for (int d = 0; d < shape.size(); ++d) {
    if (d != dim)
      result.push_back(shape[d]);
    else
      for (int64_t size : sizes) result.push_back(size);
  }
  return result;
}

Kernel prepare_reshape(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  Kernel kernel;
  kernel.accepts_strides = true;
  Dims shape = input_shape(call, 0), dense = contiguous_strides(shape);
  int64_t bytes = size_of(outputs[0].dtype);
  // Copies the input's elements in order; the output's shape does not matter.
  kernel.plan = share_plan(ViewCopyPlan{[shape](const Dims& strides) {
    return ViewLayout{0, shape, strides};
  }});
  kernel.run = [=](const KernelCall& k) {
    const LaneView &in = (*k.inputs)[0], &out = (*k.outputs)[0];
    for (int64_t lane = 0; lane < k.lanes; ++lane)
      copy_strided(in.at(lane), in.strides, out.at(lane), dense, shape, bytes);
  };
  return kernel;
}

OpRecord reshape_record(std::string name, std::string summary, std::vector<Param> params,
                        const ShapeFunction& shape) {
  OpRecord record;
  record.name = std::move(name);
  record.family = "view";
  record.summary = std::move(summary);
  record.params = std::move(params);
  record.infer = [shape](const OpCall& call) {
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, shape(call)}};
  };
  record.prepare = prepare_reshape;
  record.gradient = gradients({reshape_gradient});
  record.view = [shape](const OpCall& call, const Tensor& input) -> std::optional<Tensor> {
    if (!input.contiguous()) return std::nullopt;
    Tensor alias = input;
    alias.shape = shape(call);
    alias.strides = contiguous_strides(alias.shape);
    return alias;
  };
  record.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    FactorOptions options;
    options.partials = mover_partial_rules({0});
    std::string in(static_cast<size_t>(input_shape(call, 0).size()), '1');
    std::string out(static_cast<size_t>(outputs[0].shape.size()), '1');
    return factor_strategies(notation_of(in, out), options);
  };
  record.rule.joint = [](const OpCall&, const std::vector<TensorMeta>& outputs,
                         const std::vector<Spec>& inputs) -> std::optional<std::vector<Spec>> {
    auto spec = reshaped_spec(inputs[0], outputs[0].shape);
    if (!spec) return std::nullopt;
    return std::vector<Spec>{*spec};
  };
  record.rule.joint_form = LocalExecution::local_attrs;
  return record;
}

// Rejects specs under which a rank without elements would infer another shape than that of the
// result's shard. flatten and unflatten infer their sizes from the local input.
void require_local_shapes(OpRecord& record, const ShapeFunction& shape) {
  record.rule.joint = [joint = record.rule.joint, local = record.rule.local_attrs, shape](
                          const OpCall& call, const std::vector<TensorMeta>& outputs,
                          const std::vector<Spec>& inputs) -> std::optional<std::vector<Spec>> {
    auto specs = joint(call, outputs, inputs);
    if (!specs) return std::nullopt;
    const Lanes ranks = inputs[0].mesh().ranks();
    for (int64_t i = 0; i < ranks.size(); ++i) {
      const Dims from = inputs[0].local_shape(ranks[i]), to = (*specs)[0].local_shape(ranks[i]);
      if (element_count(from) != 0) continue;
      const Attrs attrs = local ? local(call, inputs, *specs, ranks[i]) : *call.attrs;
      try {
        if (!(shape({&attrs, {{outputs[0].dtype, from}}}) == to)) return std::nullopt;
      } catch (const Error&) {
        return std::nullopt;
      }
    }
    return specs;
  };
}

std::vector<int64_t> local_sizes(const Spec& spec, int64_t rank, int first, int count) {
  Dims local = spec.local_shape(rank);
  return {local.begin() + first, local.begin() + first + count};
}

void add_reshape(OpRegistry& ops, const std::string& name) {
  OpRecord record =
      reshape_record(name, "the elements under another shape; one size may be -1",
                     {params::tensor("input"), params::integers("shape")}, reshape_shape);
  record.rule.local_attrs = [](const OpCall&, const std::vector<Spec>&,
                               const std::vector<Spec>& outputs, int64_t rank) {
    return Attrs{{"shape", local_sizes(outputs[0], rank, 0, outputs[0].shape().size())}};
  };
  record.samples = [] {
    using L = std::vector<int64_t>;
    std::vector<Sample> found;
    auto add = [&](Dims from, L to) { found.push_back(sample_of({{from}}, {{"shape", to}})); };
    add({4, 6}, {24});
    add({4, 6}, {8, 3});
    add({6, 4}, {3, 2, 4});
    add({2, 3, 5}, {6, -1});
    add({12, 8}, {-1, 6});
    add({1, 5, 1}, {5});
    add({0, 3}, {3, 0});
    add({1}, {});
    found[1].inputs[0].dtype = DType::bf16;
    return found;
  };
  ops.add(std::move(record));
}

}  // namespace

void add_reshape_ops(OpRegistry& ops) {
  add_reshape(ops, "reshape");
  add_reshape(ops, "view");

  OpRecord flatten = reshape_record(
      "flatten", "joins the dims from start_dim to end_dim",
      {params::tensor("input"), params::integer("start_dim", 0), params::integer("end_dim", -1)},
      flatten_shape);
  flatten.rule.joint_form = LocalExecution::same_op;
  require_local_shapes(flatten, flatten_shape);
  flatten.samples = [] {
    Attrs all{{"start_dim", int64_t{0}}, {"end_dim", int64_t{-1}}};
    Attrs first{{"start_dim", int64_t{0}}, {"end_dim", int64_t{1}}};
    return std::vector<Sample>{sample_of({{{5, 3}}}, all), sample_of({{{4, 3, 2}}}, first),
                               sample_of({{{5, 1, 2}}}, first)};
  };
  ops.add(std::move(flatten));

  OpRecord unflatten =
      reshape_record("unflatten", "splits a dim into several",
                     {params::tensor("input"), params::integer("dim"), params::integers("sizes")},
                     unflatten_shape);
  unflatten.rule.local_attrs = [](const OpCall& call, const std::vector<Spec>& inputs,
                                  const std::vector<Spec>& outputs, int64_t rank) {
    int dims = inputs[0].shape().size();
    auto dim = call.attrs->integer("dim");
    int first = static_cast<int>(dim < 0 ? dim + dims : dim);
    int count = outputs[0].shape().size() - dims + 1;
    return Attrs{{"dim", dim}, {"sizes", local_sizes(outputs[0], rank, first, count)}};
  };
  require_local_shapes(unflatten, unflatten_shape);
  unflatten.samples = [] {
    Attrs rows{{"dim", int64_t{0}}, {"sizes", std::vector<int64_t>{3, -1}}};
    return std::vector<Sample>{sample_of({{{12, 2}}}, rows), sample_of({{{6}}}, rows)};
  };
  ops.add(std::move(unflatten));
}

}  // namespace shardproof
