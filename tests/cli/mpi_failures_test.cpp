// Tests `shardproof run --backend mpi` when processes are killed or stopped: verdicts, and that no
// process or file is left. Each test runs the binary.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "shardproof/tests/cli/run_tool.h"
#include "shardproof/tests/cli/running_workers.h"

namespace shardproof::mpi_failures_test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class MpiFailures : public testing::Test {
 protected:
  ScenarioFolder folder_;
  Running run(const std::string& file) const {
    return Running(SHARDPROOF_PROGRAM, "mpi", file, (folder_.path() / "out.txt").string());
  }
  // Returns the files of a run in addition to its output.
  bool files_are_there() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path()))
      if (entry.path().filename().string().starts_with("shardproof-")) return true;
    return false;
  }
  // Runs below an mpirun whose last process runs a command before it joins.
  std::string late(const std::string& what) const {
    const std::string script =
        folder_.write("late.sh", "[ $OMPI_COMM_WORLD_RANK = 2 ] && " + what + "\nexec \"$@\"\n");
    return below("for word; do shift; [ \"$word\" = '" SHARDPROOF_PROGRAM
                 "' ] && "
                 "set -- \"$@\" sh '" +
                 script +
                 "'; set -- \"$@\" \"$word\"; done\n"
                 "PATH=${PATH#*:}; exec mpirun \"$@\"");
  }
  // Returns the shell prefix that puts another mpirun first on the PATH.
  std::string below(const std::string& mpirun) const {
    fs::create_directories(folder_.path() / "bin");
    const std::string program = folder_.write("bin/mpirun", "#!/bin/sh\n" + mpirun + "\n");
    fs::permissions(program, fs::perms::owner_all);
    return "PATH='" + (folder_.path() / "bin").string() + "':$PATH ";
  }
  Ran run_below(const std::string& mpirun, const std::string& more = "") const {
    return shell(
        mpirun + "timeout 100 '" SHARDPROOF_PROGRAM "' run " +
        folder_.write("small.json",
                      R"json({"version": 1, "mesh": "tp=3", "tensors": {"x": {"shape": [4]}},
                 "ranks": {"all": ["y = all_reduce(x, sum)"]}})json") +
        " --backend mpi --processes 3 " + more);
  }
};

void expect_refused(const Ran& ran, const std::string& words) {
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find(words), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("missing rank"), std::string::npos) << ran.out;
}

TEST_F(MpiFailures, KilledProcess_IsAMissingRank_AndNoProcessIsLeft) {
  fail_one_worker_in_each({SHARDPROOF_PROGRAM, "mpi", SIGKILL, "was killed by signal 9 (SIGKILL)"},
                          3);
}

TEST_F(MpiFailures, StoppedProcess_IsAMissingRank_AndNoProcessIsLeft) {
  fail_one_worker_in_each(
      {SHARDPROOF_PROGRAM, "mpi", SIGSTOP, "is stopped by signal 19 (SIGSTOP)", "6s"}, 3);
}

// No coordinator orders the calls of a repetition; heartbeats state where each process is.
TEST_F(MpiFailures, ProcessLostInRepetitions_IsAMissingRank_WithItsCall) {
  WorkerFailure failure{SHARDPROOF_PROGRAM, "mpi", SIGKILL, "was killed by signal 9 (SIGKILL)"};
  failure.in_repetitions = true;
  fail_one_worker_in_each(failure, 2);
  failure.signal = SIGTERM;
  failure.word = "was killed by signal 15 (SIGTERM)";
  fail_one_worker_in_each(failure, 2);
  failure.signal = SIGSTOP;
  failure.word = "is stopped by signal 19 (SIGSTOP)";
  failure.timeout = "6s";
  fail_one_worker_in_each(failure, 2);
}

// mpirun starts the monitor of a worker; the worker ends with it, and nobody reports its progress.
TEST_F(MpiFailures, KilledMonitor_IsAMissingRank_WithTheCallOfTheLastHeartbeat) {
  Running run(SHARDPROOF_PROGRAM, "mpi", folder_.repeated(), (folder_.path() / "out.txt").string(),
              "30s", {"--iters", "1000000"});
  std::vector<pid_t> monitors = run.wait_for_processes();
  ASSERT_EQ(monitors.size(), 6u) << run.text();
  const std::vector<pid_t> workers = run.workers();
  wait_for_work(workers, 1.0);
  std::erase_if(monitors, [&](pid_t process) {
    return std::find(workers.begin(), workers.end(), process) != workers.end();
  });
  ASSERT_EQ(monitors.size(), 3u) << run.text();
  kill(monitors[1], SIGKILL);
  EXPECT_EQ(run.code(), 1) << run.text();
  for (const char* words : {"missing rank", "at its last heartbeat ", "(line 3", " of its calls"})
    EXPECT_NE(run.text().find(words), std::string::npos) << run.text();
  EXPECT_TRUE(run.all_have_exited());
}

// All processes wait in a call that began long before. The report names the stopped process, not
// those that wait for it.
TEST_F(MpiFailures, ProcessStoppedLateInAnExchange_IsReported) {
  Running run(SHARDPROOF_PROGRAM, "mpi", folder_.endless(), (folder_.path() / "out.txt").string(),
              "6s");
  ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
  const std::vector<pid_t> workers = run.workers();
  ASSERT_EQ(workers.size(), 3u);
  wait_for_work(workers, 0.3);
  kill(workers[0], SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  kill(workers[1], SIGSTOP);
  kill(workers[2], SIGSTOP);
  kill(workers[0], SIGCONT);
  EXPECT_EQ(run.code(), 1) << run.text();
  for (const char* words : {"missing rank", "is stopped by signal 19 (SIGSTOP)"})
    EXPECT_NE(run.text().find(words), std::string::npos) << run.text();
  EXPECT_EQ(run.text().find("pid " + std::to_string(workers[0])), std::string::npos) << run.text();
}

TEST_F(MpiFailures, KilledCommand_LeavesNoProcess) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    Running run = this->run(folder_.endless());
    ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
    EXPECT_TRUE(files_are_there());
    const std::set<std::string> shared = run.wait_for_shared_memory();
    EXPECT_FALSE(shared.empty()) << run.text();
    kill(run.pid(), signal);
    EXPECT_EQ(run.code(), -1);
    EXPECT_TRUE(run.all_have_exited()) << "signal " << signal;
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

// The helper removes the files of the run if the command is killed.
TEST_F(MpiFailures, StoppedHelper_DoesNotDelayTheEnd) {
  Running run = this->run(folder_.endless());
  ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
  const std::vector<pid_t> helpers = run.helpers();
  ASSERT_EQ(helpers.size(), 1u);
  ASSERT_EQ(kill(helpers.front(), SIGSTOP), 0);
  wait_for_work(run.workers(), 0.3);
  ASSERT_EQ(kill(run.processes().front(), SIGKILL), 0);
  EXPECT_EQ(run.code(), 1) << run.text();
  EXPECT_TRUE(run.all_have_exited());
  EXPECT_FALSE(files_are_there());
}

// A worker reports the end of an exchange only at its next wait, and computes until then.
TEST_F(MpiFailures, ComputationLongerThanTheTimeout_IsNotMissing) {
  const std::string slow = folder_.write("slow.json", R"json({
    "version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [1000, 1000], "fill": "zeros"}},
    "ranks": {"all": ["y = all_reduce(x, sum)", "for i in range(120):", "  y = y @ y"]}})json");
  const auto began = std::chrono::steady_clock::now();
  const Ran ran = tool("run " + slow + " --backend mpi --processes 2 --timeout 1500ms");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_GT(std::chrono::steady_clock::now() - began, milliseconds(3000)) << "compute for longer";
}

// Some shells and daemons ignore SIGCHLD, which their child processes inherit.
TEST_F(MpiFailures, IgnoredSigchld_IsReset) {
  const std::string file = folder_.write("small.json", R"json({
    "version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [4]}},
    "ranks": {"all": ["y = all_reduce(x, sum)"]}})json");
  const Ran ran = shell("timeout 60 env --ignore-signal=CHLD '" SHARDPROOF_PROGRAM "' run " + file +
                        " --backend mpi --processes 2");
  EXPECT_EQ(ran.code, 0) << ran.out;
}

// Until all processes have joined, no line of the program has run.
TEST_F(MpiFailures, ProcessThatNeverJoins_GivesNoVerdict) {
  const std::string lost = "process 2 could not be started: it ";
  expect_refused(run_below(late("kill -9 $$")), lost + "has ended before it connected");
  expect_refused(run_below(late("kill -STOP $$"), "--timeout 1s"),
                 lost + "is stopped (silent for 1 s)");
  expect_refused(run_below(below("[ $1 = --version ] || { echo no pipes are left; exit 1; }")),
                 "the processes could not be started: mpirun printed: no pipes are left");
}

TEST_F(MpiFailures, ProcessKilledBeforeAllJoined_GivesNoVerdict) {
  const std::string file = folder_.endless();
  Ran ran;
  std::thread run([&] {
    ran = shell(late("exec sleep 60") + "'" SHARDPROOF_PROGRAM "' run " + file +
                " --backend mpi --processes 3");
  });
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::vector<pid_t> workers;
  for (; workers.size() < 2 && std::chrono::steady_clock::now() < limit;
       workers = mpi_processes_of(file))
    std::this_thread::sleep_for(milliseconds(20));
  const auto began = std::chrono::steady_clock::now();
  if (workers.size() == 2) {
    EXPECT_EQ(kill(workers.front(), SIGKILL), 0);
  }
  run.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  expect_refused(ran, " could not be started: it was killed by signal 9 (SIGKILL)");
}

TEST_F(MpiFailures, MpirunWithoutVersion_DoesNotDelayTheRun) {
  expect_refused(run_below(below("exec sleep 60")),
                 "backend mpi: mpirun --version did not end within 20 s");
}

// A process that ends by a bus error, although shared memory has room, is a lost process.
TEST_F(MpiFailures, BusError_LosesTheProcess) {
  Running run = this->run(folder_.endless());
  ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
  const std::vector<pid_t> workers = run.workers();
  ASSERT_EQ(workers.size(), 3u);
  wait_for_work(workers, 0.3);
  ASSERT_EQ(kill(workers.front(), SIGBUS), 0);
  EXPECT_EQ(run.code(), 1) << run.text();
  EXPECT_NE(run.text().find("was killed by signal 7 (SIGBUS)"), std::string::npos) << run.text();
  EXPECT_TRUE(run.all_have_exited());
}

TEST_F(MpiFailures, TooLittleSharedMemory_IsRefused) {
  const std::string room =
      "unshare -m sh -c 'mount -t tmpfs -o size=8m none /dev/shm && mkdir -p " +
      (folder_.path() / "small").string() + " && mount -t tmpfs -o size=20m none " +
      (folder_.path() / "small").string() + " && TMPDIR=" + (folder_.path() / "small").string() +
      " \"$@\"' sh ";
  if (shell(room + "true").code != 0) GTEST_SKIP() << "file systems cannot be mounted here";
  expect_refused(run_below(room),
                 "the processes share 15 MiB of memory, there is less space in "
                 "/dev/shm and in ");
}

TEST_F(MpiFailures, EmptyTmpdir_CountsAsUnset) { EXPECT_EQ(run_below("TMPDIR= ").code, 0); }

TEST_F(MpiFailures, CasesAfterALoss_AreRun) {
  fs::create_directories(folder_.path() / "both");
  fs::rename(folder_.endless(), folder_.path() / "both" / "a_endless.json");
  folder_.write("both/b_good.json", R"json({"version": 1, "mesh": "tp=2",
    "tensors": {"x": {"shape": [4]}}, "ranks": {"all": ["y = all_reduce(x, sum)"]}})json");
  Running run = this->run((folder_.path() / "both").string());
  ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
  const std::vector<pid_t> workers = run.workers();
  ASSERT_EQ(workers.size(), 3u);
  wait_for_work(workers, 0.3);
  ASSERT_EQ(kill(workers.back(), SIGKILL), 0);
  EXPECT_EQ(run.code(), 1);
  EXPECT_NE(run.text().find("2 cases"), std::string::npos) << run.text();
  EXPECT_NE(run.text().find("1 unexpected result"), std::string::npos) << run.text();
}

}  // namespace
}  // namespace shardproof::mpi_failures_test
