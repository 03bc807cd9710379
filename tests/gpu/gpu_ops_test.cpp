// Every device kernel on a real GPU beside the host's. Skipped, with the reason, on a machine
// without a GPU.
#include <gtest/gtest.h>

#include "shardproof/tests/gpu/kernel_law.h"
#include "shardproof/tests/gpu/long_samples.h"

namespace shardproof::testing {
namespace {

TEST(KernelsOnAGpu, GiveWhatTheHostsKernelsGive) {
  const CudaApi api = runtime_cuda_api();
  if (const std::optional<std::string> reason = why_no_device(api))
    GTEST_SKIP() << "no GPU: " << *reason;
  const std::shared_ptr<Device> device = open_device(api, 0);
  std::printf("on %s\n", device->description().c_str());
  const DeviceKernels kernels = cuda_kernels();
  const OpRegistry registry = builtin_ops();
  int64_t on_device = 0;
  for (const OpRecord* op : registry.all()) {
    if (!op->prepare) continue;
    std::string failure;
    on_device += compare_kernels(*op, kernels, device, 2000, within_bounds, failure).on_device;
    EXPECT_EQ(failure, "");
  }
  for (const auto& [name, sample] : long_samples()) {
    OpRecord op = registry.at(name);
    op.samples = [sample = sample] { return std::vector<Sample>{sample}; };
    std::string failure;
    on_device += compare_kernels(op, kernels, device, 3000, within_bounds, failure).on_device;
    EXPECT_EQ(failure, "");
  }
  EXPECT_GT(on_device, 0);
}

}  // namespace
}  // namespace shardproof::testing
