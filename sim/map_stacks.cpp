#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "shardproof/localtensor/error.h"
#include "shardproof/sim/stack_slabs.h"

namespace shardproof {
namespace {

// Few ranks are usual: slabs grow with what was asked for so far.
constexpr int64_t kFewestStacks = 16, kMostStacks = 1024;
static_assert(kMostStacks <= IOV_MAX);

// Makes a page trap on access without a mapping of its own (Linux 6.13; older headers lack the
// name).
constexpr int kGuardInstall = 102;

// Guards of pages that lie `each` apart, by one call of the system, which takes so many ranges at
// once since Linux 6.13 too. How many it made: the first ones.
int64_t install_guards(std::byte* first, size_t each, size_t page, int64_t count) {
  std::vector<iovec> guards(static_cast<size_t>(count));
  for (size_t i = 0; i < guards.size(); ++i) guards[i] = {first + i * each, page};
  const auto self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  if (self < 0) return 0;
  const long bytes =
      syscall(SYS_process_madvise, self, guards.data(), guards.size(), kGuardInstall, 0);
  close(self);
  return bytes < 0 ? 0 : bytes / static_cast<int64_t>(page);
}

size_t rounded_up(int64_t bytes, size_t page) {
  return (static_cast<size_t>(bytes) + page - 1) / page * page;
}

}  // namespace

StackSlabs::StackSlabs(int64_t stack_bytes, int64_t guarded)
    : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), guards_left_(guarded) {
  constexpr int64_t kLeast = 16 << 10;
  stack_bytes_ = rounded_up(std::max(stack_bytes, kLeast), page_bytes_);
}

StackSlabs::~StackSlabs() {
  for (const Slab& slab : slabs_) munmap(slab.begin, slab.bytes);
}

void StackSlabs::map_slab() {
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
  const int64_t guarded = install_guards(slabs_.back().begin, each, page_bytes_, stacks);
  for (int64_t i = stacks; i-- > 0;) {
    std::byte* begin = slabs_.back().begin + static_cast<size_t>(i) * each;
    free_.push_back(begin + page_bytes_);
    if (i < guarded || madvise(begin, page_bytes_, kGuardInstall) == 0) continue;
    // Without a guard an overflow runs into the neighbour: better than to refuse so many ranks.
    if (guards_left_ > 0 && mprotect(begin, page_bytes_, PROT_NONE) == 0) --guards_left_;
  }
}

std::byte* StackSlabs::take() {
  if (free_.empty()) map_slab();
  std::byte* stack = free_.back();
  free_.pop_back();
  return stack;
}

}  // namespace shardproof
