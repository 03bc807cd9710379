// Registers layer_norm and rms_norm over the last dims. layer_norm: y = (x - mean) / sqrt(mean of
// squares + eps) * weight + bias. rms_norm has no mean and no bias.
//
// If a normalized dim is sharded, the op lowers. Sums and sums of squares of the shards are reduced
// in f32 (f64 for f64); the other ops are elementwise.
#include "shardproof/ops/norm/layer_norm.h"

#include <algorithm>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/widen_op_call.h"
#include "shardproof/ops/layout/copy_boxes.h"
#include "shardproof/ops/norm/layer_norm_item.h"
#include "shardproof/ops/norm/norm_gradients.h"

namespace shardproof {
std::string_view norm_name(Norm norm) { return norm == Norm::layer ? "layer_norm" : "rms_norm"; }

int64_t normalized_dims(const OpCall& call) {
  if (!call.attrs->has("normalized_shape")) return call.attrs->integer("dims");
  return static_cast<int64_t>(integer_list(*call.attrs, "normalized_shape").size());
}

double norm_eps(const OpCall& call) {
  if (call.attrs->has("eps")) return call.attrs->number("eps");
  return default_eps(input_meta(call, 0).dtype);
}

NormRows norm_rows(const Dims& shape, int64_t dims) {
  NormRows rows;
  const auto first = shape.size() - static_cast<int>(dims);
  for (int d = 0; d < shape.size(); ++d) (d < first ? rows.rows : rows.row) *= shape[d];
  return rows;
}

namespace {

constexpr int kNormWeight = NormItem<float>::kWeight, kNormBias = NormItem<float>::kBias;

std::vector<TensorMeta> infer_norm(Norm norm, const OpCall& call) {
  auto op = norm_name(norm);
  require_floating(op, call, 0);
  const Dims& shape = input_shape(call, 0);
  int64_t dims = normalized_dims(call);
  if (dims < 1 || dims > shape.size())
    refuse(op, call, "dims must be from 1 to {}, found {}", shape.size(), dims);
  Dims last;
  for (int d = shape.size() - static_cast<int>(dims); d < shape.size(); ++d)
    last.push_back(shape[d]);
  if (call.attrs->has("normalized_shape")) {
    const auto sizes = integer_list(*call.attrs, "normalized_shape");
    if (!std::equal(sizes.begin(), sizes.end(), last.begin(), last.end()))
      refuse(op, call, "normalized_shape {} must equal the last dims, {}",
             to_string(AttrValue(sizes)), to_string(last));
  }
  for (int i : {kNormWeight, kNormBias}) {
    if (!present(call, i)) continue;
    require_floating(op, call, i);
    if (!(input_shape(call, i) == last))
      refuse(op, call, "{} must have shape {}", i == kNormWeight ? "weight" : "bias",
             to_string(last));
  }
  return {{input_meta(call, 0).dtype, shape}};
}

Kernel prepare_norm(Norm norm, const OpCall& call, const std::vector<TensorMeta>& outputs) {
  DType compute = compute_dtype(outputs[0].dtype);
  const NormRows rows = norm_rows(input_shape(call, 0), normalized_dims(call));
  bool bias = present(call, kNormBias);
  LanePlan plan{std::vector<DType>(call.inputs.size(), compute), {compute}, 0, {}};
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    const NormItem<T> item{norm == Norm::layer, bias, rows.row, static_cast<T>(norm_eps(call))};
    set_items(plan, item, rows.rows);
  });
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> layer_norm_strategies(const OpCall& call) {
  int dims = input_shape(call, 0).size();
  std::string names = letters(dims);
  auto normalized = names.substr(names.size() - static_cast<size_t>(normalized_dims(call)));
  std::string notation = names;
  for (size_t i = 1; i < call.inputs.size(); ++i)
    notation += "," + (call.inputs[i].absent ? "" : normalized);
  FactorOptions options;
  for (char c : normalized) {
    options.form_of[c] = LocalExecution::lower_to_ops;
    if (input_shape(call, 0)[static_cast<int>(names.find(c))] == 1) options.whole += c;
  }
  return factor_strategies(notation + "->" + names, options);
}

// Returns the sum over the normalized dims, replicated, divided by their global count.
int mean_of(LowerBuilder& build, int value, const std::vector<int64_t>& dims, double count) {
  int sum = build.replicate_partials(build.op("sum", {{"dim", dims}, {"keepdim", true}}, {value}));
  return build.op("div", {}, {sum, build.number(count)});
}

std::vector<int> lower_layer_norm(Norm norm, const OpCall& call, const std::vector<Spec>& inputs,
                                  LowerBuilder& build) {
  const Dims& shape = inputs[0].shape();
  std::vector<int64_t> dims;
  double count = 1;
  for (int d = shape.size() - static_cast<int>(normalized_dims(call)); d < shape.size(); ++d) {
    dims.push_back(d);
    count *= static_cast<double>(shape[d]);
  }
  DType dtype = inputs[0].dtype(), wide = compute_dtype(dtype);
  int x = build.input(0);
  if (wide != dtype) x = build.op("cast", {{"dtype", wide}}, {x});
  if (norm == Norm::layer) x = build.op("sub", {}, {x, mean_of(build, x, dims, count)});
  int square = mean_of(build, build.op("mul", {}, {x, x}), dims, count);
  int eps = build.number(norm_eps(call));
  int scale = build.op("rsqrt", {}, {build.op("add", {}, {square, eps})});
  int y = build.op("mul", {}, {x, scale});
  // Weight and bias are read in the compute dtype, as the kernel does.
  const auto read = [&](int i) {
    const int value = build.input(i);
    return build.meta(value).dtype == wide ? value : build.op("cast", {{"dtype", wide}}, {value});
  };
  if (present(call, kNormWeight)) y = build.op("mul", {}, {y, read(kNormWeight)});
  if (present(call, kNormBias)) y = build.op("add", {}, {y, read(kNormBias)});
  if (wide != dtype) y = build.op("cast", {{"dtype", dtype}}, {y});
  return {y};
}

OpRecord norm_record(Norm norm) {
  OpRecord record;
  record.name = norm_name(norm);
  record.family = "norm";
  record.infer = [norm](const OpCall& call) { return infer_norm(norm, call); };
  record.prepare = [norm](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_norm(norm, call, outputs);
  };
  record.gradient = gradient_together([norm](Gradient& g) {
    return norm_gradient(g, norm, normalized_dims(g.call), norm_eps(g.call));
  });
  record.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return layer_norm_strategies(call);
  };
  record.rule.lower = [norm](const OpCall& call, const std::vector<Spec>& inputs,
                             LowerBuilder& build) {
    return lower_layer_norm(norm, call, inputs, build);
  };
  record.cost = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    auto elements = static_cast<double>(element_count(outputs[0].shape));
    auto width = static_cast<double>(size_of(input_meta(call, 0).dtype));
    return OpCost{8 * elements, 2 * elements * width};
  };
  return record;
}

}  // namespace

void add_norm_ops(OpRegistry& ops) {
  OpRecord layer = norm_record(Norm::layer);
  layer.summary = "(x - mean) / sqrt(variance + eps) * weight + bias over the last `dims` dims";
  const Param sizes =
      params::or_tensor(params::optional("normalized_shape", ParamKind::integers), "weight");
  layer.params = {params::tensor("input"),           sizes,
                  params::optional_tensor("weight"), params::optional_tensor("bias"),
                  params::number("eps", 1e-5),       params::integer("dims", 1)};
  layer.samples = [] {
    Attrs last{{"eps", 1e-5}, {"dims", int64_t{1}}}, two{{"eps", 1e-5}, {"dims", int64_t{2}}};
    Attrs by_sizes{{"eps", 1e-5}, {"normalized_shape", std::vector<int64_t>{2, 3}}};
    Sample bare = sample_of({{{5, 4}}}, last);
    bare.inputs.push_back(absent_input());
    bare.inputs.push_back(absent_input());
    return std::vector<Sample>{sample_of({{{3, 2, 7}, {7}, {7}}}, last),
                               sample_of({{{4, 8}, {8}, {8}}, DType::bf16}, last),
                               sample_of({{{3, 2, 5}, {2, 5}, {2, 5}}, DType::f64}, two), bare,
                               sample_of({{{4, 2, 3}, {2, 3}, {2, 3}}}, by_sizes)};
  };
  ops.add(std::move(layer));

  OpRecord rms = norm_record(Norm::rms);
  rms.summary = "x / sqrt(mean of squares + eps) * weight over the last `dims` dims";
  rms.params = {params::tensor("input"), sizes, params::optional_tensor("weight"),
                params::optional("eps", ParamKind::number), params::integer("dims", 1)};
  rms.samples = [] {
    Attrs last{{"eps", 1e-6}, {"dims", int64_t{1}}}, plain{{"dims", int64_t{1}}};
    return std::vector<Sample>{sample_of({{{5, 7}, {7}}}, last), sample_of({{{5, 4}, {4}}}, plain),
                               sample_of({{{2, 4, 8}, {8}}, DType::bf16}, last),
                               sample_of({{{4, 1}, {1}}, DType::f64}, last)};
  };
  ops.add(with_kinks(std::move(rms), "a row near 0"));
}

}  // namespace shardproof
