// Tests `shardproof run --backend mpi`: real processes give the results of simulated ranks. Each
// test runs the binary.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "shardproof/tests/cli/run_tool.h"
#include "shardproof/tests/cli/running_workers.h"

namespace shardproof::mpi_run_test {
namespace {

class MpiRun : public testing::Test {
 protected:
  ScenarioFolder folder_;
};

// --- the same as in simulation -------------------------------------------------------------------

std::string report_of(const std::string& files, const std::string& words) {
  const std::string path =
      testing::TempDir() + "/shardproof_mpi_report_" + std::to_string(getpid()) + ".json";
  const Ran ran = tool("run " + files + " --json " + path + " " + words);
  EXPECT_EQ(ran.code, 0) << ran.out;
  const std::string report = report_without_backend(path);
  std::filesystem::remove(path);
  return report;
}

// The search of causes runs simulated ranks and begins with the wrong values of the report, so some
// of the bugs make it. 3 processes, value by value: record_mpi_test.cpp.
TEST_F(MpiRun, Corpus_HasTheSameVerdicts_InRealProcesses) {
  const std::string all = folder_.copy_without_counts(kCorpus);
  EXPECT_EQ(report_of(all, "--no-causes --backend mpi --processes 8"),
            report_of(all, "--no-causes"));
  const std::string bugs = "scenarios/corpus/bugs/[s-z]*.json";
  EXPECT_EQ(report_of(bugs, "--backend mpi --processes 8"), report_of(bugs, ""));
  const ScenarioFolder others;
  const std::string few = others.copy_without_counts(kCorpusWithoutBugs);
  EXPECT_EQ(report_of(few, "--no-causes --backend mpi --processes 1"),
            report_of(few, "--no-causes"));
}

TEST_F(MpiRun, FaultsThatNeverHappen_AreReportedByTheirWorkers) {
  const std::string file = folder_.write("idle.json", R"json({"version": 1, "mesh": "dp=3",
      "tensors": {"g": {"shape": [4]}}, "ranks": {"all": ["a = all_reduce(g, sum, group=dp)"]},
      "faults": ["hang(rank=2, call=5)", "skip(rank=0, line=2)"]})json");
  for (const char* backend : {"local", "mpi --processes 2"}) {
    const Ran ran = tool("run " + file + " --backend " + backend);
    for (const char* line : {"never happened: hang(rank=2, call=5): rank 2 makes 1 call",
                             "never happened: skip(rank=0, line=2): rank 0 makes no call at line"})
      EXPECT_NE(ran.out.find(line), std::string::npos) << ran.out;
  }
}

TEST_F(MpiRun, CallsAndFaults_AreAsExpected_UnderEverySchedule) {
  const Ran adversarial = tool(
      "run scenarios/corpus/collectives scenarios/corpus/faults --backend mpi --processes 2 "
      "--schedule adversarial");
  EXPECT_EQ(adversarial.code, 0) << adversarial.out;
  const Ran seeded =
      tool("run scenarios/corpus/collectives --backend mpi --processes 4 --schedule seeded");
  EXPECT_EQ(seeded.code, 0) << seeded.out;
}

TEST_F(MpiRun, ChecksOfRankPrograms_AreComparedByTheCoordinator) {
  for (const char* processes : {"2", "4"}) {
    const Ran wrong =
        tool(std::string("run scenarios/corpus/bugs/one_pass_on_one_rank.json --backend mpi") +
             " --processes " + processes);
    EXPECT_EQ(wrong.code, 0) << wrong.out;
    for (const char* words : {"first wrong line   4   check(y, 'y_{i}', dp:S(0) tp:S(1))   (i=1)",
                              "y_1[0, 2] on rank 1: expected 2, got 3", "3 values compared"})
      EXPECT_NE(wrong.out.find(words), std::string::npos) << wrong.out;
    const Ran clean =
        tool(std::string("run scenarios/corpus/collectives/check_each_pass.json --backend mpi") +
             " --processes " + processes + " --iters 2");
    EXPECT_EQ(clean.code, 0) << clean.out;
    EXPECT_NE(clean.out.find("9 values compared"), std::string::npos) << clean.out;
  }
}

TEST_F(MpiRun, TwoBackends_AreCompared) {
  const Ran good = tool("run scenarios/corpus/collectives --backend local,mpi --processes 3");
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

TEST_F(MpiRun, ScenarioOnStandardInput_ReachesAllProcesses) {
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

// A program that runs mpirun once more for each case would take half as long again.
TEST_F(MpiRun, SeveralCases_CheckAndStartMpirunOnce) {
  std::filesystem::create_directories(folder_.path() / "bin");
  const std::string program = folder_.write(
      "bin/mpirun", "#!/bin/sh\necho \"$1\" >> '" + (folder_.path() / "calls").string() +
                        "'\nPATH=${PATH#*:}; exec mpirun \"$@\"\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Ran ran = shell("PATH='" + (folder_.path() / "bin").string() +
                        "':$PATH '" SHARDPROOF_PROGRAM
                        "' run scenarios/corpus/collectives --backend mpi --processes 2");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(read_whole(folder_.path() / "calls"), "--version\n--allow-run-as-root\n");
}

// --- the machine ---------------------------------------------------------------------------------

void expect_refused(const Ran& ran, const std::string& message) {
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find(message), std::string::npos) << ran.out;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
}

TEST_F(MpiRun, RunThatCannotStart_IsRefusedInOneLine) {
  const std::string run = "run scenarios/corpus/bugs/sum_for_avg.json --backend mpi ";
  expect_refused(tool(run + "--processes 0"), "--processes: expected 1 to 4096");
  expect_refused(tool(run + "--processes many"), "--processes");
  expect_refused(tool(run + "--gpus-per-process 2"), "--gpus-per-process needs backend nccl");
  expect_refused(tool(run + "--timeout soon"), "--timeout: expected a time such as 30s");
  expect_refused(
      tool("run scenarios/corpus/collectives --processes 2"),
      "--processes needs a backend of several processes, such as --backend mpi; local has none");
  expect_refused(shell("PATH=/nowhere '" SHARDPROOF_PROGRAM "' " + run),
                 "backend mpi: mpirun was not found; install openmpi-bin");
  expect_refused(tool(run + "--hosts /nowhere/hosts"), "/nowhere/hosts");
}

TEST_F(MpiRun, ListOfBackends_StatesAvailability) {
  const Ran here = tool("list backends");
  EXPECT_EQ(here.code, 0);
  EXPECT_NE(here.out.find("mpi      ranks in real processes over MPI\n"), std::string::npos)
      << here.out;
  const Ran without = shell("PATH=/nowhere '" SHARDPROOF_PROGRAM "' list backends");
  EXPECT_NE(without.out.find("not here: mpirun was not found"), std::string::npos) << without.out;
}

TEST_F(MpiRun, LittleSharedMemory_IsEnough) {
  const Ran may = shell("unshare -m true");
  if (may.code != 0) GTEST_SKIP() << "no right to mount: " << may.out;
  const Ran ran =
      shell("unshare -m sh -c \"mount -t tmpfs -o size=8m tmpfs /dev/shm && '" SHARDPROOF_PROGRAM
            "' run scenarios/corpus/collectives --backend mpi --processes 8\"");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("0 unexpected results"), std::string::npos) << ran.out;
}

TEST_F(MpiRun, UnusableTemporaryFolder_IsNamed) {
  const std::string run =
      "'" SHARDPROOF_PROGRAM "' run scenarios/corpus/bugs/sum_for_avg.json --backend mpi";
  expect_refused(shell("TMPDIR=/nowhere " + run), "the folder for temporary files");
  expect_refused(shell("TMPDIR=/proc " + run), "/proc: ");
  if (shell("unshare -m true").code != 0) GTEST_SKIP() << "no right to mount";
  const std::string folder = folder_.path().string();
  expect_refused(shell("unshare -m sh -c \"mount -t tmpfs -o size=4m tmpfs '" + folder +
                       "' && TMPDIR='" + folder + "' " + run + "\""),
                 folder + ": temporary files need 16 MiB, there is less space");
}

TEST_F(MpiRun, ProcessesThatExitBeforeJoining_GiveNoVerdict) {
  const std::string run =
      "'" SHARDPROOF_PROGRAM "' run scenarios/corpus/bugs/sum_for_avg.json --backend mpi";
  expect_refused(shell("OMPI_MCA_coll=self " + run),
                 " could not be started: it has ended with exit code 1 and printed: ");
}

}  // namespace
}  // namespace shardproof::mpi_run_test
