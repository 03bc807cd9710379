// Every device kernel beside the host's, as loops of a stand-in: the code is that of the GPU, the
// functions of the C library are the host's, so results are equal to the bit.
#include <gtest/gtest.h>

#include "shardproof/localtensor/error.h"
#include "shardproof/tests/gpu/kernel_law.h"
#include "shardproof/tests/gpu/stand_in/kernels.h"
#include "shardproof/tests/gpu/stand_in/stand_in.h"

namespace shardproof::testing {
namespace {

std::string same_bits(const KernelResults& results) {
  for (size_t o = 0; o < results.host.size(); ++o) {
    const Tensor &host = results.host[o], &device = results.device[o];
    if (bit_equal(host, 0, device, 0)) continue;
    const std::vector<double> expected = values_of(host), got = values_of(device);
    for (size_t i = 0; i < expected.size(); ++i)
      if (!(expected[i] == got[i]) && (expected[i] == expected[i] || got[i] == got[i]))
        return fmt::format("output {}, element {}: expected {}, found {}", o, i, expected[i],
                           got[i]);
    return fmt::format("output {}: a zero has another sign", o);
  }
  return "";
}

TEST(DeviceKernels, GiveTheBitsOfTheHostsKernels) {
  const StandIn stand_in;
  const std::shared_ptr<Device> device = open_device(stand_in.api(), 0);
  const DeviceKernels kernels = stand_in_kernels();
  int64_t on_device = 0, ops = 0;
  const OpRegistry registry = builtin_ops();
  for (const OpRecord* op : registry.all()) {
    if (op->expand && !op->prepare) continue;
    std::string failure;
    const KernelCases cases = compare_kernels(*op, kernels, device, 1000, same_bits, failure);
    EXPECT_EQ(failure, "");
    on_device += cases.on_device;
    ops += cases.on_device > 0 ? 1 : 0;
  }
  RecordProperty("cases", std::to_string(on_device));
  EXPECT_GT(ops, 70);
}

// A family whose loop is missing in a list would run on the host, unseen.
TEST(DeviceKernels, ElementwiseOpsHaveOne) {
  const StandIn stand_in;
  const std::shared_ptr<Device> device = open_device(stand_in.api(), 0);
  const DeviceKernels kernels = stand_in_kernels();
  const OpRegistry registry = builtin_ops();
  for (const OpRecord* op : registry.all()) {
    if (op->family != "elementwise" && op->family != "optimizer") continue;
    if (!op->prepare) continue;
    std::string failure;
    const KernelCases cases = compare_kernels(
        *op, kernels, device, 1, [](const KernelResults&) { return std::string(); }, failure);
    for (const std::string& text : cases.on_host)
      EXPECT_NE(text.find("c64"), std::string::npos) << op->name << " " << text;
  }
}

}  // namespace
}  // namespace shardproof::testing
