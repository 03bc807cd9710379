// Registers conv1d and conv2d (cross-correlation, as in torch): input [N, C, L..], weight [O, C /
// groups, K..], bias [O].
//
// The padded input, viewed as strided windows, is one operand of a contraction. The summed index
// runs over channels, then over the window, in ascending order. A convolution over a sharded
// spatial dim lowers to a batch of windows (halo_windows, ops/convolution/halo.cpp).
#include <algorithm>
#include <cstring>

#include "shardproof/localtensor/tensor/copy_strided.h"
#include "shardproof/ops/convolution/conv_gradients.h"
#include "shardproof/ops/convolution/conv_padding.h"
#include "shardproof/ops/convolution/conv_plan.h"
#include "shardproof/ops/convolution/conv_window.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {
namespace {

constexpr int kConvWeight = 1, kConvBias = 2;

std::vector<TensorMeta> infer_conv(const Conv& conv, const OpCall& call) {
  DType dtype = same_dtype(conv.name, call, {0, kConvWeight, kConvBias});
  if (dtype == DType::boolean) refuse(conv.name, call, "not defined for bool");
  ConvWindow window = conv_window(conv, call);
  if (present(call, kConvBias) && !(input_shape(call, kConvBias) == Dims{window.out[1]}))
    refuse(conv.name, call, "the bias must have shape [{}]", window.out[1]);
  return {{dtype, window.out}};
}

// The padded input as [N, groups, C / groups, L'.., K..]; windows overlap in memory.
struct WindowView {
  Dims shape, strides;
};

WindowView window_view(const Conv& conv, const ConvWindow& window, const Dims& weight) {
  Dims dense = contiguous_strides(window.padded);
  WindowView view{{window.padded[0], window.groups, weight[1]},
                  {dense[0], dense[1] * weight[1], dense[1]}};
  for (int i = 0; i < conv.spatial; ++i) {
    view.shape.push_back(window.out[i + 2]);
    view.strides.push_back(dense[i + 2] * window.stride[static_cast<size_t>(i)]);
  }
  for (int i = 0; i < conv.spatial; ++i) {
    view.shape.push_back(weight[i + 2]);
    view.strides.push_back(dense[i + 2] * window.dilation[static_cast<size_t>(i)]);
  }
  return view;
}

// The weight as [groups, O / groups, C / groups, K..], the result as [N, groups, O / groups, L'..].
struct ContractionShape {
  std::vector<ContractionLetter> letters;
  Dims weight, result;
  ContractionBias bias;
};
ContractionShape contraction_of(const Conv& conv, const ConvWindow& window, const OpCall& call,
                                const WindowView& view, DType compute) {
  const Dims& weight = input_shape(call, kConvWeight);
  int64_t outputs = weight[0] / window.groups;
  Dims w{window.groups, outputs}, result{window.out[0], window.groups, outputs};
  std::vector<ContractionLetter> letters = {
      {view.shape[0], {0}, {}, 0}, {window.groups, {1}, {0}, 1}, {outputs, {}, {1}, 2}};
  for (int i = 0; i < conv.spatial; ++i) {
    letters.push_back({window.out[i + 2], {3 + i}, {}, 3 + i});
    result.push_back(window.out[i + 2]);
  }
  letters.push_back({weight[1], {2}, {2}, -1});
  w.push_back(weight[1]);
  for (int i = 0; i < conv.spatial; ++i) {
    letters.push_back({weight[i + 2], {3 + conv.spatial + i}, {3 + i}, -1});
    w.push_back(weight[i + 2]);
  }
  ContractionBias bias;
  if (present(call, kConvBias)) {
    bias = {true, {window.groups, outputs}, compute, 1, 1};
    for (int i = 0; i < conv.spatial; ++i) bias.shape.push_back(1);
  }
  return {letters, w, result, bias};
}

LaneView lane_view(const std::byte* base, DType dtype, const Dims& shape) {
  LaneView view;
  view.base = const_cast<std::byte*>(base);
  view.dtype = dtype;
  view.shape = shape;
  view.strides = contiguous_strides(shape);
  return view;
}

// Copies the input into a buffer of zeros, inside the padding.
struct Padder {
  Dims shape, strides, target;
  int64_t offset = 0, bytes = 0, element = 0;
  void run(const std::byte* source, std::byte* padded) const {
    std::memset(padded, 0, static_cast<size_t>(bytes));
    copy_strided(source, strides, padded + offset * element, target, shape, element);
  }
};

Padder padder_of(const Conv& conv, const ConvWindow& window, const Dims& input, DType compute) {
  Padder padder{input, contiguous_strides(input), contiguous_strides(window.padded), 0,
                0,     size_of(compute)};
  for (int i = 0; i < conv.spatial; ++i)
    padder.offset += window.padding[static_cast<size_t>(i)] * padder.target[i + 2];
  padder.bytes = element_count(window.padded) * padder.element;
  return padder;
}

// Returns the same computation as a plan for devices, whose kernels read the stored dtypes.
ConvPlan plan_of(const ConvWindow& window, const Dims& input, const WindowView& view,
                 const ContractionShape& shape, DType compute) {
  ConvPlan plan;
  const int dims = input.size();
  if (!(window.padded == input)) {
    Dims to = Dims::filled(dims, 0);
    for (int d = 2; d < dims; ++d) to[d] = window.padding[static_cast<size_t>(d - 2)];
    const Dims zeros = Dims::filled(dims, 0), ones = Dims::filled(dims, 1);
    plan.pad = {{{0, 0, zeros, ones, to, input}}, {input}, {window.padded}, true, 0};
  }
  plan.windows = {0, view.shape, view.strides};
  plan.weight = shape.weight;
  plan.bias = shape.bias.shape;
  plan.result = shape.result;
  plan.product = {shape.letters, compute, shape.bias, 0, kConvWeight, kConvBias};
  return plan;
}

Kernel prepare_conv(const Conv& conv, const OpCall& call, const std::vector<TensorMeta>& outputs) {
  constexpr int64_t kAlignment = 64;
  if (element_count(outputs[0].shape) == 0) {
    Kernel nothing;
    nothing.run = [](const KernelCall&) {};
    return nothing;
  }
  DType compute = contraction_dtype(outputs[0].dtype);
  ConvWindow window = conv_window(conv, call);
  WindowView view = window_view(conv, window, input_shape(call, kConvWeight));
  const ContractionShape shape = contraction_of(conv, window, call, view, compute);
  Contraction contraction(shape.letters, {compute, view.shape}, {compute, shape.weight},
                          {compute, shape.result}, shape.bias);
  Padder padder = padder_of(conv, window, input_shape(call, 0), compute);
  int64_t padded = (padder.bytes + kAlignment - 1) / kAlignment * kAlignment;
  LanePlan plan{std::vector<DType>(call.inputs.size(), compute), {compute}, 0, {}};
  plan.scratch_bytes = padded + contraction.workspace_bytes();
  bool biased = present(call, kConvBias);
  Dims out = outputs[0].shape;
  plan.body = [=](const LaneCall& lane) {
    padder.run(lane.inputs[0], lane.scratch);
    LaneView a = lane_view(lane.scratch, compute, view.shape);
    a.strides = view.strides;
    // The weight is dense, so splitting O into groups changes no address.
    LaneView b = lane_view(lane.inputs[kConvWeight], compute, contraction.right_shape());
    LaneView bias = lane_view(biased ? lane.inputs[kConvBias] : nullptr, compute, {});
    LaneView result = lane_view(lane.outputs[0], compute, out);
    contraction.run({1, &a, &b, &bias, &result, lane.scratch + padded});
  };
  Kernel kernel = lane_kernel(plan, call, outputs);
  kernel.plan = share_plan(plan_of(window, input_shape(call, 0), view, shape, compute));
  return kernel;
}

// Input entries that the ranks read along a sharded dim: one window of equal length per rank, and
// the entries that another rank owns.
struct Reading {
  std::vector<int64_t> starts, foreign;
  int64_t length = 0;
};
// Returns the size of a shard by the chunk rule: ceil(size / ranks).
int64_t pieces_of(int64_t size, int64_t ranks) { return (size + ranks - 1) / ranks; }

Reading reading_of(const ConvWindow& window, const OpCall& call, int spatial, int64_t ranks) {
  const auto at = static_cast<size_t>(spatial);
  const int dim = spatial + 2;
  const int64_t size = input_shape(call, 0)[dim], own = pieces_of(size, ranks);
  const int64_t outputs = pieces_of(window.out[dim], ranks), stride = window.stride[at];
  Reading reading;
  reading.length =
      (outputs - 1) * stride + window.dilation[at] * (input_shape(call, kConvWeight)[dim] - 1) + 1;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    // A rank without outputs reads zeros after the end.
    const bool any = rank * outputs < window.out[dim];
    const int64_t start = any ? rank * outputs * stride - window.padding[at] : size;
    reading.starts.push_back(start);
    for (int64_t i = std::max<int64_t>(start, 0); i < std::min(start + reading.length, size); ++i)
      if (i / own != rank) reading.foreign.push_back(i);
  }
  std::sort(reading.foreign.begin(), reading.foreign.end());
  reading.foreign.erase(std::unique(reading.foreign.begin(), reading.foreign.end()),
                        reading.foreign.end());
  if (reading.foreign.empty()) reading.foreign.push_back(0);
  return reading;
}

// Lowers a convolution over a sharded spatial dim. Ranks exchange the edge entries that their
// neighbours read (halo exchange), each rank builds its window, and the windows are convolved as a
// batch.
int lower_conv(const Conv& conv, const OpCall& call, const std::vector<Spec>& inputs,
               LowerBuilder& b) {
  int axis = -1;
  for (int a = 0; a < inputs[0].mesh().axis_count(); ++a) {
    const Placement& p = inputs[0].placement(a);
    if (!p.is_shard() || p.shard().dim < 2) continue;
    if (axis >= 0) refuse(conv.name, call, "only one axis may shard the spatial dims");
    axis = a;
  }
  const int dim = inputs[0].placement(axis).shard().dim;
  const int64_t ranks = inputs[0].mesh().axis_size(axis);
  const ConvWindow window = conv_window(conv, call);
  const Reading reading = reading_of(window, call, dim - 2, ranks);
  const int x = b.input(0);
  int strips =
      b.op("index_select", {{"dim", int64_t{dim}}, {"index", reading.foreign}}, {x, kAbsent});
  std::vector<Placement> placements = b.spec(strips).placements();
  placements[static_cast<size_t>(axis)] = R();
  strips = b.redistribute(strips, placements);
  int value = b.op("halo_windows",
                   {{"dim", int64_t{dim}},
                    {"starts", reading.starts},
                    {"length", reading.length},
                    {"index", reading.foreign}},
                   {x, strips});
  value = b.op("flatten", {{"start_dim", int64_t{0}}, {"end_dim", int64_t{1}}}, {value});
  Attrs attrs = *call.attrs;
  std::vector<int64_t> padding = window.padding;
  padding[static_cast<size_t>(dim - 2)] = 0;
  attrs.set("padding", padding);
  value = b.op(
      conv.name, attrs,
      {value, b.input(kConvWeight), call.inputs.size() > kConvBias ? b.input(kConvBias) : kAbsent});
  value =
      b.op("unflatten",
           {{"dim", int64_t{0}}, {"sizes", std::vector<int64_t>{ranks, window.out[0]}}}, {value});
  std::vector<int64_t> order;
  for (int64_t d = 1; d <= dim; ++d) order.push_back(d);
  order.push_back(0);
  for (int64_t d = dim + 1; d <= window.out.size(); ++d) order.push_back(d);
  value = b.op("permute", {{"dims", order}}, {value});
  value = b.op("flatten", {{"start_dim", int64_t{dim}}, {"end_dim", int64_t{dim + 1}}}, {value});
  if (b.meta(value).shape[dim] == window.out[dim]) return value;
  // Removes the outputs after the end, which the last ranks computed.
  std::vector<int64_t> stop(window.out.begin(), window.out.begin() + dim + 1);
  return b.op("slice", {{"start", std::vector<int64_t>(stop.size(), 0)}, {"stop", stop}}, {value});
}

std::vector<Strategy> conv_strategies(const Conv& conv, const OpCall& call,
                                      const std::vector<TensorMeta>& outputs) {
  bool biased = present(call, kConvBias);
  int64_t groups = call.attrs->integer("groups");
  std::vector<Strategy> found;
  auto add = [&](Placement x, Placement w, Placement bias, Placement out,
                 LocalExecution form = LocalExecution::same_op, int64_t blocks = 0) {
    Strategy s{{x, w}, {out}, form, ShardLayout::any, blocks};
    if (call.inputs.size() > kConvBias) s.inputs.push_back(biased ? bias : R());
    found.push_back(s);
  };
  add(S(0), R(), R(), S(0));
  if (groups == 1) {
    add(R(), S(0), S(0), S(1));
    add(S(1), S(1), P(), P());
  } else {
    add(S(1), S(0), S(0), S(1), LocalExecution::local_attrs, groups);
  }
  for (int dim = 2; dim < conv.spatial + 2; ++dim) {
    const int64_t size = input_shape(call, 0)[dim], out = outputs[0].shape[dim];
    if (size == 0 || out == 0) continue;
    add(S(dim), R(), R(), S(dim), LocalExecution::lower_to_ops);
    found.back().cut = ShardLayout::chunks;
  }
  std::vector<ReduceOp> linear = {ReduceOp::sum};
  if (!is_integral(input_meta(call, 0).dtype)) linear.push_back(ReduceOp::avg);
  for (ReduceOp op : linear) {
    add(P(op), R(), P(op), P(op));
    add(R(), P(op), P(op), P(op));
  }
  return found;
}

OpRecord conv_record(const Conv& conv) {
  OpRecord record;
  record.name = conv.name;
  record.family = "conv";
  record.summary =
      "cross-correlation over " + std::string(conv.spatial == 1 ? "one dim" : "two dims");
  record.params = {
      params::tensor("input"),
      params::tensor("weight"),
      params::optional_tensor("bias"),
      params::with_default("stride", ParamKind::integers, std::vector<int64_t>{1}),
      params::with_default("padding", ParamKind::integers_or_text, std::vector<int64_t>{0}),
      params::with_default("dilation", ParamKind::integers, std::vector<int64_t>{1}),
      params::integer("groups", 1)};
  record.infer = [conv](const OpCall& call) { return infer_conv(conv, call); };
  record.prepare = [conv](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_conv(conv, call, outputs);
  };
  record.gradient = gradient_together([conv](Gradient& g) {
    const ConvWindow window = conv_window(conv, g.call);
    return conv_gradient(g, {window.stride, window.padding, window.dilation, window.groups});
  });
  record.rule.strategies = [conv](const OpCall& call, const std::vector<TensorMeta>& outputs,
                                  int64_t) { return conv_strategies(conv, call, outputs); };
  record.rule.lower = [conv](const OpCall& call, const std::vector<Spec>& inputs, LowerBuilder& b) {
    return std::vector<int>{lower_conv(conv, call, inputs, b)};
  };
  record.rule.local_attrs = [](const OpCall& call, const std::vector<Spec>& inputs,
                               const std::vector<Spec>&, int64_t rank) {
    Attrs attrs = *call.attrs;
    int64_t per_group = inputs[kConvWeight].shape()[1];
    if (per_group > 0) attrs.set("groups", inputs[0].local_shape(rank)[1] / per_group);
    return attrs;
  };
  record.cost = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    const Dims& weight = input_shape(call, kConvWeight);
    double per_output = 2;
    for (int d = 1; d < weight.size(); ++d) per_output *= static_cast<double>(weight[d]);
    OpCost cost{per_output * static_cast<double>(element_count(outputs[0].shape)), 0};
    for (const TensorMeta& meta : {input_meta(call, 0), input_meta(call, kConvWeight), outputs[0]})
      cost.bytes += static_cast<double>(element_count(meta.shape) * size_of(meta.dtype));
    return cost;
  };
  add_padding_forms(record, conv.spatial);
  return record;
}

Sample conv_sample(std::vector<Dims> shapes, int64_t stride, int64_t padding, int64_t groups,
                   DType dtype = DType::f32) {
  using L = std::vector<int64_t>;
  Sample made = sample_of(
      {shapes, dtype},
      {{"stride", L{stride}}, {"padding", L{padding}}, {"dilation", L{1}}, {"groups", groups}});
  if (shapes.size() == 2) made.inputs.push_back(absent_input());
  return made;
}

}  // namespace

void add_conv_ops(OpRegistry& ops) {
  OpRecord one = conv_record({"conv1d", 1});
  one.samples = [] {
    return std::vector<Sample>{conv_sample({{3, 2, 7}, {4, 2, 3}, {4}}, 1, 1, 1),
                               conv_sample({{2, 4, 8}, {6, 2, 2}}, 2, 0, 2),
                               conv_sample({{2, 2, 5}, {4, 2, 3}}, 1, 0, 1, DType::bf16),
                               conv_sample({{1, 3, 36}, {2, 3, 5}, {2}}, 1, 2, 1),
                               conv_sample({{1, 2, 24}, {2, 1, 3}}, 2, 1, 2)};
  };
  ops.add(std::move(one));
  OpRecord two = conv_record({"conv2d", 2});
  two.samples = [] {
    return std::vector<Sample>{conv_sample({{2, 2, 5, 4}, {3, 2, 2, 2}, {3}}, 1, 0, 1),
                               conv_sample({{4, 4, 4, 4}, {4, 4, 3, 3}}, 1, 1, 1),
                               conv_sample({{2, 4, 5, 5}, {4, 1, 3, 3}, {4}}, 2, 1, 4, DType::f64),
                               conv_sample({{1, 2, 24, 6}, {2, 2, 3, 3}}, 1, 1, 1)};
  };
  ops.add(std::move(two));
  for (OpRecord& record : conv_window_records()) ops.add(std::move(record));
}

}  // namespace shardproof
