// Implements run_lanes() of op_case.h.
#include <cstring>

#include "shardproof/tests/ops/op_case.h"

namespace shardproof::testing {

std::vector<std::vector<std::byte>> run_lanes(const OpRecord& record, const OpCall& call,
                                              const std::vector<std::vector<Tensor>>& copies,
                                              int64_t lanes) {
  auto metas = record.infer(call);
  Kernel kernel = record.prepare(call, metas);
  std::vector<std::vector<std::byte>> stored;
  std::vector<std::vector<int32_t>> tables(copies.size());
  std::vector<LaneView> inputs, outputs;
  auto add = [&](const TensorMeta& meta, size_t count) {
    LaneView view;
    view.dtype = meta.dtype;
    view.shape = meta.shape;
    view.strides = contiguous_strides(meta.shape);
    int64_t bytes = element_count(meta.shape) * size_of(meta.dtype);
    view.lane_stride = count > 1 ? bytes : 0;
    stored.emplace_back(count * static_cast<size_t>(bytes) + 1);
    return view;
  };
  for (size_t i = 0; i < copies.size(); ++i) {
    auto count = static_cast<int64_t>(copies[i].size());
    inputs.push_back(add(call.inputs[i], copies[i].size()));
    LaneView& view = inputs.back();
    int64_t bytes = element_count(view.shape) * size_of(view.dtype);
    for (int64_t c = 0; c < count; ++c)
      std::memcpy(stored.back().data() + c * bytes, copies[i][static_cast<size_t>(c)].data(),
                  static_cast<size_t>(bytes));
    for (int64_t lane = 0; lane < lanes; ++lane)
      tables[i].push_back(static_cast<int32_t>(lane % count));
    if (count > 1 && count < lanes) view.slots = tables[i].data();
  }
  outputs.push_back(add(metas[0], static_cast<size_t>(lanes)));
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].base = stored[i].data();
  outputs[0].base = stored.back().data();
  Bytes workspace = Bytes::uninitialized(kernel.workspace_bytes);
  KernelCall run;
  run.lanes = lanes;
  run.inputs = &inputs;
  run.outputs = &outputs;
  run.workspace = workspace.mutate();
  kernel.run(run);
  std::vector<std::vector<std::byte>> results;
  int64_t bytes = element_count(metas[0].shape) * size_of(metas[0].dtype);
  for (int64_t lane = 0; lane < lanes; ++lane)
    results.emplace_back(outputs[0].at(lane), outputs[0].at(lane) + bytes);
  return results;
}

}  // namespace shardproof::testing
