// `shardproof run --backend mpi` when processes are killed or stopped, and what is left of them.
// Each test runs the binary.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "shardproof/tests/cli/run_tool.h"
#include "shardproof/tests/cli/running_crew.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class MpiTrouble : public testing::Test {
 protected:
  ScenarioFolder folder_;
  Running run(const std::string& file) const {
    return Running(SHARDPROOF_PROGRAM, "mpi", file, (folder_.path() / "out.txt").string());
  }
  // Files of a run, which puts them where its output goes.
  bool files_are_there() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path()))
      if (entry.path().filename().string().starts_with("shardproof-")) return true;
    return false;
  }
};

TEST_F(MpiTrouble, AKilledProcessIsAMissingRankAndNobodyIsLeft) {
  hurt_one_of_each({SHARDPROOF_PROGRAM, "mpi", SIGKILL, "was killed by signal 9 (SIGKILL)"}, 3);
}

TEST_F(MpiTrouble, AStoppedProcessIsAMissingRankAndNobodyIsLeft) {
  hurt_one_of_each({SHARDPROOF_PROGRAM, "mpi", SIGSTOP, "is stopped by signal 19 (SIGSTOP)", "6s"},
                   3);
}

TEST_F(MpiTrouble, NobodyOutlivesTheCommand) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    Running run = this->run(folder_.endless());
    ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
    EXPECT_TRUE(files_are_there());
    const std::set<std::string> shared = run.wait_for_shared_memory();
    EXPECT_FALSE(shared.empty()) << run.text();
    kill(run.pid(), signal);
    EXPECT_EQ(run.code(), -1);
    EXPECT_TRUE(run.all_gone()) << "signal " << signal;
    const auto are_there = [&] {
      return files_are_there() || std::any_of(shared.begin(), shared.end(),
                                              [](const auto& path) { return fs::exists(path); });
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (are_there() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(milliseconds(5));
    EXPECT_FALSE(are_there()) << "signal " << signal;
  }
}

// It watches over the files of the run, for the case that the command is killed.
TEST_F(MpiTrouble, NobodyWaitsForAHelperThatIsStopped) {
  Running run = this->run(folder_.endless());
  ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
  const std::vector<pid_t> helpers = run.helpers();
  ASSERT_EQ(helpers.size(), 1u);
  ASSERT_EQ(kill(helpers.front(), SIGSTOP), 0);
  ASSERT_EQ(kill(run.processes().front(), SIGKILL), 0);
  EXPECT_EQ(run.code(), 1) << run.text();
  EXPECT_TRUE(run.all_gone());
  EXPECT_FALSE(files_are_there());
}

// Who is through with an exchange says so when it waits the next time, and computes until then.
TEST_F(MpiTrouble, WhoComputesForLongerThanTheTimeoutIsNotMissing) {
  const std::string slow = folder_.write("slow.json", R"json({
    "version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [1000, 1000], "fill": "zeros"}},
    "ranks": {"all": ["y = all_reduce(x, sum)", "for i in range(48):", "  y = y @ y"]}})json");
  const auto began = std::chrono::steady_clock::now();
  const Ran ran = tool("run " + slow + " --backend mpi --processes 2 --timeout 600ms");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_GT(std::chrono::steady_clock::now() - began, milliseconds(1200)) << "compute for longer";
}

// As some shells and daemons leave it to what they start.
TEST_F(MpiTrouble, WhoIsStartedWithoutWordOfItsChildrenHearsOfThem) {
  const std::string file = folder_.write("small.json", R"json({
    "version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [4]}},
    "ranks": {"all": ["y = all_reduce(x, sum)"]}})json");
  const Ran ran = shell("timeout 60 env --ignore-signal=CHLD '" SHARDPROOF_PROGRAM "' run " + file +
                        " --backend mpi --processes 2");
  EXPECT_EQ(ran.code, 0) << ran.out;
}

TEST_F(MpiTrouble, TheCasesAfterALossAreRun) {
  fs::create_directories(folder_.path() / "both");
  fs::rename(folder_.endless(), folder_.path() / "both" / "a_endless.json");
  folder_.write("both/b_good.json", R"json({"version": 1, "mesh": "tp=2",
    "tensors": {"x": {"shape": [4]}}, "ranks": {"all": ["y = all_reduce(x, sum)"]}})json");
  Running run = this->run((folder_.path() / "both").string());
  ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
  std::this_thread::sleep_for(milliseconds(1000));
  const std::vector<pid_t> workers = run.workers();
  ASSERT_EQ(workers.size(), 3u);
  ASSERT_EQ(kill(workers.back(), SIGKILL), 0);
  EXPECT_EQ(run.code(), 1);
  EXPECT_NE(run.text().find("2 cases"), std::string::npos) << run.text();
  EXPECT_NE(run.text().find("1 surprise"), std::string::npos) << run.text();
}

}  // namespace
}  // namespace shardproof
