// Tests data of each thread: its end with the thread, and first uses in a thread that has no
// memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/localtensor/base/per_thread.h"

namespace shardproof::per_thread_test {
namespace {

TEST(PerThread, Value_IsOfItsThread_AndEndsWithIt) {
  static const PerThread<std::shared_ptr<int>> values;
  const auto shared = std::make_shared<int>(1);
  values.get() = nullptr;
  std::thread([&] {
    EXPECT_EQ(values.get(), nullptr);
    values.get() = shared;
    EXPECT_EQ(shared.use_count(), 2);
  }).join();
  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_EQ(values.get(), nullptr);
}

// Calls a function in a new thread after the process has used all memory that it may have. Ends the
// process with code 0 if the function throws.
[[noreturn]] void exit_after_use_without_memory(const std::function<void()>& use) {
  std::atomic<bool> is_full = false;
  std::thread user([&] {
    while (!is_full) std::this_thread::yield();
    try {
      use();
    } catch (const std::exception&) {
      std::_Exit(0);
    }
    std::_Exit(1);
  });
  const rlimit none{0, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &none);
  for (size_t bytes = size_t{1} << 26; bytes >= 8; bytes /= 2)
    while (auto* const block = static_cast<volatile char*>(std::malloc(bytes))) block[0] = 1;
  is_full = true;
  user.join();
  std::_Exit(2);
}

TEST(PerThread, FirstUse_WithoutMemory_Throws) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer aborts when there is no memory";
#endif
  static const PerThread<std::string> texts;
  EXPECT_EXIT(exit_after_use_without_memory([] { texts.get() = "text"; }),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_after_use_without_memory([] { set_repeat_command("text"); }),
              testing::ExitedWithCode(0), "");
  const auto fill_pool = [] {
    for (;;) pool_allocate(64);
  };
  EXPECT_EXIT(exit_after_use_without_memory(fill_pool), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace shardproof::per_thread_test
