// Implements the execution of ptx.h: one thread at a time, steps in order.
#include <algorithm>
#include <memory>
#include <numeric>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/ptx/memory_checks.h"
#include "shardproof/tests/gpu/ptx/ptx.h"

namespace shardproof::ptx {
namespace {

// A thread's own memory.
struct Stack {
  struct alignas(16) Chunk {
    std::byte bytes[16];
  };
  std::vector<Chunk> chunks = std::vector<Chunk>(4096);
  size_t taken = 0;

  uint64_t take(int64_t bytes) {
    const size_t start = taken;
    taken += static_cast<size_t>(bytes + 15) / 16;
    if (taken > chunks.size()) throw Error(ErrorKind::limit, "a thread's own memory is all taken");
    return reinterpret_cast<uint64_t>(&chunks[start]);
  }
};

// The slots and memory of one function. They are reused without clearing: no register is read
// before it is written.
struct Frame {
  Frame(const Function& function, Stack& given)
      : slots(function.initial), callees(function.calls.size()), stack(given) {
    const uint64_t first = stack.take(function.room_bytes);
    for (const Room& room : function.rooms)
      slots[room.slot] = first + static_cast<uint64_t>(room.offset);
  }

  std::vector<uint64_t> slots;
  std::vector<std::unique_ptr<Frame>> callees;  // by call
  Stack& stack;
};

void run_steps(const Function& function, Frame& frame, Watch* watch);

void run_call(const Call& call, Frame& caller, std::unique_ptr<Frame>& frame, Watch* watch) {
  if (!frame) frame = std::make_unique<Frame>(*call.function, caller.stack);
  const uint64_t* const slots = caller.slots.data();
  std::copy(slots + kThread, slots + kFirstFreeSlot, frame->slots.begin() + kThread);
  uint32_t at = kFirstFreeSlot;
  for (const auto* list : {&call.results, &call.arguments})
    for (const uint32_t slot : *list) frame->slots[at++] = slots[slot];
  run_steps(*call.function, *frame, watch);
}

const std::byte* address_of(const Step& step, const uint64_t* slots) {
  return reinterpret_cast<const std::byte*>(slots[step.at[step.address]]) + step.offset;
}

void write_memory(const Step& step, uint64_t* slots, Watch* watch) {
  const std::byte* const at = address_of(step, slots);
  if (watch != nullptr) watch->before_write(at, step.bytes);
  step.apply(step, slots);
  if (watch != nullptr) watch->after_write(at, step.bytes);
}

void run_steps(const Function& function, Frame& frame, Watch* watch) {
  const Step* const steps = function.steps.data();
  uint64_t* const slots = frame.slots.data();
  for (const Step* step = steps;; ++step) {
    if (step->guarded && (slots[step->guard] != 0) == step->unless) continue;
    switch (step->kind) {
      case StepKind::apply: step->apply(*step, slots); break;
      case StepKind::read:
        if (watch != nullptr) watch->read(address_of(*step, slots), step->bytes);
        step->apply(*step, slots);
        break;
      case StepKind::write: write_memory(*step, slots, watch); break;
      case StepKind::jump: step = steps + step->target - 1; break;
      case StepKind::call:
        run_call(function.calls[step->target], frame, frame.callees[step->target], watch);
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
                 const Extent& blocks, const Extent& threads, Watch* watch) {
  if (blocks.y * blocks.z * threads.y * threads.z != 1)
    throw_bad_input("a grid of more than one dimension");
  Stack stack;
  Frame frame(kernel, stack);
  if (watch != nullptr)
    watch->give_threads({stack.chunks.data(), stack.chunks.data() + stack.chunks.size()});
  uint64_t* const slots = frame.slots.data();
  set_extent(slots, kThreads, threads);
  set_extent(slots, kBlocks, blocks);
  for (size_t i = 0; i < arguments.size(); ++i)
    slots[kFirstFreeSlot + i] = reinterpret_cast<uint64_t>(arguments[i]);
  const uint64_t all = uint64_t{blocks.x} * threads.x;
  uint64_t stride = all / 2 + 1;  // visits each thread once if it has no common divisor with `all`
  while (std::gcd(stride, all) != 1) ++stride;
  for (uint64_t i = 0, next = all - 1; i < all; ++i, next = (next + stride) % all) {
    if (watch != nullptr) watch->begin(static_cast<int64_t>(next));
    set_extent(slots, kThread, {static_cast<uint32_t>(next % threads.x), 0, 0});
    set_extent(slots, kBlock, {static_cast<uint32_t>(next / threads.x), 0, 0});
    run_steps(kernel, frame, watch);
  }
}

}  // namespace shardproof::ptx
