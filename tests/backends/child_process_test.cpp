// Tests of child processes: their output never blocks them, and the right ones are killed.
#include "shardproof/backends/remote/process/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "shardproof/backends/remote/process/process_spawner.h"

namespace shardproof::child_process_test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool comes_true(const std::function<bool()>& condition) {
  const Clock::time_point limit = Clock::now() + std::chrono::seconds(60);
  while (!condition() && Clock::now() < limit) std::this_thread::sleep_for(milliseconds(2));
  return condition();
}

// Starts a process that prints a line and stays.
Child resident(const std::string& word) {
  const Child child = start_child({"sh", "-c", "echo here; sleep 60; :", word});
  std::string output;
  EXPECT_TRUE(comes_true([&] { return read_output(child.output, output), !output.empty(); }));
  return child;
}

bool is_gone(const Child& child) {
  int status = 0;
  return has_ended(child.pid, &status);
}

// A word of one job may be the prefix of another's: 1 and 12.
TEST(Children, KillAll_MatchesWholeArgument_NotPrefix) {
  const std::string word = "shardproof-children-test-" + std::to_string(getpid());
  const Child one = resident(word + "1"), other = resident(word + "12");
  ProcessReaper endings;
  for (const std::string& part : {word, word + "1"}) endings.kill_all(part, 0);
  EXPECT_TRUE(comes_true([&] { return endings.reap(); }));
  EXPECT_TRUE(is_gone(one));
  EXPECT_FALSE(is_gone(other));
  endings.kill_all(word + "12", 0);
  EXPECT_TRUE(comes_true([&] { return endings.reap(); }));
  ::close(one.output);
  ::close(other.output);
}

// If the parent ignores SIGCHLD, children cannot be waited for.
TEST(Children, HasEnded_ProcessIsNoChild_IsTrue) {
  int status = 1;
  EXPECT_TRUE(has_ended(getpid(), &status));
}

// Prints more than the 64 KiB that a pipe holds.
TEST(Children, Output_LargerThanPipe_IsReadWhileChildRuns) {
  const std::filesystem::path done =
      std::filesystem::path(testing::TempDir()) / ("printed-" + std::to_string(getpid()));
  SpawnOptions options;
  options.pool.command = {"sh", "-c",
                          "head -c 300000 /dev/zero | tr '\\0' x; touch '" + done.string() + "'"};
  const std::unique_ptr<Starter> starter = spawner(options);
  starter->start("children-test", 1);
  EXPECT_TRUE(comes_true([&] { return starter->drain(), std::filesystem::exists(done); }));
  EXPECT_TRUE(comes_true([&] { return starter->ended() == "all processes have ended"; }));
  const std::string output = starter->output();
  EXPECT_GT(output.size(), 10000u);
  EXPECT_LT(output.size(), 100000u);
  starter->stop();
  std::filesystem::remove(done);
}

}  // namespace
}  // namespace shardproof::child_process_test
