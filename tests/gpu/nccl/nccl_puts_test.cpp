// Tests of puts under `--backend nccl` on fake GPUs: by NCCL's windows if all processes can open
// them, else by messages.
#include <gtest/gtest.h>

#include <filesystem>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/cli/running_workers.h"
#include "shardproof/tests/gpu/nccl/on_fake_gpus.h"

namespace shardproof {
namespace {

// Each process puts twice. Before the first put it tests that signals arrive, and after each step
// all processes exchange their errors.
TEST(NcclPuts, Puts_UseNcclWindows_IfAllCan) {
  const ScenarioFolder folder;
  const std::filesystem::path trace = folder.path() / "trace";
  const auto ran = [&](const std::string& environment, const std::string& note) {
    const Ran one = fake_gpu("run scenarios/corpus/collectives/one_sided_ring.json --backend nccl",
                             environment);
    EXPECT_EQ(one.code, 0) << one.out;
    EXPECT_NE(one.out.find(note), std::string::npos) << one.out;
  };
  ran("FAKE_GPU_NCCL=22809", "puts by ncclSend and ncclRecv (NCCL 2.28.9 has no ncclPutSignal)");
  ran("FAKE_GPU_NCCL=22907 FAKE_GPU_SYMMETRIC=0",
      "puts by ncclSend and ncclRecv (the GPUs have no symmetric memory)");
  // If one process fails, all put by messages.
  ran("FAKE_GPU_NCCL=22907 FAKE_GPU_NO_WINDOW_MEMORY=2",
      "puts by ncclSend and ncclRecv (no 16777216 bytes for a window: ");
  ran("FAKE_GPU_NCCL=22907 FAKE_GPU_NO_WINDOW=1",
      "puts by ncclSend and ncclRecv (its memory cannot be mapped)");
  ran("FAKE_GPU_NCCL=22907 FAKE_GPU_NO_SIGNAL=1",
      "puts by ncclSend and ncclRecv (the proxy does not answer)");
  ran("FAKE_GPU_NCCL=22907 FAKE_GPU_TRACE=" + trace.string(), "; puts by ncclPutSignal\n");
  std::vector<std::string> expected;
  for (int rank = 0; rank < 3; ++rank) {
    const int next = (rank + 1) % 3, previous = (rank + 2) % 3;
    expected.insert(expected.end(), 5, fmt::format("rank {}: all_gather", rank));
    expected.insert(expected.end(), 2, fmt::format("rank {}: put({})", rank, next));
    expected.push_back(fmt::format("rank {}: signal({})", rank, next));
    expected.insert(expected.end(), 3, fmt::format("rank {}: wait_signal({})", rank, previous));
  }
  EXPECT_EQ(sorted_lines_of(trace), expected);
}

// A put must not overwrite an earlier one that the reader's GPU has not read yet.
TEST(NcclPuts, SecondPut_DoesNotOverwriteUnreadOne) {
  for (int seed = 1; seed <= 8; ++seed) {
    const Ran ran =
        fake_gpu("run scenarios/corpus/collectives/slot_put_into_again.json --backend nccl",
                 fmt::format("FAKE_GPU_NCCL=22907 FAKE_GPU_SEED={}", seed));
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_NE(ran.out.find("; puts by ncclPutSignal\n"), std::string::npos) << ran.out;
  }
}

}  // namespace
}  // namespace shardproof
