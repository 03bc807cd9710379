// Implements Arena of machine.h: a range of addresses that is unreadable unless work runs.
#include <sys/mman.h>

#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/fake_gpu/machine.h"

namespace shardproof {
namespace {

constexpr int64_t kAlignment = 256, kPage = 4096;
constexpr int kFreedByte = 0xCD;

int64_t rounded(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Arena::Arena(int64_t bytes) : bytes_(rounded(bytes, kPage)) {
  void* range = mmap(nullptr, static_cast<size_t>(bytes_), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SP_CHECK(range != MAP_FAILED, "no addresses for {} bytes", bytes_);
  base_ = static_cast<std::byte*>(range);
  mark(0, bytes_, MADV_DONTDUMP);
  free_.emplace(0, bytes_);
}

Arena::~Arena() { munmap(base_, static_cast<size_t>(bytes_)); }

void* Arena::allocate(int64_t bytes) {
  const int64_t size = rounded(bytes, kAlignment);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [offset, room] = *it;
    if (room < size) continue;
    free_.erase(it);
    if (room > size) free_.emplace(offset + size, room - size);
    allocated_.emplace(offset, Allocation{size, bytes});
    in_use_ += size;
    const int64_t before = rounded(used_end_, kPage);
    used_end_ = std::max(used_end_, offset + size);
    const int64_t after = rounded(used_end_, kPage);
    if (after > before) mark(before, after, MADV_DODUMP);
    // Running kernels may access the new memory at once.
    if (open_ > 0 && after > before) protect(PROT_READ | PROT_WRITE);
    return base_ + offset;
  }
  return nullptr;
}

void Arena::release(void* memory) {
  const int64_t offset = static_cast<std::byte*>(memory) - base_;
  const auto found = allocated_.find(offset);
  SP_CHECK(found != allocated_.end(), "released what was not allocated, or twice");
  const int64_t start = found->first;
  int64_t size = found->second.size;
  allocated_.erase(found);
  in_use_ -= size;
  std::memset(memory, kFreedByte, static_cast<size_t>(size));
  auto next = free_.upper_bound(start);
  if (next != free_.end() && next->first == start + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start) {
      before->second += size;
      return trim(before->first);
    }
  }
  free_.emplace(start, size);
  trim(start);
}

// The time of protecting grows with the pages ever touched: a large free end is unmapped.
void Arena::trim(int64_t free_from) {
  constexpr int64_t kWorthwhile = int64_t{1} << 20;
  const int64_t start = rounded(free_from, kPage), end = rounded(used_end_, kPage);
  if (free_from + free_.at(free_from) < used_end_ || end - start < kWorthwhile) return;
  const size_t size = static_cast<size_t>(end - start);
  SP_CHECK(mprotect(base_ + start, size, PROT_NONE) == 0 &&
               madvise(base_ + start, size, MADV_DONTNEED) == 0,
           "the arena cannot be closed");
  mark(start, end, MADV_DONTDUMP);
  used_end_ = start;
}

std::pair<const std::byte*, const std::byte*> Arena::allocation_of(const void* memory) const {
  const int64_t offset = static_cast<const std::byte*>(memory) - base_;
  const auto next = allocated_.upper_bound(offset);
  if (next == allocated_.begin()) return {};
  const auto& [start, allocation] = *std::prev(next);
  if (offset >= start + allocation.requested) return {};
  return {base_ + start, base_ + start + allocation.requested};
}

bool Arena::holds(const void* memory, int64_t bytes) const {
  const auto [start, end] = allocation_of(memory);
  return start != nullptr && static_cast<const std::byte*>(memory) + bytes <= end;
}

// The used part and the rest differ in `advice`, so the kernel does not join them. Otherwise it
// would split them again when the used part is opened, which took half of the time.
void Arena::mark(int64_t from, int64_t to, int advice) {
  SP_CHECK(madvise(base_ + from, static_cast<size_t>(to - from), advice) == 0,
           "the arena cannot be divided");
}

void Arena::protect(int protection) {
  if (used_end_ == 0) return;
  const int status = mprotect(base_, static_cast<size_t>(rounded(used_end_, kPage)), protection);
  SP_CHECK(status == 0, "the arena cannot be protected");
}

Arena::Open::Open(Arena& opened) : arena(opened) {
  if (arena.open_++ == 0) arena.protect(PROT_READ | PROT_WRITE);
}

Arena::Open::~Open() {
  if (--arena.open_ == 0) arena.protect(PROT_NONE);
}

}  // namespace shardproof
