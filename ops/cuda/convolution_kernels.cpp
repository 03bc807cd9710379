// Implements ops/cuda/convolution_kernels.h: pads the input by the family of box copies, then
// contracts its windows.
#include "shardproof/ops/cuda/convolution_kernels.h"

#include "shardproof/localtensor/tensor/scoped_device_memory.h"
#include "shardproof/ops/convolution/conv_plan.h"

namespace shardproof {
namespace {

void reshape(LaneView& view, const Dims& shape) {
  view.shape = shape;
  view.strides = contiguous_strides(shape);
}

class Convolution {
 public:
  Convolution(ConvPlan plan, Kernel pad, Kernel product)
      : plan_(std::move(plan)), pad_(std::move(pad)), product_(std::move(product)) {}

  void operator()(const KernelCall& call) const {
    std::vector<LaneView> inputs = *call.inputs, outputs = *call.outputs;
    const int64_t bytes = pad_.run ? padded_bytes(call) : 0;
    const ScopedDeviceMemory room(*call.memory, bytes * call.lanes);
    if (bytes > 0) pad(call, inputs[0], room.start(), bytes);
    inputs[0].shape = plan_.windows.shape;
    inputs[0].strides = plan_.windows.strides;
    reshape(inputs[1], plan_.weight);
    if (plan_.product.bias.present) reshape(inputs[2], plan_.bias);
    reshape(outputs[0], plan_.result);
    KernelCall multiply = call;
    multiply.inputs = &inputs;
    multiply.outputs = &outputs;
    product_.run(multiply);
  }

 private:
  int64_t padded_bytes(const KernelCall& call) const {
    return element_count(plan_.pad.output_shapes[0]) * size_of(call.inputs->front().dtype);
  }
  // Pads each lane into dense memory of its own; `input` then views that memory.
  void pad(const KernelCall& call, LaneView& input, std::byte* room, int64_t bytes) const {
    const std::vector<LaneView> from{input};
    input.base = room;
    input.lane_stride = bytes;
    input.slots = nullptr;
    reshape(input, plan_.pad.output_shapes[0]);
    const std::vector<LaneView> to{input};
    KernelCall padding = call;
    padding.inputs = &from;
    padding.outputs = &to;
    pad_.run(padding);
  }

  ConvPlan plan_;
  Kernel pad_, product_;
};

}  // namespace

void add_convolutions(DeviceKernels& kernels) {
  kernels.add<ConvPlan>([families = kernels](const ConvPlan& plan) {
    Kernel host, pad;
    host.plan = share_plan(plan.product);
    Kernel product = families.find(host, {}, {});
    if (!plan.pad.moves.empty()) {
      host.plan = share_plan(plan.pad);
      pad = families.find(host, {}, {});
      if (!pad.run) return Kernel();
    }
    if (!product.run) return Kernel();
    Kernel kernel;
    kernel.run = Convolution(plan, std::move(pad), std::move(product));
    return kernel;
  });
}

}  // namespace shardproof
