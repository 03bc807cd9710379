// Implements ops/layout/copy_boxes.h.
#include "shardproof/ops/layout/copy_boxes.h"

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/copy_strided.h"

namespace shardproof {
namespace {

constexpr int64_t kMostElementBytes = 16;

int64_t box_offset(const Dims& at, const Dims& strides) {
  int64_t offset = 0;
  for (int d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
  return offset;
}

void fill_with(std::byte* target, int64_t count, const std::byte* element, int64_t bytes) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t b = 0; b < bytes; ++b) target[i * bytes + b] = element[b];
}

}  // namespace

void make_view(OpRecord& record, ViewFunction layout) {
  record.prepare = [layout](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    Kernel kernel;
    kernel.accepts_strides = true;
    auto inputs = call.inputs;
    // The kernel outlives the call's attributes, so it holds a copy.
    auto attrs = std::make_shared<Attrs>(call.attrs ? *call.attrs : Attrs());
    Dims target = contiguous_strides(outputs[0].shape);
    int64_t bytes = size_of(outputs[0].dtype);
    const auto of_strides = [=](const Dims& strides) {
      return layout({attrs.get(), inputs}, strides);
    };
    kernel.plan = share_plan(ViewCopyPlan{of_strides});
    kernel.run = [=](const KernelCall& k) {
      const LaneView &in = (*k.inputs)[0], &out = (*k.outputs)[0];
      ViewLayout view = of_strides(in.strides);
      for (int64_t lane = 0; lane < k.lanes; ++lane)
        copy_strided(in.at(lane) + view.offset * bytes, view.strides, out.at(lane), target,
                     view.shape, bytes);
    };
    return kernel;
  };
  record.view = [layout](const OpCall& call, const Tensor& input) -> std::optional<Tensor> {
    ViewLayout view = layout(call, input.strides);
    Tensor alias = input;
    alias.shape = view.shape;
    alias.strides = view.strides;
    alias.offset += view.offset;
    return alias;
  };
}

Kernel move_kernel(BoxCopyPlan plan, DType dtype) {
  Kernel kernel;
  int64_t bytes = size_of(dtype);
  std::vector<std::byte> element(static_cast<size_t>(kMostElementBytes));
  if (plan.fills) store_f64(element.data(), dtype, plan.fill);
  std::vector<Dims> source_strides, target_strides;
  for (const Dims& shape : plan.input_shapes) source_strides.push_back(contiguous_strides(shape));
  for (const Dims& shape : plan.output_shapes) target_strides.push_back(contiguous_strides(shape));
  kernel.plan = share_plan(plan);
  kernel.run = [=](const KernelCall& k) {
    for (int64_t lane = 0; lane < k.lanes; ++lane) {
      for (size_t o = 0; plan.fills && o < plan.output_shapes.size(); ++o)
        fill_with((*k.outputs)[o].at(lane), element_count(plan.output_shapes[o]), element.data(),
                  bytes);
      for (const BoxCopy& move : plan.moves) {
        const Dims& source = source_strides[static_cast<size_t>(move.input)];
        const Dims& target = target_strides[static_cast<size_t>(move.output)];
        Dims walk = source, written = target;
        for (int d = 0; d < walk.size(); ++d) walk[d] *= move.step[d];
        for (int d = 0; d < move.spread.size(); ++d) written[d] *= move.spread[d];
        copy_strided((*k.inputs)[static_cast<size_t>(move.input)].at(lane) +
                         box_offset(move.from, source) * bytes,
                     walk,
                     (*k.outputs)[static_cast<size_t>(move.output)].at(lane) +
                         box_offset(move.to, target) * bytes,
                     written, move.extent, bytes);
      }
    }
  };
  return kernel;
}

std::vector<PartialPropagation> mover_partial_rules(const std::vector<int>& inputs) {
  return joint_partial_rules({ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::min,
                              ReduceOp::max, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor},
                             inputs);
}

std::vector<int64_t> integer_list(const Attrs& attrs, std::string_view name) {
  auto found = attrs.values().find(name);
  SP_CHECK(found != attrs.values().end(), "attribute {} is missing", name);
  if (const auto* one = std::get_if<int64_t>(&found->second)) return {*one};
  return attrs.integers(name);
}

}  // namespace shardproof
