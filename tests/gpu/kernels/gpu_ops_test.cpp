// Compares every device kernel on a real GPU with the host's. On a machine without a
// GPU the tests are skipped with a reason.
#include <gtest/gtest.h>

#include "shardproof/cli/options/library_paths.h"
#include "shardproof/localtensor/dtype/matmul_precision.h"
#include "shardproof/localtensor/tensor/gemm.h"
#include "shardproof/tests/gpu/kernels/kernel_equality.h"

namespace shardproof::testing {
namespace {

bool multiplies(Device& device) { return device.gemm() != nullptr && device.gemm()->open(); }

TEST(KernelsOnAGpu, EveryKernel_GivesHostResults) {
  const CudaApi api = runtime_cuda_api(library_folders());
  if (const std::optional<std::string> reason = why_no_device(api))
    GTEST_SKIP() << "no GPU: " << *reason;
  const std::shared_ptr<Device> device = open_device(api, 0);
  std::printf("on %s, products by %s\n", device->description().c_str(),
              multiplies(*device) ? "cuBLASLt" : "kernels of its own: no cuBLASLt was found");
  const DeviceKernels kernels = cuda_kernels();
  EXPECT_GT(check_all_ops(kernels, device, 2000, within_units).cases, 3000);
  check_long_lines(kernels, device, 3000, within_units);
}

// Covers TF32, and tensor cores for 8-bit floats where the GPU has them.
TEST(KernelsOnAGpu, LowPrecisionProducts_StayWithinBound) {
  CudaApi api = runtime_cuda_api(library_folders());
  if (const std::optional<std::string> reason = why_no_device(api))
    GTEST_SKIP() << "no GPU: " << *reason;
  api.matmul = MatmulPrecision::high;
  const std::shared_ptr<Device> device = open_device(api, 0);
  if (!multiplies(*device))
    GTEST_SKIP() << "no cuBLASLt was found, and no other product is of few bits";
  check_products_in_few_bits(cuda_kernels(), device, 4000);
}

}  // namespace
}  // namespace shardproof::testing
