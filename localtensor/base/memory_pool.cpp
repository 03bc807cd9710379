// Implements memory_pool.h.
//
//   1. A request is rounded up to a size class (size_class).
//   2. A class with a free block returns it: a pop from a singly linked list of this thread.
//   3. Otherwise a block of up to 16 units (1 KiB) is cut from a slab, a larger one comes from
//      std::aligned_alloc.
//   4. A released block goes to the list of the releasing thread. Above kPoolMaxCachedBytes the
//      largest blocks are returned to the system.
//   5. When a thread ends, its blocks and the rest of its slab go to global lists. Other threads
//      allocate from them before they make a new slab.
//
// Size classes by example, in units of 64 bytes: 16 units are a class. 17 and 18 units share the
// class of 18, because classes from 16 to 32 units are 2 units apart. 33 to 36 units share the
// class of 36.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/localtensor/base/per_thread.h"

namespace shardproof {
namespace {

// Off under the address sanitizer: a recycled block would hide a use after free from it.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kRecycles = false;
#elif defined(__has_feature)
constexpr bool kRecycles = !__has_feature(address_sanitizer);
#else
constexpr bool kRecycles = true;
#endif

// Classes in units of 64 bytes: each unit up to 16, then 8 steps an octave, so at most 1/8 is
// wasted. Blocks above kPoolMaxCachedBytes / 4 are not cached: a few of them would displace all
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

// Blocks of up to 16 units are cut from slabs: the header and alignment of the system
// allocator would double their size. Slabs are never returned to the system.
constexpr size_t kSlabBytes = size_t{64} << 10;
// Blocks of at least this size lie on huge pages, where the system has them. A thread that has cut
// this many bytes gets slabs of one huge page each.
constexpr size_t kHugeBytes = size_t{2} << 20;

bool from_slab(size_t index) { return kRecycles && index <= kExactUnits; }

struct FreeBlock {
  FreeBlock* next;
};

enum class ThreadState : uint8_t { unused, active, ended };

// Trivially destructible, so that objects destroyed after the thread's other variables can still
// release their blocks.
struct FreeLists {
  FreeBlock* heads[kClasses];
  FreeBlock* tails[kExactUnits + 1];  // classes cut from slabs only; valid where a head is not null
  size_t bytes_of[kClasses];
  size_t cached_bytes;
  std::byte *slab, *slab_end;  // uncut rest of the current slab
  size_t slab_bytes;           // total of all slabs so far
  ThreadState state;
};
thread_local constinit FreeLists free_lists{};

// Blocks of slabs that belonged to threads which have ended, by class.
constinit std::mutex orphans_guard;
struct Chain {
  FreeBlock *first, *last;
};
constinit Chain orphans[kExactUnits + 1] = {};
// Uncut rests of their slabs of kSlabBytes and more.
struct Rest {
  Rest* next;
  std::byte* end;
};
constinit Rest* rests = nullptr;

// Returns blocks to the system, largest first, until at most `target` bytes are cached.
void trim_lists(FreeLists& lists, size_t target) {
  for (size_t c = kClasses; c-- > 0 && lists.cached_bytes > target && !from_slab(c);) {
    while (lists.heads[c] != nullptr && lists.cached_bytes > target) {
      FreeBlock* block = lists.heads[c];
      lists.heads[c] = block->next;
      lists.cached_bytes -= lists.bytes_of[c];
      std::free(block);
    }
  }
}

void orphan_blocks(size_t index, Chain blocks) {
  const std::lock_guard lock(orphans_guard);
  Chain& others = orphans[index];
  blocks.last->next = others.first;
  if (others.first == nullptr) others.last = blocks.last;
  others.first = blocks.first;
}

void orphan_rest(std::byte* begin, std::byte* end) {
  const std::lock_guard lock(orphans_guard);
  rests = new (begin) Rest{rests, end};
}

void release_at_thread_end(void* ended) {
  FreeLists& lists = *static_cast<FreeLists*>(ended);
  lists.state = ThreadState::ended;
  trim_lists(lists, 0);
  if (lists.slab_end - lists.slab >= static_cast<std::ptrdiff_t>(kSlabBytes))
    orphan_rest(std::exchange(lists.slab, lists.slab_end), lists.slab_end);
  while (lists.slab != lists.slab_end) {
    const auto rest = static_cast<size_t>(lists.slab_end - lists.slab);
    const SizeClass block_class = size_class(std::min(rest, kExactUnits * kPoolAlignment));
    FreeBlock* const block = new (lists.slab) FreeBlock{nullptr};
    orphan_blocks(block_class.index, {block, block});
    lists.slab += block_class.bytes;
  }
  for (size_t c = 1; c <= kExactUnits; ++c)
    if (lists.heads[c] != nullptr && from_slab(c))
      orphan_blocks(c, {std::exchange(lists.heads[c], nullptr), lists.tails[c]});
}

// Returns false if this thread may not store blocks: nothing would release them at its end.
[[gnu::noinline]] bool activate(FreeLists& lists) {
  static const ThreadPointer used_lists(release_at_thread_end);
  if (lists.state == ThreadState::ended || !used_lists.set(&lists)) return false;
  lists.state = ThreadState::active;
  return true;
}

[[gnu::noinline]] void* system_allocate(size_t wanted, size_t bytes) {
  // Sanitizers abort the process on larger requests instead of returning null.
  constexpr size_t kMost = size_t{1} << 39;
  // Large blocks lie on huge pages: a run reads and writes all of them several times.
  const size_t alignment = kRecycles && bytes >= kHugeBytes ? kHugeBytes : kPoolAlignment;
  void* block = wanted <= kMost ? std::aligned_alloc(alignment, bytes) : nullptr;
  if (block == nullptr && wanted <= kMost && free_lists.cached_bytes > 0) {
    trim_lists(free_lists, 0);
    return system_allocate(wanted, bytes);
  }
  if (block == nullptr)
    throw Error(ErrorKind::limit, fmt::format("out of memory: cannot allocate {} bytes", wanted));
  if (alignment == kHugeBytes) madvise(block, bytes / kHugeBytes * kHugeBytes, MADV_HUGEPAGE);
  return block;
}

void take_slab(FreeLists& lists) {
  {
    const std::lock_guard lock(orphans_guard);
    if (Rest* rest = rests) {
      rests = rest->next;
      lists.slab_end = rest->end;
      lists.slab = reinterpret_cast<std::byte*>(rest);
      return;
    }
  }
  const size_t bytes = lists.slab_bytes >= kHugeBytes ? kHugeBytes : kSlabBytes;
  lists.slab = static_cast<std::byte*>(system_allocate(bytes, bytes));
  lists.slab_end = lists.slab + bytes;
  lists.slab_bytes += bytes;
}

[[gnu::noinline]] void* cut_block(FreeLists& lists, const SizeClass& block_class) {
  if (lists.slab_end - lists.slab < static_cast<std::ptrdiff_t>(block_class.bytes)) {
    {
      const std::lock_guard lock(orphans_guard);
      const Chain found = std::exchange(orphans[block_class.index], {});
      lists.heads[block_class.index] = found.first;
      lists.tails[block_class.index] = found.last;
    }
    if (FreeBlock* block = lists.heads[block_class.index]) {
      lists.heads[block_class.index] = block->next;
      return block;
    }
    if (lists.state == ThreadState::unused) activate(lists);
    take_slab(lists);
  }
  return std::exchange(lists.slab, lists.slab + block_class.bytes);
}

}  // namespace

void* pool_allocate(size_t bytes) {
  const SizeClass block_class = size_class(bytes);
  FreeLists& lists = free_lists;
  if (block_class.index < kClasses && lists.heads[block_class.index] != nullptr) {
    FreeBlock* block = lists.heads[block_class.index];
    lists.heads[block_class.index] = block->next;
    if (!from_slab(block_class.index)) lists.cached_bytes -= block_class.bytes;
    return block;
  }
  return from_slab(block_class.index) ? cut_block(lists, block_class)
                                      : system_allocate(bytes, block_class.bytes);
}

void pool_release(void* block, size_t bytes) noexcept {
  const SizeClass block_class = size_class(bytes);
  FreeLists& lists = free_lists;
  const bool cached = kRecycles && block_class.index < kClasses &&
                      (lists.state == ThreadState::active || activate(lists));
  if (from_slab(block_class.index)) {
    FreeBlock* freed = new (block) FreeBlock{cached ? lists.heads[block_class.index] : nullptr};
    if (!cached) return orphan_blocks(block_class.index, {freed, freed});
    if (freed->next == nullptr) lists.tails[block_class.index] = freed;
    lists.heads[block_class.index] = freed;
    return;
  }
  if (!cached) return std::free(block);
  // Trims to half, so that a run at the limit does not trim on each release.
  if (lists.cached_bytes + block_class.bytes > kPoolMaxCachedBytes)
    trim_lists(lists, kPoolMaxCachedBytes / 2);
  lists.heads[block_class.index] = new (block) FreeBlock{lists.heads[block_class.index]};
  lists.bytes_of[block_class.index] = block_class.bytes;
  lists.cached_bytes += block_class.bytes;
}

size_t pool_block_bytes(size_t bytes) { return size_class(bytes).bytes; }
size_t pool_cached_bytes() { return free_lists.cached_bytes; }

}  // namespace shardproof
