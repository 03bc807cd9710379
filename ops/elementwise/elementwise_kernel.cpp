// Implements ops/elementwise/elementwise_kernel.h. One call of the kernel:
//
//   0. run_dense() runs calls whose operands need none of the steps below.
//   1. walk_of() merges lanes and dims into one iteration space.
//   2. choose_access() decides for each operand: used in place, one element filled into a tile
//   once, or staged (gathered and converted tile by tile).
//   3. run_walk() steps through the outer dims; run_inner() runs the loop over tiles of the
//   innermost dim.
#include "shardproof/ops/elementwise/elementwise_kernel.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/copy_strided.h"
#include "shardproof/ops/elementwise/broadcast_iteration.h"

namespace shardproof {
namespace {

constexpr int kMaxOperands = BroadcastIteration::kMostOperands;
constexpr int64_t kArenaBytes = 16 * 1024;

// The access to an operand's tile.
enum class TileAccess { in_place, constant, staged };

struct TileOperand {
  DType storage, tile;
  int64_t storage_bytes, tile_bytes;
  TileAccess access;
  bool everywhere;  // the whole call reads one element
  std::byte* base;
  std::byte* staging;  // set unless the access is in_place
};

struct TileFrame {
  explicit TileFrame(const BroadcastIteration& space) : walk(space) {}
  const BroadcastIteration& walk;  // not copied: its tables are larger than many a tensor
  std::array<TileOperand, kMaxOperands> operands;  // the first `count` are set
  int inputs = 0, count = 0;
  int64_t tile_elements = 0;
  std::byte* raw = nullptr;  // strided elements before conversion
};

void choose_access(TileFrame& frame, std::byte* arena) {
  const auto inner = static_cast<size_t>(frame.walk.dims - 1);
  int64_t per_element = 0, widest = 0;
  for (int k = 0; k < frame.count; ++k) {
    TileOperand& operand = frame.operands[static_cast<size_t>(k)];
    const auto& steps = frame.walk.steps[static_cast<size_t>(k)];
    operand.access =
        steps[inner] == 0 && k < frame.inputs ? TileAccess::constant : TileAccess::staged;
    if (operand.storage == operand.tile && steps[inner] == operand.storage_bytes)
      operand.access = TileAccess::in_place;
    operand.everywhere = operand.access == TileAccess::constant &&
                         std::all_of(steps.begin(), steps.begin() + frame.walk.dims,
                                     [](int64_t step) { return step == 0; });
    if (operand.access == TileAccess::in_place) continue;
    per_element += operand.tile_bytes;
    widest = std::max(widest, operand.storage_bytes);
  }
  if (per_element == 0) {
    frame.tile_elements = frame.walk.sizes[inner];
    return;
  }
  frame.tile_elements = kArenaBytes / (per_element + widest) / 16 * 16;
  frame.raw = arena;
  arena += frame.tile_elements * widest;
  for (int k = 0; k < frame.count; ++k) {
    TileOperand& operand = frame.operands[static_cast<size_t>(k)];
    if (operand.access == TileAccess::in_place) continue;
    operand.staging = arena;
    arena += frame.tile_elements * operand.tile_bytes;
  }
}

template <typename Word>
void repeat(std::byte* tile, int64_t count) {
  Word word;
  std::memcpy(&word, tile, sizeof(Word));
  auto* to = reinterpret_cast<Word*>(tile);
  for (int64_t i = 0; i < count; ++i) to[i] = word;
}

struct Wide16 {
  uint64_t halves[2];
};

void fill(const TileOperand& operand, const std::byte* element, int64_t count) {
  convert(element, operand.storage, operand.staging, operand.tile, 1);
  switch (operand.tile_bytes) {
    case 1: return repeat<uint8_t>(operand.staging, count);
    case 2: return repeat<uint16_t>(operand.staging, count);
    case 4: return repeat<uint32_t>(operand.staging, count);
    case 8: return repeat<uint64_t>(operand.staging, count);
    default: return repeat<Wide16>(operand.staging, count);
  }
}

void load(const TileFrame& frame, const TileOperand& operand, const std::byte* from, int64_t step,
          int64_t count) {
  const bool packed = step == operand.storage_bytes;
  std::byte* gathered = operand.storage == operand.tile ? operand.staging : frame.raw;
  if (!packed) {
    const Dims stride{step / operand.storage_bytes};
    copy_strided(from, stride, gathered, Dims{1}, Dims{count}, operand.storage_bytes);
    from = gathered;
  }
  if (from != operand.staging) convert(from, operand.storage, operand.staging, operand.tile, count);
}

// Returns the neighbour of x in the direction in which this thread rounds.
double next_in_direction(double x, int direction) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (direction == FE_TOWARDZERO) return std::nextafter(x, 0);
  return std::nextafter(x, direction == FE_UPWARD ? kInfinite : -kInfinite);
}

// True if the number has few bits, as exact results do.
bool has_few_bits(double x) {
  constexpr uint64_t kLowBits = (uint64_t{1} << 26) - 1;
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return (bits & kLowBits) == 0;
}

// Moves the f64 results of a tile that may have been rounded. Results of few bits from whole
// numbers, such as exp(0) and 2 ** 3, are exact.
void move_results(const TileFrame& frame, const std::array<std::byte*, kMaxOperands>& at,
                  int64_t count) {
  const int direction = std::fegetround();
  if (direction == FE_TONEAREST || frame.operands[0].tile != DType::f64) return;
  const auto from_whole_numbers = [&](int64_t i) {
    for (size_t k = 0; k < static_cast<size_t>(frame.inputs); ++k) {
      const double x = reinterpret_cast<const double*>(at[k])[i];
      if (x != std::trunc(x)) return false;
    }
    return true;
  };
  const size_t result = static_cast<size_t>(frame.inputs);
  if (frame.operands[result].tile != DType::f64) return;
  auto* const results = reinterpret_cast<double*>(at[result]);
  for (int64_t i = 0; i < count; ++i) {
    // The largest number may be an overflow that was rounded down.
    if (!(std::fabs(results[i]) < std::numeric_limits<double>::max()) || results[i] == 0) continue;
    if (has_few_bits(results[i]) && from_whole_numbers(i)) continue;
    results[i] = next_in_direction(results[i], direction);
  }
}

// Runs the innermost dim once, from the operands' current positions.
void run_inner(const TileFrame& frame, const ElementwisePlan& plan,
               const std::array<std::byte*, kMaxOperands>& places) {
  const auto inner = static_cast<size_t>(frame.walk.dims - 1);
  const int64_t total = frame.walk.sizes[inner];
  for (int k = 0; k < frame.inputs; ++k) {
    const TileOperand& operand = frame.operands[static_cast<size_t>(k)];
    if (operand.access == TileAccess::constant && !operand.everywhere)
      fill(operand, places[static_cast<size_t>(k)], std::min(total, frame.tile_elements));
  }
  std::array<std::byte*, kMaxOperands> at{};
  for (int64_t done = 0; done < total; done += frame.tile_elements) {
    const int64_t count = std::min(frame.tile_elements, total - done);
    for (int k = 0; k < frame.count; ++k) {
      const TileOperand& operand = frame.operands[static_cast<size_t>(k)];
      const int64_t step = frame.walk.steps[static_cast<size_t>(k)][inner];
      std::byte* here = places[static_cast<size_t>(k)] + done * step;
      at[static_cast<size_t>(k)] = operand.access == TileAccess::in_place ? here : operand.staging;
      if (operand.access == TileAccess::staged && k < frame.inputs)
        load(frame, operand, here, step, count);
    }
    plan.loop({at.data(), at.data() + frame.inputs, count, &plan.numbers});
    if (plan.by_library) move_results(frame, at, count);
    for (int k = frame.inputs; k < frame.count; ++k) {
      const TileOperand& operand = frame.operands[static_cast<size_t>(k)];
      if (operand.access == TileAccess::in_place) continue;
      std::byte* here = places[static_cast<size_t>(k)] + done * operand.storage_bytes;
      convert(operand.staging, operand.tile, here, operand.storage, count);
    }
  }
}

void run_walk(const TileFrame& frame, const ElementwisePlan& plan) {
  const auto inner = static_cast<size_t>(frame.walk.dims - 1);
  std::array<std::byte*, kMaxOperands> places{};
  for (int k = 0; k < frame.count; ++k) {
    const TileOperand& operand = frame.operands[static_cast<size_t>(k)];
    places[static_cast<size_t>(k)] = operand.base;
    if (operand.everywhere)
      fill(operand, operand.base, std::min(frame.tile_elements, frame.walk.sizes[inner]));
  }
  std::array<int64_t, Dims::kCapacity + 1> index{};
  while (true) {
    run_inner(frame, plan, places);
    int d = frame.walk.dims - 2;
    for (; d >= 0; --d) {
      const auto dim = static_cast<size_t>(d);
      const bool carry = ++index[dim] == frame.walk.sizes[dim];
      const int64_t moves = carry ? 1 - frame.walk.sizes[dim] : 1;
      for (size_t k = 0; k < static_cast<size_t>(frame.count); ++k)
        places[k] += moves * frame.walk.steps[k][dim];
      if (!carry) break;
      index[dim] = 0;
    }
    if (d < 0) return;
  }
}

void run_lanes(const ElementwisePlan& plan, const KernelCall& call, int64_t first, int64_t lanes) {
  alignas(64) std::byte arena[kArenaBytes];
  std::array<const LaneView*, kMaxOperands> views{};
  const size_t inputs = plan.inputs.size(), count = inputs + plan.outputs.size();
  for (size_t k = 0; k < count; ++k)
    views[k] = k < inputs ? &(*call.inputs)[k] : &(*call.outputs)[k - inputs];
  const BroadcastIteration walk =
      walk_of(views.data(), static_cast<int>(count), call.outputs->front().shape, lanes);
  TileFrame frame(walk);
  frame.inputs = static_cast<int>(inputs);
  frame.count = static_cast<int>(count);
  for (size_t k = 0; k < count; ++k) {
    TileOperand& operand = frame.operands[k];
    operand.storage = views[k]->dtype;
    operand.tile = k < inputs ? plan.inputs[k] : plan.outputs[k - inputs];
    operand.storage_bytes = size_of(operand.storage);
    operand.tile_bytes = size_of(operand.tile);
    operand.base = views[k]->at(first);
  }
  choose_access(frame, arena);
  run_walk(frame, plan);
}

// Runs the loop once over all elements if all operands are dense, of one shape and in the dtypes of
// the loop. In this usual case the steps above would cost more than a small op. Returns false if
// some operand is not.
bool run_dense(const ElementwisePlan& plan, const KernelCall& call) {
  if (plan.by_library) return false;
  const LaneView& result = call.outputs->front();
  const int64_t count = element_count(result.shape);
  std::array<std::byte*, kMaxOperands> at{};
  size_t operands = 0;
  const auto add = [&](const LaneView& view, DType tile) {
    at[operands++] = view.base;
    return view.dtype == tile && view.shape == result.shape && view.strides == result.strides &&
           (call.lanes == 1 || view.lane_stride == count * size_of(tile));
  };
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    if (!add((*call.inputs)[i], plan.inputs[i])) return false;
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (!add((*call.outputs)[i], plan.outputs[i])) return false;
  plan.loop({at.data(), at.data() + plan.inputs.size(), call.lanes * count, &plan.numbers});
  return true;
}

bool has_slots(const std::vector<LaneView>& views) {
  return std::any_of(views.begin(), views.end(),
                     [](const LaneView& v) { return v.slots != nullptr; });
}

void run_elementwise(const ElementwisePlan& plan, const KernelCall& call) {
  for (const int64_t size : call.outputs->front().shape)
    if (size == 0) return;
  if (call.lanes == 0) return;
  if (!has_slots(*call.inputs) && !has_slots(*call.outputs)) {
    if (!run_dense(plan, call)) run_lanes(plan, call, 0, call.lanes);
    return;
  }
  for (int64_t lane = 0; lane < call.lanes; ++lane) run_lanes(plan, call, lane, 1);
}

}  // namespace

Kernel elementwise_kernel(const ElementwisePlan& plan) {
  SP_CHECK(plan.loop && plan.inputs.size() + plan.outputs.size() <= kMaxOperands,
           "an elementwise plan of {} inputs and {} outputs", plan.inputs.size(),
           plan.outputs.size());
  Kernel kernel;
  kernel.accepts_strides = true;
  kernel.plan = share_plan(plan);
  kernel.run = [plan](const KernelCall& call) { run_elementwise(plan, call); };
  return kernel;
}

}  // namespace shardproof
