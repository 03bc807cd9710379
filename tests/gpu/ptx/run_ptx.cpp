#include <algorithm>
#include <memory>

#include "shardproof/localtensor/error.h"
#include "shardproof/tests/gpu/ptx/ptx.h"

namespace shardproof::ptx {
namespace {

// Slots and rooms of one function. Whoever runs next finds the registers as they were left: nothing
// reads one before it is written.
struct Frame {
  explicit Frame(const Function& function)
      : slots(function.initial),
        rooms(static_cast<size_t>(function.room_bytes + 15) / 16),
        callees(function.calls.size()) {
    const auto first = reinterpret_cast<uint64_t>(rooms.data());
    for (const Room& room : function.rooms)
      slots[room.slot] = first + static_cast<uint64_t>(room.offset);
  }

  struct alignas(16) Chunk {
    std::byte bytes[16];
  };
  std::vector<uint64_t> slots;
  std::vector<Chunk> rooms;
  std::vector<std::unique_ptr<Frame>> callees;  // by the call
};

void run_steps(const Function& function, Frame& frame);

void run_call(const Call& call, const uint64_t* slots, std::unique_ptr<Frame>& frame) {
  if (!frame) frame = std::make_unique<Frame>(*call.function);
  std::copy(slots + kThread, slots + kFirstFreeSlot, frame->slots.begin() + kThread);
  uint32_t at = kFirstFreeSlot;
  for (const auto* list : {&call.results, &call.arguments})
    for (const uint32_t slot : *list) frame->slots[at++] = slots[slot];
  run_steps(*call.function, *frame);
}

void run_steps(const Function& function, Frame& frame) {
  const Step* const steps = function.steps.data();
  uint64_t* const slots = frame.slots.data();
  for (const Step* step = steps;; ++step) {
    if (step->guarded && (slots[step->guard] != 0) == step->unless) continue;
    switch (step->kind) {
      case StepKind::apply: step->apply(*step, slots); break;
      case StepKind::jump: step = steps + step->target - 1; break;
      case StepKind::call:
        run_call(function.calls[step->target], slots, frame.callees[step->target]);
        break;
      case StepKind::leave: return;
    }
  }
}

void set_extent(uint64_t* slots, uint32_t first, const Extent& extent) {
  slots[first] = extent.x;
  slots[first + 1] = extent.y;
  slots[first + 2] = extent.z;
}

}  // namespace

void run_threads(const Function& kernel, const std::vector<const std::byte*>& arguments,
                 const Extent& blocks, const Extent& threads) {
  if (blocks.y * blocks.z * threads.y * threads.z != 1)
    throw_bad_input("a grid of more than one dimension");
  Frame frame(kernel);
  set_extent(frame.slots.data(), kThreads, threads);
  set_extent(frame.slots.data(), kBlocks, blocks);
  for (size_t i = 0; i < arguments.size(); ++i)
    frame.slots[kFirstFreeSlot + i] = reinterpret_cast<uint64_t>(arguments[i]);
  uint64_t* const slots = frame.slots.data();
  for (uint32_t block = 0; block < blocks.x; ++block) {
    for (uint32_t thread = 0; thread < threads.x; ++thread) {
      set_extent(slots, kThread, {thread, 0, 0});
      set_extent(slots, kBlock, {block, 0, 0});
      run_steps(kernel, frame);
    }
  }
}

}  // namespace shardproof::ptx
