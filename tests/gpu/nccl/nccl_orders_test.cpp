// Tests of `run --backend nccl --order ...` on fake GPUs: which algorithms NCCL has for which
// calls.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "shardproof/tests/cli/running_workers.h"
#include "shardproof/tests/gpu/nccl/on_fake_gpus.h"

namespace shardproof {
namespace {

// NCCL has tree for all_reduce only, and NVLS and PAT for some reductions. It refuses a call for
// which it lacks the chosen algorithm. PAT needs ranks that are machines of their own.
TEST(NcclOrders, Corpus_EachOrder_Passes) {
  const std::string corpus = "scenarios/corpus";
  const std::string values = corpus + "/collectives " + corpus + "/redistribute";
  const std::string runs[] = {std::string(kCorpusWithoutBugs) + " --order ring --processes 4",
                              values + " --order tree --processes 2",
                              values + " --order nvls --processes 2",
                              values + " --order pat --processes 2 --ranks-per-gpu 2"};
  for (const std::string& run : runs) {
    const Ran ran = fake_gpu("run --backend nccl --no-causes " + run);
    EXPECT_EQ(ran.code, 0) << run << "\n" << ran.out;
  }
}

// All processes leave the case on their own, so the coordinator waits for none of their commands.
TEST(NcclOrders, RefusedCall_EndsItsCase) {
  const ScenarioFolder folder;
  const std::string file = folder.write("scattered.json", R"json({
    "version": 1, "mesh": "tp=4", "tensors": {"x": {"shape": [8], "placements": "tp:P(sum)"}},
    "program": ["y = redistribute(x, tp:S(0))"]})json");
  const auto began = std::chrono::steady_clock::now();
  const Ran ran = fake_gpu("run " + file + " --backend nccl --processes 4 --order pat");
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find("no algorithm/protocol available for function reducescatter"),
            std::string::npos)
      << ran.out;
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
}

TEST(NcclOrders, Channels_MustMatchNcclVersion) {
  const std::string run =
      "run scenarios/corpus/collectives --backend nccl --processes 2 --order 'ring(channels=2)'";
  const Ran old = fake_gpu(run, "FAKE_GPU_NCCL=22809");
  EXPECT_EQ(old.code, 2) << old.out;
  EXPECT_NE(old.out.find("order ring(channels=2) is not the order of NCCL 2.28.9; write "
                         "ring(channels=2, nccl=2.28)"),
            std::string::npos)
      << old.out;
  EXPECT_EQ(fake_gpu(run, "FAKE_GPU_NCCL=23007").code, 0);
  const std::string before =
      "run scenarios/corpus/collectives --backend nccl --processes 2 --order ";
  for (const char* const version : {"22809", "22602"})
    EXPECT_EQ(
        fake_gpu(before + "'ring(channels=2, nccl=2.27)'", std::string("FAKE_GPU_NCCL=") + version)
            .code,
        0);
  EXPECT_EQ(fake_gpu(before + "'ring(channels=2, nccl=2.27)'", "FAKE_GPU_NCCL=22506").code, 2);
  const Ran pat = fake_gpu(before + "pat", "FAKE_GPU_NCCL=22506");
  EXPECT_EQ(pat.code, 2) << pat.out;
  EXPECT_NE(pat.out.find("order pat is not the order of NCCL 2.25.6; its order is not known"),
            std::string::npos)
      << pat.out;
}

}  // namespace
}  // namespace shardproof
