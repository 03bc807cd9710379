// Watches the memory that the threads of a launch touch. It must be allocated, to the byte, and
// each access must be aligned to its size. No thread may read or write what another one writes in
// the same launch, except equal values. An error ends the program with the kernel's name.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardproof::ptx {

// Returns start and end of the allocation that holds an address; nulls: none does.
using Allocation = std::pair<const void*, const void*>;
using FindAllocation = std::function<Allocation(const std::byte*)>;

class Watch {
 public:
  Watch(std::string kernel, FindAllocation find);
  // Excludes memory that each thread has to itself.
  void give_threads(const Allocation& own) { own_ = own; }
  void begin(int64_t thread) { thread_ = static_cast<uint32_t>(thread); }
  void read(const std::byte* at, int64_t bytes);
  // Call both, before and after a write: another thread may have written the same value.
  void before_write(const std::byte* at, int64_t bytes);
  void after_write(const std::byte* at, int64_t bytes);

 private:
  // The launch, and the thread in it, that touched a byte last.
  struct Touch {
    uint32_t launch, thread;
  };
  static constexpr size_t kPage = 4096;
  static constexpr uint32_t kSeveral = 0xffffffff;
  struct Page {
    std::array<Touch, kPage> writes, reads;
  };
  struct Shadow {
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
    uint32_t launches = 0;
  };

  static Shadow& shadow();  // one for each thread of the host
  Page& page_of(uint64_t at);
  bool is_own(const std::byte* at) const { return at >= own_.first && at < own_.second; }
  void require_room(const std::byte* at, int64_t bytes);
  [[noreturn]] void complain(const std::byte* at, const std::string& what) const;

  std::string kernel_;
  FindAllocation find_;
  std::vector<Allocation> known_;  // found so far, the last one used first
  Allocation own_{};
  // The pages used last, by the last bits of their numbers.
  struct UsedPage {
    uint64_t number = 0;
    Page* page = nullptr;
  };
  std::array<UsedPage, 16> used_{};
  uint32_t launch_, thread_ = 0;
  std::array<std::byte, 64> kept_{};
};

}  // namespace shardproof::ptx
