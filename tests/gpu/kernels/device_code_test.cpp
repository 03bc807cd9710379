// Runs every device kernel as nvcc compiled it (its PTX) on the host, and compares it with the
// host's kernel. In device code, nvcc silently drops calls of host functions and references to host
// constants. Here they show as wrong values, without a GPU.
#include <gtest/gtest.h>

#include "shardproof/localtensor/dtype/matmul_precision.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_kernels.h"
#include "shardproof/tests/gpu/kernels/kernel_equality.h"
#include "shardproof/tests/gpu/ptx/launch_ptx.h"

namespace shardproof::testing {
namespace {

TEST(DeviceCode, EveryKernel_GivesHostResults) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  const DeviceKernels kernels = fake_kernels();
  const LawCounts counts = check_all_ops(kernels, device, 4000, within_units);
  EXPECT_GT(counts.cases, 3000);
  check_long_lines(kernels, device, 5000, within_units);
  CudaApi in_few_bits = fake_gpu.api();
  in_few_bits.matmul = MatmulPrecision::high;
  check_products_in_few_bits(kernels, open_device(in_few_bits, 0), 6000);

  const std::set<std::string> all = ptx::all_kernels(), launched = ptx::launched_kernels();
  for (const std::string& name : all) EXPECT_TRUE(launched.contains(name)) << name;
}

// A kernel that is not listed would be loaded during calls that wait for each other.
TEST(DeviceCode, EveryKernel_IsLoadedBeforeLaunch) {
  EXPECT_EQ(ptx::loaded_kernels(), std::set<std::string>());
  fake_kernels().load();
  EXPECT_EQ(ptx::loaded_kernels(), ptx::all_kernels());
}

}  // namespace
}  // namespace shardproof::testing
