// `run --backend nccl` from outside, on stand-ins: the same as in simulation, killed and stopped
// processes, and machines that have not what is needed. Each test runs a binary.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>

#include "shardproof/tests/cli/run_tool.h"
#include "shardproof/tests/cli/running_crew.h"

namespace shardproof {
namespace {

Ran stand_in(const std::string& words, const std::string& environment = "") {
  return shell(environment + " '" STAND_IN_PROGRAM "' " + words);
}

std::string report_of(const std::string& words, const std::string& environment = "") {
  const std::string path = testing::TempDir() + "/shardproof_nccl_report.json";
  const Ran ran = stand_in("run scenarios/corpus --json " + path + " " + words, environment);
  EXPECT_EQ(ran.code, 0) << ran.out;
  return report_without_backend(path);
}

TEST(NcclRun, TheCorpusSaysTheSameOnStandIns) {
  const std::string simulated = report_of("");
  for (const char* processes : {"1", "2", "4"})
    EXPECT_EQ(report_of(std::string("--backend nccl --processes ") + processes), simulated)
        << processes << " processes";
}

TEST(NcclRun, TheCorpusIsAsExpectedUnderAnotherSchedule) {
  const Ran ran =
      stand_in("run scenarios/corpus --backend nccl --processes 3 --schedule adversarial");
  EXPECT_EQ(ran.code, 0) << ran.out;
}

TEST(NcclRun, AnOrderOfNcclsIsPinnedByItsEnvironment) {
  const Ran ran = stand_in("run scenarios/corpus --backend nccl --processes 4 --order ring");
  EXPECT_EQ(ran.code, 0) << ran.out;
}

TEST(NcclRun, AKilledProcessIsAMissingRankAndNobodyIsLeft) {
  for (uint64_t seed = 0; seed < 6; ++seed)
    hurt_one(STAND_IN_PROGRAM, "nccl", SIGKILL, seed, "was killed by signal 9 (SIGKILL)");
}

TEST(NcclRun, AStoppedProcessIsAMissingRankAndNobodyIsLeft) {
  for (uint64_t seed = 0; seed < 4; ++seed)
    hurt_one(STAND_IN_PROGRAM, "nccl", SIGSTOP, seed, "is stopped by signal 19 (SIGSTOP)");
}

TEST(NcclRun, NobodyOutlivesTheCommand) {
  const ScenarioFolder folder;
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    Running run(STAND_IN_PROGRAM, "nccl", folder.endless(), (folder.path() / "out.txt").string());
    ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
    kill(run.pid(), signal);
    EXPECT_EQ(run.code(), -1);
    EXPECT_TRUE(run.all_gone()) << "signal " << signal;
  }
}

void expect_refused(const Ran& ran, const std::string& message) {
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find(message), std::string::npos) << ran.out;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
}

TEST(NcclRun, WhatTheMachineHasNotIsRefusedInOneLine) {
  const std::string run = "run scenarios/corpus/bugs/sum_for_avg.json --backend nccl ";
  expect_refused(stand_in(run + "--processes 4", "STAND_IN_GPUS=1"),
                 "backend nccl: 4 processes need 4 GPUs, and 1 is visible; --ranks-per-gpu 4 puts "
                 "them on it");
  expect_refused(stand_in(run + "--processes 8 --ranks-per-gpu 2", "STAND_IN_GPUS=3"),
                 "8 processes need 4 GPUs, and 3 are visible; --ranks-per-gpu 3");
  expect_refused(stand_in(run, "STAND_IN_GPUS=0"), "backend nccl: no GPU is visible");
  expect_refused(stand_in(run, "STAND_IN_DRIVER=0"), "no NVIDIA driver on this machine");
  expect_refused(stand_in(run, "STAND_IN_DRIVER=12040"),
                 "the driver is for CUDA 12.4 and this build needs 13.0");
  expect_refused(stand_in(run + "--hosts hosts.txt"), "--hosts: the nccl backend runs on the GPUs");
  expect_refused(stand_in(run + "--ranks-per-gpu 0"), "--ranks-per-gpu must be between 1 and");
  expect_refused(stand_in("run scenarios/corpus/collectives --ranks-per-gpu 2"),
                 "--ranks-per-gpu is for backends of several processes; local has none");
}

TEST(NcclRun, RanksThatShareAGpuSaySo) {
  const std::string run =
      "run scenarios/corpus/collectives --backend nccl --processes 4 --ranks-per-gpu 4";
  const Ran old = stand_in(run, "STAND_IN_GPUS=1 STAND_IN_NCCL=22809");
  EXPECT_EQ(old.code, 0) << old.out;
  EXPECT_NE(old.out.find("4 ranks on each GPU (NCCL_HOSTID"), std::string::npos) << old.out;
  const Ran young = stand_in(run, "STAND_IN_GPUS=1 STAND_IN_NCCL=23003");
  EXPECT_EQ(young.code, 0) << young.out;
  EXPECT_NE(young.out.find("4 ranks on each GPU (NCCL_MULTI_RANK_GPU_ENABLE); its times are not "
                           "those of as many GPUs"),
            std::string::npos)
      << young.out;
}

TEST(NcclRun, TheStockProgramSaysWhyNot) {
  const Ran list = shell("'" SHARDPROOF_PROGRAM "' list backends");
  EXPECT_EQ(list.code, 0);
  EXPECT_NE(list.out.find("  nccl     ranks on GPUs over NCCL"), std::string::npos) << list.out;
  if (list.out.find("NCCL; not here: ") == std::string::npos)
    GTEST_SKIP() << "this machine has what the nccl backend needs";
  expect_refused(
      shell("'" SHARDPROOF_PROGRAM "' run scenarios/corpus/bugs/sum_for_avg.json --backend nccl"),
      "shardproof: backend nccl: ");
}

}  // namespace
}  // namespace shardproof
