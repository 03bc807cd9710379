#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/memory_pool.h"

namespace shardproof {
namespace {

// A recycled block would hide a use after free from the address sanitizer.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kRecycles = false;
#elif defined(__has_feature)
constexpr bool kRecycles = !__has_feature(address_sanitizer);
#else
constexpr bool kRecycles = true;
#endif

// Classes in units of 64 bytes: each unit up to 16, then 8 steps an octave, so at most 1/8 is
// wasted. Blocks above kPoolMaxCachedBytes / 4 are not kept: a few of them would push out all
// others.
constexpr size_t kExactUnits = 16;
constexpr int kExactBits = 4, kStepBits = 3;
constexpr size_t kMaxUnits = kPoolMaxCachedBytes / 4 / kPoolAlignment;
constexpr size_t kClasses =
    kExactUnits + 1 + ((std::bit_width(kMaxUnits - 1) - kExactBits) << kStepBits);

struct SizeClass {
  size_t index;
  size_t bytes;
};

SizeClass size_class(size_t bytes) {
  const size_t units = std::max<size_t>((bytes + kPoolAlignment - 1) / kPoolAlignment, 1);
  if (units <= kExactUnits) return {units, units * kPoolAlignment};
  const int octave = std::bit_width(units - 1) - 1;  // units in (2^octave, 2^(octave + 1)]
  const int step_bits = octave - kStepBits;
  const size_t steps = (units - 1) >> step_bits;  // 8..15
  const size_t index = kExactUnits + 1 + (static_cast<size_t>(octave - kExactBits) << kStepBits) +
                       (steps - (size_t{1} << kStepBits));
  return {index, ((steps + 1) << step_bits) * kPoolAlignment};
}

// Blocks of up to 16 units are cut from slabs: asked for one by one, the system spends as much on
// its own header and alignment. They stay ours until the process ends.
constexpr size_t kSlabBytes = size_t{64} << 10;
// Who has cut this much gets slabs of one huge page each, where the system has them.
constexpr size_t kHugeBytes = size_t{2} << 20;

bool from_slab(size_t index) { return kRecycles && index <= kExactUnits; }

struct FreeBlock {
  FreeBlock* next;
};

enum class Life : uint8_t { unborn, alive, over };

// Trivially destructible, so that objects which outlive the thread's other variables may still
// release their blocks.
struct FreeLists {
  FreeBlock* heads[kClasses];
  FreeBlock* tails[kExactUnits + 1];  // of blocks of slabs, where there is a head
  size_t bytes_of[kClasses];
  size_t cached_bytes;
  std::byte *slab, *slab_end;  // what is not yet cut
  size_t slab_bytes;           // of all slabs so far
  Life life;
};
thread_local constinit FreeLists free_lists{};

// Blocks of slabs that threads left behind when they ended.
constinit std::mutex left_behind_guard;
struct Chain {
  FreeBlock *first, *last;
};
constinit Chain left_behind[kExactUnits + 1] = {};
// What was not cut of their slabs, from a kSlabBytes on.
struct Rest {
  Rest* next;
  std::byte* end;
};
constinit Rest* rests = nullptr;

// Gives blocks back to the system, largest first, until at most `target` bytes are cached.
void trim(FreeLists& lists, size_t target) {
  for (size_t c = kClasses; c-- > 0 && lists.cached_bytes > target && !from_slab(c);) {
    while (lists.heads[c] != nullptr && lists.cached_bytes > target) {
      FreeBlock* block = lists.heads[c];
      lists.heads[c] = block->next;
      lists.cached_bytes -= lists.bytes_of[c];
      std::free(block);
    }
  }
}

void leave_behind(size_t index, Chain blocks) {
  const std::lock_guard lock(left_behind_guard);
  Chain& others = left_behind[index];
  blocks.last->next = others.first;
  if (others.first == nullptr) others.last = blocks.last;
  others.first = blocks.first;
}

void leave_rest(std::byte* begin, std::byte* end) {
  const std::lock_guard lock(left_behind_guard);
  rests = new (begin) Rest{rests, end};
}

struct AtThreadEnd {
  ~AtThreadEnd() {
    FreeLists& lists = free_lists;
    lists.life = Life::over;
    trim(lists, 0);
    if (lists.slab_end - lists.slab >= static_cast<std::ptrdiff_t>(kSlabBytes))
      leave_rest(std::exchange(lists.slab, lists.slab_end), lists.slab_end);
    while (lists.slab != lists.slab_end) {
      const auto rest = static_cast<size_t>(lists.slab_end - lists.slab);
      const SizeClass its = size_class(std::min(rest, kExactUnits * kPoolAlignment));
      FreeBlock* const block = new (lists.slab) FreeBlock{nullptr};
      leave_behind(its.index, {block, block});
      lists.slab += its.bytes;
    }
    for (size_t c = 1; c <= kExactUnits; ++c)
      if (lists.heads[c] != nullptr && from_slab(c))
        leave_behind(c, {std::exchange(lists.heads[c], nullptr), lists.tails[c]});
  }
};

[[gnu::noinline]] bool begin_life(FreeLists& lists) {
  if (lists.life == Life::over) return false;
  thread_local AtThreadEnd at_thread_end;
  static_cast<void>(at_thread_end);
  lists.life = Life::alive;
  return true;
}

[[gnu::noinline]] void* system_allocate(size_t wanted, size_t bytes,
                                        size_t alignment = kPoolAlignment) {
  // Asked for more, sanitizers end the process instead of saying no.
  constexpr size_t kMost = size_t{1} << 39;
  void* block = wanted <= kMost ? std::aligned_alloc(alignment, bytes) : nullptr;
  if (block == nullptr && wanted <= kMost && free_lists.cached_bytes > 0) {
    trim(free_lists, 0);
    return system_allocate(wanted, bytes, alignment);
  }
  if (block == nullptr)
    throw Error(ErrorKind::limit, fmt::format("out of memory: {} bytes asked for", wanted));
  return block;
}

void take_slab(FreeLists& lists) {
  {
    const std::lock_guard lock(left_behind_guard);
    if (Rest* rest = rests) {
      rests = rest->next;
      lists.slab_end = rest->end;
      lists.slab = reinterpret_cast<std::byte*>(rest);
      return;
    }
  }
  const bool huge = lists.slab_bytes >= kHugeBytes;
  const size_t bytes = huge ? kHugeBytes : kSlabBytes;
  lists.slab =
      static_cast<std::byte*>(system_allocate(bytes, bytes, huge ? kHugeBytes : kPoolAlignment));
  lists.slab_end = lists.slab + bytes;
  lists.slab_bytes += bytes;
  if (huge) madvise(lists.slab, bytes, MADV_HUGEPAGE);
}

[[gnu::noinline]] void* cut_block(FreeLists& lists, const SizeClass& its) {
  if (lists.slab_end - lists.slab < static_cast<std::ptrdiff_t>(its.bytes)) {
    {
      const std::lock_guard lock(left_behind_guard);
      const Chain found = std::exchange(left_behind[its.index], {});
      lists.heads[its.index] = found.first;
      lists.tails[its.index] = found.last;
    }
    if (FreeBlock* block = lists.heads[its.index]) {
      lists.heads[its.index] = block->next;
      return block;
    }
    if (lists.life == Life::unborn) begin_life(lists);
    take_slab(lists);
  }
  return std::exchange(lists.slab, lists.slab + its.bytes);
}

}  // namespace

void* pool_allocate(size_t bytes) {
  const SizeClass its = size_class(bytes);
  FreeLists& lists = free_lists;
  if (its.index < kClasses && lists.heads[its.index] != nullptr) {
    FreeBlock* block = lists.heads[its.index];
    lists.heads[its.index] = block->next;
    if (!from_slab(its.index)) lists.cached_bytes -= its.bytes;
    return block;
  }
  return from_slab(its.index) ? cut_block(lists, its) : system_allocate(bytes, its.bytes);
}

void pool_release(void* block, size_t bytes) noexcept {
  const SizeClass its = size_class(bytes);
  FreeLists& lists = free_lists;
  const bool kept =
      kRecycles && its.index < kClasses && (lists.life == Life::alive || begin_life(lists));
  if (from_slab(its.index)) {
    FreeBlock* freed = new (block) FreeBlock{kept ? lists.heads[its.index] : nullptr};
    if (!kept) return leave_behind(its.index, {freed, freed});
    if (freed->next == nullptr) lists.tails[its.index] = freed;
    lists.heads[its.index] = freed;
    return;
  }
  if (!kept) return std::free(block);
  // Half at once, so that a run at the limit does not trim on each release.
  if (lists.cached_bytes + its.bytes > kPoolMaxCachedBytes) trim(lists, kPoolMaxCachedBytes / 2);
  lists.heads[its.index] = new (block) FreeBlock{lists.heads[its.index]};
  lists.bytes_of[its.index] = its.bytes;
  lists.cached_bytes += its.bytes;
}

size_t pool_block_bytes(size_t bytes) { return size_class(bytes).bytes; }
size_t pool_cached_bytes() { return free_lists.cached_bytes; }

}  // namespace shardproof
