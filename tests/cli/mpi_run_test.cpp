// `shardproof run --backend mpi` from outside: real processes, killed and stopped ones, and what is
// left of them. Each test runs the binary.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "shardproof/tests/cli/run_tool.h"
#include "shardproof/tests/cli/running_crew.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class MpiRun : public testing::Test {
 protected:
  ScenarioFolder folder_;
};

// --- the same as in simulation
// --------------------------------------------------------------------

std::string report_of(const std::string& words) {
  const std::string path = testing::TempDir() + "/shardproof_mpi_report.json";
  const Ran ran = tool("run scenarios/corpus --json " + path + " " + words);
  EXPECT_EQ(ran.code, 0) << ran.out;
  return report_without_backend(path);
}

TEST_F(MpiRun, TheCorpusSaysTheSameInRealProcesses) {
  const std::string simulated = report_of("");
  for (const char* processes : {"1", "2", "3", "8"})
    EXPECT_EQ(report_of(std::string("--backend mpi --processes ") + processes), simulated)
        << processes << " processes";
}

TEST_F(MpiRun, TheCorpusIsAsExpectedUnderEverySchedule) {
  for (const char* schedule : {"seeded", "adversarial"}) {
    const Ran ran = tool("run scenarios/corpus --backend mpi --processes 3 --schedule " +
                         std::string(schedule));
    EXPECT_EQ(ran.code, 0) << ran.out;
  }
}

TEST_F(MpiRun, TwoBackendsAreLaidSideBySide) {
  const Ran good = tool("run scenarios/corpus --backend local,mpi --processes 3");
  EXPECT_EQ(good.code, 0) << good.out;
  const std::string json = (folder_.path() / "both.json").string();
  const Ran bad = tool("run scenarios/demo/planted_failure.json --backend local,mpi --processes 3" +
                       (" --json " + json));
  EXPECT_EQ(bad.code, 1) << bad.out;
  for (const char* words : {"planted_failure.json on local   wrong values",
                            "planted_failure.json on mpi   wrong values", "2 cases"})
    EXPECT_NE(bad.out.find(words), std::string::npos) << bad.out;
  for (const char* words : {"\"backend\": \"local,mpi\"", "\"backend\": \"mpi\""})
    EXPECT_NE(read_whole(json).find(words), std::string::npos) << read_whole(json);
}

TEST_F(MpiRun, ProcessesHaveTheScenarioThatCameOnStandardInput) {
  const std::string machine =
      folder_.write("machine.json", R"({"latency": "5 us", "bandwidth": "2 GB/s"})");
  const std::string scenario =
      R"json({"version": 1, "mesh": "tp=3", "topology": "machine.json", "tensors": {"x": {"shape": [6]}},
        "ranks": {"all": ["y = all_reduce(x, sum)"]}, "expect": {"collectives": {"all_reduce world": 1}}})json";
  folder_.write("a.json", scenario);
  const std::string here = "cd '" + folder_.path().string() + "' && '" SHARDPROOF_PROGRAM "' run ";
  const Ran file = shell(here + "a.json --backend mpi"),
            piped = shell(here + "- --backend mpi < a.json"),
            simulated = shell(here + "- < a.json");
  for (const Ran& ran : {file, piped, simulated}) {
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_NE(ran.out.find("1 scenario, 1 case"), std::string::npos) << ran.out;
  }
  const Ran empty = shell(here + "- --backend mpi < /dev/null");
  EXPECT_EQ(empty.code, 2) << empty.out;
  EXPECT_EQ(empty.out.find("-"), 0u) << empty.out;
}

TEST_F(MpiRun, UnderSomebodyElsesMpirunOneReportIsWritten) {
  const Ran ran = shell("mpirun --allow-run-as-root --oversubscribe -n 3 '" SHARDPROOF_PROGRAM
                        "' run scenarios/corpus/collectives --backend mpi");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(ran.out.find("0 surprises"), ran.out.rfind("0 surprises")) << ran.out;
  EXPECT_NE(ran.out.find("0 surprises"), std::string::npos) << ran.out;
}

// What srun tells the processes that it starts.
TEST_F(MpiRun, UnderSrunOneReportIsWritten) {
  const std::string run = "'" SHARDPROOF_PROGRAM "' run scenarios/corpus/collectives --backend mpi";
  const Ran ran = shell("for i in 0 1 2; do SLURM_JOB_ID=7 SLURM_PROCID=$i SLURM_NTASKS=3 " + run +
                        " & done; wait");
  EXPECT_EQ(ran.out.find("0 surprises"), ran.out.rfind("0 surprises")) << ran.out;
  EXPECT_NE(ran.out.find("0 surprises"), std::string::npos) << ran.out;
}

// --- trouble
// --------------------------------------------------------------------------------------

class MpiTrouble : public MpiRun {
 protected:
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
  for (uint64_t seed = 0; seed < 4; ++seed)
    hurt_one(SHARDPROOF_PROGRAM, "mpi", SIGKILL, seed, "was killed by signal 9 (SIGKILL)");
}

TEST_F(MpiTrouble, AStoppedProcessIsAMissingRankAndNobodyIsLeft) {
  for (uint64_t seed = 0; seed < 4; ++seed)
    hurt_one(SHARDPROOF_PROGRAM, "mpi", SIGSTOP, seed, "is stopped by signal 19 (SIGSTOP)");
}

TEST_F(MpiTrouble, NobodyOutlivesTheCommand) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    Running run = this->run(folder_.endless());
    ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
    EXPECT_TRUE(files_are_there());
    kill(run.pid(), signal);
    EXPECT_EQ(run.code(), -1);
    EXPECT_TRUE(run.all_gone()) << "signal " << signal;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (files_are_there() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(milliseconds(5));
    EXPECT_FALSE(files_are_there()) << "signal " << signal;
  }
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

// --- the machine
// ----------------------------------------------------------------------------------

void expect_refused(const Ran& ran, const std::string& message) {
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find(message), std::string::npos) << ran.out;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
}

TEST_F(MpiRun, WhatCannotBeStartedIsRefusedInOneLine) {
  const std::string run = "run scenarios/corpus/bugs/sum_for_avg.json --backend mpi ";
  expect_refused(tool(run + "--processes 0"), "--processes must be between 1 and 4096");
  expect_refused(tool(run + "--processes many"), "--processes");
  expect_refused(tool(run + "--timeout soon"), "--timeout: expected a time such as 30s");
  expect_refused(tool("run scenarios/corpus/collectives --processes 2"),
                 "--processes is for backends of several processes; local has none");
  expect_refused(shell("PATH=/nowhere '" SHARDPROOF_PROGRAM "' " + run),
                 "backend mpi: mpirun was not found; install openmpi-bin");
  expect_refused(tool(run + "--hosts /nowhere/hosts"), "/nowhere/hosts");
}

TEST_F(MpiRun, TheListOfBackendsSaysWhetherItWorks) {
  const Ran here = tool("list backends");
  EXPECT_EQ(here.code, 0);
  EXPECT_NE(here.out.find("mpi      ranks in real processes over MPI\n"), std::string::npos)
      << here.out;
  const Ran without = shell("PATH=/nowhere '" SHARDPROOF_PROGRAM "' list backends");
  EXPECT_NE(without.out.find("not here: mpirun was not found"), std::string::npos) << without.out;
}

TEST_F(MpiRun, ContainersHaveLittleSharedMemory) {
  const Ran may = shell("unshare -m true");
  if (may.code != 0) GTEST_SKIP() << "no right to mount: " << may.out;
  const Ran ran =
      shell("unshare -m sh -c \"mount -t tmpfs -o size=8m tmpfs /dev/shm && '" SHARDPROOF_PROGRAM
            "' run scenarios/corpus --backend mpi --processes 8\"");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("0 surprises"), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace shardproof
