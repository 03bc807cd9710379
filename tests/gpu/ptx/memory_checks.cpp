// Implements memory_checks.h with shadow pages: for each byte, the launch and the thread that
// touched it last.
#include "shardproof/tests/gpu/ptx/memory_checks.h"

#include <cstring>

#include "shardproof/localtensor/base/error.h"

namespace shardproof::ptx {

Watch::Shadow& Watch::shadow() {
  thread_local Shadow shadow;
  return shadow;
}

Watch::Watch(std::string kernel, FindAllocation find)
    : kernel_(std::move(kernel)), find_(std::move(find)), launch_(++shadow().launches) {}

Watch::Page& Watch::page_of(uint64_t at) {
  const uint64_t number = at / kPage;
  UsedPage& used = used_[number % used_.size()];
  if (used.page != nullptr && used.number == number) return *used.page;
  std::unique_ptr<Page>& page = shadow().pages[number];
  if (!page) page = std::make_unique<Page>();
  used = {number, page.get()};
  return *page;
}

void Watch::complain(const std::byte* at, const std::string& what) const {
  const Allocation held = find_(at);
  const std::string place = held.first == nullptr
                                ? "outside every allocation"
                                : fmt::format("at byte {} of {} allocated",
                                              at - static_cast<const std::byte*>(held.first),
                                              static_cast<const std::byte*>(held.second) -
                                                  static_cast<const std::byte*>(held.first));
  SP_CHECK(false, "thread {} of {} {}, {}", thread_, kernel_, what, place);
  std::abort();
}

void Watch::require_room(const std::byte* at, int64_t bytes) {
  if (reinterpret_cast<uint64_t>(at) % static_cast<uint64_t>(bytes) != 0)
    complain(at, fmt::format("touches {} bytes that are not aligned", bytes));
  for (Allocation& known : known_) {
    if (at < known.first || at + bytes > known.second) continue;
    std::swap(known, known_.front());
    return;
  }
  const Allocation found = find_(at);
  if (found.first == nullptr || at + bytes > found.second)
    complain(at, fmt::format("touches {} bytes that are not all allocated", bytes));
  known_.push_back(found);
}

// An aligned access lies in one page.
void Watch::read(const std::byte* at, int64_t bytes) {
  if (is_own(at)) return;
  require_room(at, bytes);
  const auto address = reinterpret_cast<uint64_t>(at);
  Page& page = page_of(address);
  const uint64_t first = address % kPage, end = first + static_cast<uint64_t>(bytes);
  for (uint64_t i = first; i < end; ++i) {
    const Touch& written = page.writes[i];
    if (written.launch == launch_ && written.thread != thread_)
      complain(at, fmt::format("reads what thread {} writes", written.thread));
    Touch& reader = page.reads[i];
    const bool is_second = reader.launch == launch_ && reader.thread != thread_;
    reader = {launch_, is_second ? kSeveral : thread_};
  }
}

void Watch::before_write(const std::byte* at, int64_t bytes) {
  if (is_own(at)) return;
  require_room(at, bytes);
  std::memcpy(kept_.data(), at, static_cast<size_t>(bytes));
}

void Watch::after_write(const std::byte* at, int64_t bytes) {
  if (is_own(at)) return;
  const bool is_same = std::memcmp(kept_.data(), at, static_cast<size_t>(bytes)) == 0;
  const auto address = reinterpret_cast<uint64_t>(at);
  Page& page = page_of(address);
  const uint64_t first = address % kPage, end = first + static_cast<uint64_t>(bytes);
  for (uint64_t i = first; i < end; ++i) {
    Touch& writer = page.writes[i];
    if (writer.launch == launch_ && writer.thread != thread_ && !is_same)
      complain(at, fmt::format("writes another value than thread {}", writer.thread));
    const Touch& reader = page.reads[i];
    if (reader.launch == launch_ && reader.thread != thread_)
      complain(at, "writes what another thread reads");
    writer = {launch_, thread_};
  }
}

}  // namespace shardproof::ptx
