#include "shardproof/ops/run_once.h"

#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

LaneView view_of(Tensor& tensor, std::byte* base) {
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
    in_views.push_back(view_of(dense.back(), const_cast<std::byte*>(dense.back().data())));
  }
  for (const TensorMeta& meta : metas) {
    outputs.push_back(Tensor::empty(meta.dtype, meta.shape));
    out_views.push_back(view_of(outputs.back(), outputs.back().mutate()));
  }
  const Bytes workspace = Bytes::uninitialized(kernel.workspace_bytes);
  Bytes scratch = workspace;
  KernelCall run;
  run.inputs = &in_views;
  run.outputs = &out_views;
  run.workspace = kernel.workspace_bytes > 0 ? scratch.mutate() : nullptr;
  kernel.run(run);
  return outputs;
}

namespace {

Tensor errors_as_tensor(const Bound& bound, const Dims& shape) {
  Tensor errors = Tensor::empty(DType::f64, shape);
  auto* to = reinterpret_cast<double*>(errors.mutate());
  const int64_t count = errors.elements();
  for (int64_t i = 0; i < count; ++i) to[i] = error_of(bound, i);
  return errors;
}

bool infers(const OpRecord& record, const OpCall& call) {
  try {
    record.infer(call);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Whether an input says which elements are moved, or where to: it may be no float, neither by
// itself nor with all others of its dtype.
bool picks(const OpRecord& record, const OpCall& call, size_t input) {
  const DType dtype = call.inputs[input].dtype;
  if (is_floating(dtype) || is_complex(dtype) || call.inputs[input].weak) return false;
  OpCall alone = call, all = call;
  alone.inputs[input].dtype = DType::f64;
  for (TensorMeta& meta : all.inputs)
    if (meta.dtype == dtype) meta.dtype = DType::f64;
  return !infers(record, alone) && !infers(record, all);
}

}  // namespace

std::vector<Bound> moved_bound(const OpRecord& record, const BoundCall& call) {
  std::vector<Bound> bounds;
  if (all_exact(call)) {
    for (const Tensor* output : call.outputs) bounds.push_back(Bound::exact_of(*output));
    return bounds;
  }
  const DType moved = call.outputs.front()->dtype;
  std::vector<Tensor> errors;
  errors.reserve(call.inputs.size());
  std::vector<const Tensor*> inputs = call.inputs;
  OpCall on_errors = *call.call;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    if (picks(record, *call.call, i)) {
      if (call.input_bounds[i]->exact) continue;
      return unknown_bounds(call);
    }
    const bool value = inputs[i]->dtype == moved || on_errors.inputs[i].weak;
    if (!value && call.input_bounds[i]->exact) continue;
    errors.push_back(errors_as_tensor(*call.input_bounds[i], inputs[i]->shape));
    inputs[i] = &errors.back();
    on_errors.inputs[i].dtype = DType::f64;
  }
  const std::vector<Tensor> result = run_once(record, on_errors, inputs);
  for (size_t i = 0; i < result.size(); ++i)
    bounds.push_back(bound_from_errors(*call.outputs[i], values_of(result[i])));
  return bounds;
}

}  // namespace shardproof
