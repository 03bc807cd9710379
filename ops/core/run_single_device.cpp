// Implements ops/core/run_single_device.h.
#include "shardproof/ops/core/run_single_device.h"

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

LaneView tensor_view(Tensor& tensor, std::byte* base) {
  LaneView view;
  view.base = base;
  view.dtype = tensor.dtype;
  view.shape = tensor.shape;
  view.strides = tensor.strides;
  return view;
}

}  // namespace

std::vector<Tensor> run_once(const OpRecord& record, const OpCall& call,
                             const std::vector<const Tensor*>& inputs) {
  SP_CHECK(inputs.size() == call.inputs.size(), "{}: {} tensors for {} inputs", record.name,
           inputs.size(), call.inputs.size());
  const std::vector<TensorMeta> metas = record.infer(call);
  const Kernel kernel = record.prepare(call, metas);
  std::vector<Tensor> dense, outputs;
  std::vector<LaneView> in_views, out_views;
  dense.reserve(inputs.size());
  outputs.reserve(metas.size());
  for (const Tensor* input : inputs) {
    if (!input) {
      in_views.emplace_back();
      continue;
    }
    const bool as_is = kernel.accepts_strides || input->contiguous();
    dense.push_back(as_is ? *input : contiguous_copy(*input));
    // Kernels read through a pointer to non-const; nothing is written through it.
    in_views.push_back(tensor_view(dense.back(), const_cast<std::byte*>(dense.back().data())));
  }
  for (const TensorMeta& meta : metas) {
    outputs.push_back(Tensor::empty(meta.dtype, meta.shape));
    out_views.push_back(tensor_view(outputs.back(), outputs.back().mutate()));
  }
  Bytes workspace = Bytes::uninitialized(kernel.workspace_bytes);
  KernelCall run;
  run.inputs = &in_views;
  run.outputs = &out_views;
  run.workspace = kernel.workspace_bytes > 0 ? workspace.mutate() : nullptr;
  kernel.run(run);
  return outputs;
}

}  // namespace shardproof
