// Tests of run_all.sh with fake programs: which steps run, how results are summed up, and where
// they go. The GPU itself is not tested.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "shardproof/tests/cli/run_tool.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

class RunAll : public testing::Test {
 protected:
  RunAll()
      : root_(fs::path(testing::TempDir()) / ("shardproof_run_all_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "checkout/tests/gpu");
    fs::copy(fs::path(SHARDPROOF_SOURCE_DIR) / "tests/gpu/run_all.sh",
             root_ / "checkout/tests/gpu");
  }
  ~RunAll() override { fs::remove_all(root_); }

  // Makes programs below the checkout; shardproof prints `nccl` for the nccl backend.
  void programs(const std::string& folder, const std::string& nccl, const std::string& more = "") {
    for (const char* name : {"shardproof", "nccl_probe", "gpu_ops_test"}) {
      const fs::path path = root_ / "checkout" / folder / name;
      fs::create_directories(path.parent_path());
      std::ofstream(path) << "#!/bin/sh\n[ \"$1 $2\" != 'list backends' ] || echo '  nccl     " +
                                 nccl + "'\n" + more + "\n";
      fs::permissions(path, fs::perms::owner_all);
    }
  }
  // Runs the script in a folder of its own, which receives the results.
  Ran run() const {
    fs::create_directories(root_ / "own");
    return shell("cd '" + (root_ / "own").string() + "' && ../checkout/tests/gpu/run_all.sh out");
  }
  std::string summary() const {
    std::ostringstream text;
    text << std::ifstream(root_ / "own/out/summary.md").rdbuf();
    return text.str();
  }
  static void expect(const std::string& text, const std::string& words) {
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  }
  fs::path root_;
};

TEST_F(RunAll, Package_AnyFolder_Runs) {
  programs("build/gpu/package/bin", "ranks on GPUs over NCCL");
  ASSERT_EQ(shell("cd '" + (root_ / "checkout/build/gpu").string() +
                  "' && tar czf package.tar.gz package && rm -r package")
                .code,
            0);
  const Ran ran = run();
  EXPECT_EQ(ran.code, 0) << ran.out;
  for (const char* step : {"corpus_cuda", "bits_4", "corpus_nccl_4_programs", "times_2"})
    expect(summary(), std::string("| ") + step + " | good, ");
  EXPECT_TRUE(fs::exists(root_ / "own/out.tar.gz"));
}

TEST_F(RunAll, FailedStep_IsReported_AndOthersRun) {
  programs("bin", "ranks on GPUs over NCCL",
           "[ \"$3\" != --device ] || { echo a kernel is wrong; exit 1; }");
  const Ran ran = run();
  EXPECT_EQ(ran.code, 1) << ran.out;
  expect(ran.out, "corpus_cuda: FAILED: exit code 1");
  expect(ran.out, "    a kernel is wrong");
  expect(summary(), "| bits_4 | good, ");
}

TEST_F(RunAll, WithoutNccl_OtherStepsRun) {
  programs("bin", "ranks on GPUs over NCCL; not here: NCCL was not found (libnccl.so.2)");
  const Ran ran = run();
  EXPECT_EQ(ran.code, 2) << ran.out;
  expect(summary(), "| corpus_cuda | good, ");
  expect(summary(), "| nccl | not run: NCCL was not found (libnccl.so.2) | |");
  EXPECT_EQ(summary().find("bits_1"), std::string::npos);
}

TEST_F(RunAll, WithoutGpu_NothingRuns) {
  programs("bin", "ranks on GPUs over NCCL; not here: no NVIDIA driver on this machine");
  const Ran ran = run();
  EXPECT_EQ(ran.code, 2) << ran.out;
  expect(ran.out, "run_all.sh: the nccl backend cannot run: no NVIDIA driver on this machine");
  EXPECT_FALSE(fs::exists(root_ / "own/out"));
}

}  // namespace
}  // namespace shardproof
