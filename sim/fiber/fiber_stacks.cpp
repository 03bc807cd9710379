// Implements fiber_stacks.h with mmap. One system call installs the guards of a whole slab, another
// one makes the top pages present.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/fiber/fiber_stacks.h"

namespace shardproof {
namespace {

// Slabs grow with the number of stacks so far: most runs have few ranks.
constexpr int64_t kMinSlabStacks = 16, kMaxSlabStacks = 1024;
static_assert(kMaxSlabStacks <= IOV_MAX);

// Values of madvise that older headers lack. Guard install: accesses trap, without a mapping of
// their own (Linux 6.13). Populate: makes pages present before the first access.
constexpr int kGuardInstall = 102, kPopulateWrite = 23;

// Advises `count` pages that lie `each` bytes apart, in one system call. Returns for how many, from
// the first on, it succeeded: 0 on older kernels.
int64_t advise(std::byte* first, size_t each, size_t page, int64_t count, int advice) {
  std::vector<iovec> pages(static_cast<size_t>(count));
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = {first + i * each, page};
  const auto self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (self < 0) return 0;
  const long bytes = syscall(SYS_process_madvise, self, pages.data(), pages.size(), advice, 0);
  close(self);
  return bytes < 0 ? 0 : bytes / static_cast<int64_t>(page);
}

size_t rounded_up(int64_t bytes, size_t page) {
  return (static_cast<size_t>(bytes) + page - 1) / page * page;
}

}  // namespace

FiberStacks::FiberStacks(int64_t stack_bytes, int64_t guarded)
    : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), guards_left_(guarded) {
  constexpr int64_t kLeast = 16 << 10;
  stack_bytes_ = rounded_up(std::max(stack_bytes, kLeast), page_bytes_);
}

FiberStacks::~FiberStacks() {
  for (const Slab& slab : slabs_) munmap(slab.begin, slab.bytes);
}

void FiberStacks::map_slab() {
  const size_t each = stack_bytes_ + page_bytes_;
  const int64_t stacks = std::clamp(stacks_, kMinSlabStacks, kMaxSlabStacks);
  const size_t bytes = each * static_cast<size_t>(stacks);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorKind::limit, fmt::format("no memory for more stacks after {}: {}", stacks_,
                                              std::strerror(errno)));
  stacks_ += stacks;
  slabs_.push_back({static_cast<std::byte*>(memory), bytes});
  std::byte* const slab = slabs_.back().begin;
  const int64_t guarded = advise(slab, each, page_bytes_, stacks, kGuardInstall);
  // Every fiber touches its top page, and most touch no other.
  advise(slab + stack_bytes_, each, page_bytes_, stacks, kPopulateWrite);
  for (int64_t i = stacks; i-- > 0;) {
    std::byte* begin = slab + static_cast<size_t>(i) * each;
    free_.push_back(begin + page_bytes_);
    if (i < guarded || madvise(begin, page_bytes_, kGuardInstall) == 0) continue;
    // A stack without a guard is better than refusing this number of ranks.
    if (guards_left_ > 0 && mprotect(begin, page_bytes_, PROT_NONE) == 0) --guards_left_;
  }
}

std::byte* FiberStacks::allocate_stack() {
  if (free_.empty()) map_slab();
  std::byte* stack = free_.back();
  free_.pop_back();
  return stack;
}

}  // namespace shardproof
