// Tests of `run --device cuda` on fake machines with and without a GPU.
#include <gtest/gtest.h>

#include "shardproof/cli/cli.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_kernels.h"

namespace shardproof {
namespace {

struct Ran {
  int code = -1;
  std::string out;  // standard output and error
};

// `options`: one word, or two.
Ran run_tool(const CudaApi& cuda, const std::string& scenario, const std::string& options,
             const std::string& more = "--seed=0") {
  const Registries registries{builtin_ops(), builtin_backends(), cuda, fake_kernels()};
  const std::string path = std::string(SHARDPROOF_SOURCE_DIR) + "/scenarios/corpus/" + scenario;
  const std::vector<const char*> words{"shardproof", "run", path.c_str(), options.c_str(),
                                       more.c_str()};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ran ran;
  ran.code = cli_main(static_cast<int>(words.size()), words.data(), registries);
  ran.out = testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  return ran;
}

TEST(RunOnDevice, OpsOnHost_AreReported) {
  const FakeGpu fake_gpu;
  const Ran dense = run_tool(fake_gpu.api(), "layers/mlp_column_row.json", "--device=cuda");
  EXPECT_EQ(dense.code, 0);
  EXPECT_EQ(dense.out.find("on the host"), std::string::npos) << dense.out;
  const Ran algebra = run_tool(fake_gpu.api(), "layers/linear_algebra.json", "--device=cuda");
  EXPECT_EQ(algebra.code, 0);
  EXPECT_NE(algebra.out.find("on the host: "), std::string::npos) << algebra.out;
  EXPECT_EQ(fake_gpu.bytes_in_use(), 0);
}

// If the rows of a table are sharded, each rank's kernel must use the rows that it holds.
TEST(RunOnDevice, ShardedTable_HasTheIndicesOfItsRows) {
  const FakeGpu fake_gpu;
  for (const char* scenario : {"layers/vocab_embedding.json", "layers/attention_heads.json",
                               "layers/parts_of_the_whole.json"}) {
    const Ran ran = run_tool(fake_gpu.api(), scenario, "--device=cuda");
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_EQ(ran.out.find("on the host"), std::string::npos) << ran.out;
  }
  EXPECT_EQ(fake_gpu.bytes_in_use(), 0);
}

// TF32 is far from f32. A run that states this precision has no finding.
TEST(RunOnDevice, LowPrecisionProducts_AreUsed) {
  const FakeGpu fake_gpu;
  for (const char* precision : {"--matmul-precision=highest", "--matmul-precision=high"})
    for (const char* scenario : {"layers/mlp_column_row.json", "layers/attention_heads.json"}) {
      const Ran ran = run_tool(fake_gpu.api(), scenario, "--device=cuda", precision);
      EXPECT_EQ(ran.code, 0) << ran.out;
    }
  const Ran nowhere = run_tool(fake_gpu.api(), "layers/mlp_column_row.json", "--device=host",
                               "--matmul-precision=high");
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_NE(nowhere.out.find("--matmul-precision needs a GPU"), std::string::npos) << nowhere.out;
  const Ran other = run_tool(fake_gpu.api(), "layers/mlp_column_row.json", "--device=cuda",
                             "--matmul-precision=medium");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.out.find("expected highest or high, found \"medium\""), std::string::npos)
      << other.out;
}

TEST(RunOnDevice, Device_Impossible_GivesReason) {
  FakeGpuOptions options;
  options.driver_version = 0;
  const Ran none = run_tool(FakeGpu(options).api(), "layers/mlp_column_row.json", "--device=cuda");
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.out.find("--device cuda: no NVIDIA driver on this machine"), std::string::npos)
      << none.out;
  const Ran absent = run_tool(CudaApi(), "layers/mlp_column_row.json", "--device=cuda");
  EXPECT_EQ(absent.code, 2);
  EXPECT_NE(absent.out.find("this program has no CUDA"), std::string::npos) << absent.out;
  const Ran other = run_tool(FakeGpu().api(), "layers/mlp_column_row.json", "--device=tpu");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.out.find("expected host or cuda, found \"tpu\""), std::string::npos) << other.out;
}

}  // namespace
}  // namespace shardproof
