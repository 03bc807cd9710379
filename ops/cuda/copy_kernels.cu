// Device kernels of box copies, views made dense, and fills.
#include "shardproof/ops/layout/copy_boxes.h"

#include <bit>

#include "shardproof/ops/core/load_store_element.h"
#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/ops/cuda/operand_offsets.h"

namespace shardproof {
namespace {

struct BoxBody {
  OperandOffsets<2> places;
  int64_t bytes;
  constexpr void operator()(int64_t index) const {
    std::byte* at[2];
    places.find(index, at);
    copy_word(at[0], at[1], bytes);
  }
};

template <typename Target>
struct FillBody {
  Word16 element;
  std::byte* to;
  int64_t bytes;
  constexpr void operator()(int64_t index) const {
    copy_word(reinterpret_cast<const std::byte*>(&element), to + index * bytes, bytes);
  }
};

// A box to copy; steps are in elements.
struct Box {
  int64_t from = 0, to = 0;
  Dims from_steps, to_steps, extent;
};

// Copies the box for `lanes` lanes from `first` on; more than one lane only if no view has a table
// of slots.
void launch_box(const KernelCall& call, const LaneView& in, const LaneView& out, const Box& box,
                int64_t first, int64_t lanes) {
  BoxBody body;
  body.bytes = size_of(out.dtype);
  OperandOffsets<2>& places = body.places;
  places.bases[0] = in.at(first) + box.from * body.bytes;
  places.bases[1] = out.at(first) + box.to * body.bytes;
  places.dims = box.extent.size() + 1;
  places.sizes[0] = places.count = lanes;
  places.steps[0][0] = in.lane_stride;
  places.steps[1][0] = out.lane_stride;
  for (int d = 0; d < box.extent.size(); ++d) {
    places.sizes[d + 1] = box.extent[d];
    places.steps[0][d + 1] = box.from_steps[d] * body.bytes;
    places.steps[1][d + 1] = box.to_steps[d] * body.bytes;
    places.count *= box.extent[d];
  }
  launch(call.stream, places.count, body);
}

void move_box(const KernelCall& call, const LaneView& in, const LaneView& out, const Box& box) {
  if (in.slots == nullptr && out.slots == nullptr)
    return launch_box(call, in, out, box, 0, call.lanes);
  for (int64_t lane = 0; lane < call.lanes; ++lane) launch_box(call, in, out, box, lane, 1);
}

void fill_lanes(const KernelCall& call, const LaneView& out, const Word16& element) {
  const int64_t bytes = size_of(out.dtype), count = element_count(out.shape);
  for (int64_t lane = 0; lane < call.lanes; ++lane)
    launch(call.stream, count, FillBody<Target>{element, out.at(lane), bytes});
}

Box box_of(const BoxCopyPlan& plan, const BoxCopy& move) {
  const Dims from = contiguous_strides(plan.input_shapes[static_cast<size_t>(move.input)]);
  Box box;
  box.to_steps = contiguous_strides(plan.output_shapes[static_cast<size_t>(move.output)]);
  box.extent = move.extent;
  box.from_steps = from;
  for (int d = 0; d < from.size(); ++d) {
    box.from += move.from[d] * from[d];
    box.to += move.to[d] * box.to_steps[d];
    box.from_steps[d] = from[d] * move.step[d];
  }
  for (int d = 0; d < move.spread.size(); ++d) box.to_steps[d] *= move.spread[d];
  return box;
}

Kernel moves_on_device(const BoxCopyPlan& plan) {
  Kernel kernel;
  kernel.run = [plan](const KernelCall& call) {
    Word16 element{};
    if (plan.fills)
      store_f64(reinterpret_cast<std::byte*>(&element), call.outputs->front().dtype, plan.fill);
    for (size_t o = 0; plan.fills && o < call.outputs->size(); ++o)
      fill_lanes(call, (*call.outputs)[o], element);
    for (const BoxCopy& move : plan.moves)
      move_box(call, (*call.inputs)[static_cast<size_t>(move.input)],
               (*call.outputs)[static_cast<size_t>(move.output)], box_of(plan, move));
  };
  return kernel;
}

Kernel view_on_device(const ViewCopyPlan& plan) {
  Kernel kernel;
  kernel.accepts_strides = true;
  kernel.run = [plan](const KernelCall& call) {
    const LaneView& in = call.inputs->front();
    const LaneView& out = call.outputs->front();
    const ViewLayout view = plan.layout(in.strides);
    move_box(call, in, out,
             {view.offset, 0, view.strides, contiguous_strides(view.shape), view.shape});
  };
  return kernel;
}

Kernel fill_on_device(const FillPlan& plan) {
  Kernel kernel;
  kernel.accepts_strides = true;
  kernel.run = [plan](const KernelCall& call) {
    fill_lanes(call, call.outputs->front(), std::bit_cast<Word16>(plan.element));
  };
  return kernel;
}

}  // namespace

template <>
void KernelFamilies<Target>::add_moves(DeviceKernels& kernels) {
  kernels.add<BoxCopyPlan>(moves_on_device);
  kernels.add<ViewCopyPlan>(view_on_device);
  kernels.add<FillPlan>(fill_on_device);
}

}  // namespace shardproof
