// Device kernels of sort and topk: a bitonic sort of the positions of all lines at once (K. E.
// Batcher, Sorting networks and their applications, 1968). Each stage is one launch. No two
// elements are equal in this order (ops/sort/sort_order.h), so the result equals the host's.
#include "shardproof/localtensor/tensor/device_memory.h"
#include "shardproof/ops/core/load_store_element.h"
#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/ops/sort/sort_order.h"

namespace shardproof {
namespace {

// The lines of one segment: [outer, inner] of them, whose elements are `inner` apart.
struct Lines {
  Ordering order;
  int64_t start, size;     // the segment's first index and length in the dim
  int64_t first;           // the segment's first index in the input
  int64_t before, behind;  // results along the dim before this segment, and of all segments
  int log_room;            // log2 of the positions of a line, a power of two

  int64_t count() const { return order.outer * order.inner; }
  constexpr int64_t element(int64_t line, int64_t at) const {
    return (line / order.inner * order.size + first + at) * order.inner + line % order.inner;
  }
  constexpr int64_t result(int64_t line, int64_t at) const {
    return (line / order.inner * behind + before + at) * order.inner + line % order.inner;
  }
};

template <typename C>
struct Candidates {
  const std::byte *values, *indices;  // null indices: elements are numbered by their positions
  DType dtype, index_dtype;
  int64_t bytes, index_bytes;

  constexpr C value(int64_t at) const { return load_as<C>(values + at * bytes, dtype); }
  constexpr int64_t index(int64_t at, int64_t place) const {
    if (indices == nullptr) return place;
    return load_as<int64_t>(indices + at * index_bytes, index_dtype);
  }
};

struct NumberBody {
  int log_room;
  int64_t* places;
  constexpr void operator()(int64_t index) const {
    places[index] = index & ((int64_t{1} << log_room) - 1);
  }
};

// Compares positions that are 2^log_apart apart, in runs of 2^log_run that ascend and descend in
// turn. Positions after a line's end sort after all others.
template <typename C>
struct StageBody {
  Lines lines;
  int log_run, log_apart;
  Candidates<C> from;
  int64_t* places;

  constexpr void operator()(int64_t index) const {
    const int64_t line = index >> (lines.log_room - 1);
    const int64_t pair = index & ((int64_t{1} << (lines.log_room - 1)) - 1);
    const int64_t apart = int64_t{1} << log_apart;
    const int64_t low = ((pair >> log_apart) << (log_apart + 1)) + (pair & (apart - 1));
    int64_t* place = places + (line << lines.log_room) + low;
    const bool rises = ((low >> log_run) & 1) == 0;
    if (before(line, place[apart], place[0]) != rises) return;
    const int64_t kept = place[0];
    place[0] = place[apart];
    place[apart] = kept;
  }
  constexpr bool before(int64_t line, int64_t a, int64_t b) const {
    if (a >= lines.size || b >= lines.size) return a < b;
    const int64_t at_a = lines.element(line, a), at_b = lines.element(line, b);
    return is_sorted_before(from.value(at_a), from.index(at_a, a), from.value(at_b),
                            from.index(at_b, b), lines.order.descending);
  }
};

template <typename C>
struct KeepBody {
  Lines lines;
  Candidates<C> from;
  const int64_t* places;
  LastElement last;
  std::byte* out;
  int64_t* out_indices;

  constexpr void operator()(int64_t index) const {
    const int64_t line = index / lines.order.kept, at = index % lines.order.kept;
    const int64_t target = lines.result(line, at);
    std::byte* to = out + target * from.bytes;
    if (at >= lines.size) {
      store_as(to, from.dtype, last.as<C>());
      out_indices[target] = kNoIndex;
      return;
    }
    const int64_t place = places[(line << lines.log_room) + at];
    const int64_t element = lines.element(line, place);
    store_as(to, from.dtype, from.value(element));
    out_indices[target] = from.index(element, lines.start + place);
  }
};

int log_room_of(int64_t size) {
  int log = 0;
  while ((int64_t{1} << log) < size) ++log;
  return log;
}

Lines lines_of(const OrderPlan& plan, int64_t segment) {
  const auto at = static_cast<size_t>(2 * segment);
  Lines lines{plan.order, plan.starts_and_lengths[at], plan.starts_and_lengths[at + 1], 0, 0, 0, 0};
  lines.first = lines.start - plan.from;
  lines.before = segment * plan.order.kept;
  lines.behind = plan.segments() * plan.order.kept;
  lines.log_room = log_room_of(lines.size);
  return lines;
}

template <typename C>
void order_lines(const KernelCall& call, const OrderPlan& plan, const Lines& lines, int64_t lane) {
  const LaneView& values = (*call.inputs)[0];
  Candidates<C> from{values.at(lane), nullptr, values.dtype, DType::i64, size_of(values.dtype), 0};
  if (plan.has_indices) {
    from.indices = (*call.inputs)[1].at(lane);
    from.index_dtype = (*call.inputs)[1].dtype;
    from.index_bytes = size_of(from.index_dtype);
  }
  const int64_t room = lines.count() << lines.log_room;
  auto* places = reinterpret_cast<int64_t*>(call.workspace);
  launch(call.stream, room, NumberBody{lines.log_room, places});
  for (int run = 1; run <= lines.log_room; ++run)
    for (int apart = run - 1; apart >= 0; --apart)
      launch(call.stream, room / 2, StageBody<C>{lines, run, apart, from, places});
  launch(call.stream, lines.count() * plan.order.kept,
         KeepBody<C>{lines, from, places, plan.last, (*call.outputs)[0].at(lane),
                     reinterpret_cast<int64_t*>((*call.outputs)[1].at(lane))});
}

template <typename C>
Kernel order_on_device(const OrderPlan& plan) {
  Kernel kernel;
  for (int64_t s = 0; s < plan.segments(); ++s) {
    const Lines lines = lines_of(plan, s);
    const int64_t room = (lines.count() << lines.log_room) * int64_t{sizeof(int64_t)};
    if (room > kernel.workspace_bytes) kernel.workspace_bytes = room;
  }
  kernel.run = [plan](const KernelCall& call) {
    for (int64_t lane = 0; lane < call.lanes; ++lane)
      for (int64_t s = 0; s < plan.segments(); ++s)
        order_lines<C>(call, plan, lines_of(plan, s), lane);
  };
  return kernel;
}

}  // namespace

template <>
void KernelFamilies<Target>::add_order(DeviceKernels& kernels) {
  kernels.add<OrderPlan>([](const OrderPlan& plan) {
    if (plan.compute == DType::f32) return order_on_device<float>(plan);
    if (plan.compute == DType::f64) return order_on_device<double>(plan);
    return plan.compute == DType::i64 ? order_on_device<int64_t>(plan) : Kernel();
  });
}

}  // namespace shardproof
