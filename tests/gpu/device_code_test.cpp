// Every device kernel as nvcc compiled it, run on the host, beside the host's own kernel. What nvcc
// leaves out without a word, such as a call of a host function or a reference to a constant of the
// host's, shows here as wrong values, on a machine without a GPU.
#include <gtest/gtest.h>

#include "shardproof/tests/gpu/kernel_law.h"
#include "shardproof/tests/gpu/long_samples.h"
#include "shardproof/tests/gpu/ptx/launch_ptx.h"
#include "shardproof/tests/gpu/stand_in/kernels.h"
#include "shardproof/tests/gpu/stand_in/stand_in.h"

namespace shardproof::testing {
namespace {

TEST(DeviceCode, GivesWhatTheHostsKernelsGive) {
  const StandIn stand_in;
  const std::shared_ptr<Device> device = open_device(stand_in.api(), 0);
  const DeviceKernels kernels = stand_in_kernels();
  const OpRegistry registry = builtin_ops();
  int64_t on_device = 0;
  for (const OpRecord* op : registry.all()) {
    if (!op->prepare) continue;
    std::string failure;
    on_device += compare_kernels(*op, kernels, device, 4000, within_bounds, failure).on_device;
    EXPECT_EQ(failure, "");
  }
  for (const auto& [name, sample] : long_samples()) {
    OpRecord op = registry.at(name);
    op.samples = [sample = sample] { return std::vector<Sample>{sample}; };
    std::string failure;
    EXPECT_GT(compare_kernels(op, kernels, device, 5000, within_bounds, failure).on_device, 0);
    EXPECT_EQ(failure, "") << name;
  }
  EXPECT_GT(on_device, 3000);

  const std::set<std::string> all = ptx::all_kernels(), launched = ptx::launched_kernels();
  for (const std::string& name : all) EXPECT_TRUE(launched.contains(name)) << name;
}

// A kernel that is not listed would be loaded beside calls that wait for each other.
TEST(DeviceCode, IsLoadedBeforeItIsLaunched) {
  EXPECT_EQ(ptx::loaded_kernels(), std::set<std::string>());
  stand_in_kernels().load();
  EXPECT_EQ(ptx::loaded_kernels(), ptx::all_kernels());
}

}  // namespace
}  // namespace shardproof::testing
