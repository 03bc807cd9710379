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

// Few ranks are usual: slabs grow with what was asked for so far.
constexpr int64_t kFewestStacks = 16, kMostStacks = 1024;
static_assert(kMostStacks <= IOV_MAX);

// What the system is asked to do with pages; older headers lack the names. Guard: trap on access,
// without a mapping of its own (Linux 6.13). Populate: be there before the first access.
constexpr int kGuardInstall = 102, kPopulateWrite = 23;

// Asks it of `count` pages that lie `each` apart, by one call: the system takes many ranges at once
// where it knows guards. How many it did it to: the first ones.
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
  const int64_t stacks = std::clamp(stacks_, kFewestStacks, kMostStacks);
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
  // The top page is touched by every fiber, and enough for most of them.
  advise(slab + stack_bytes_, each, page_bytes_, stacks, kPopulateWrite);
  for (int64_t i = stacks; i-- > 0;) {
    std::byte* begin = slab + static_cast<size_t>(i) * each;
    free_.push_back(begin + page_bytes_);
    if (i < guarded || madvise(begin, page_bytes_, kGuardInstall) == 0) continue;
    // Without a guard an overflow runs into the neighbour: better than to refuse so many ranks.
    if (guards_left_ > 0 && mprotect(begin, page_bytes_, PROT_NONE) == 0) --guards_left_;
  }
}

std::byte* FiberStacks::take() {
  if (free_.empty()) map_slab();
  std::byte* stack = free_.back();
  free_.pop_back();
  return stack;
}

}  // namespace shardproof
