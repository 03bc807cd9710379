// Every device kernel on a real GPU beside the host's. Its C library is another, so results lie
// within the bounds that ops claim for two honest computations; equal to the bit where these say
// exact. Skipped, with the reason, on a machine without a GPU.
#include <gtest/gtest.h>

#include <cmath>

#include "shardproof/localtensor/error.h"
#include "shardproof/ops/run_once.h"
#include "shardproof/tests/gpu/kernel_law.h"
#include "shardproof/tests/gpu/long_samples.h"

namespace shardproof::testing {
namespace {

std::vector<Bound> bounds_of(const KernelResults& results) {
  const OpInstance& instance = results.exact;
  const OpCall op_call = instance.call();
  std::vector<Bound> exact;
  for (const Tensor& tensor : instance.tensors)
    exact.push_back(tensor.buffer ? Bound::exact_of(tensor) : Bound());
  BoundCall call;
  call.call = &op_call;
  call.inputs = instance.pointers();
  for (size_t i = 0; i < exact.size(); ++i)
    call.input_bounds.push_back(instance.tensors[i].buffer ? &exact[i] : nullptr);
  for (const Tensor& output : results.host) call.outputs.push_back(&output);
  return instance.record->bound ? instance.record->bound(call)
                                : moved_bound(*instance.record, call);
}

std::string within_bounds(const KernelResults& results) {
  const std::vector<Bound> bounds = bounds_of(results);
  for (size_t o = 0; o < results.host.size(); ++o) {
    const std::vector<double> host = values_of(results.host[o]), got = values_of(results.device[o]);
    for (size_t i = 0; i < host.size(); ++i) {
      const double room = 2 * error_of(bounds[o], static_cast<int64_t>(i));
      const bool both_nan = host[i] != host[i] && got[i] != got[i];
      if (host[i] == got[i] || both_nan || std::fabs(host[i] - got[i]) <= room) continue;
      return fmt::format("output {}, element {}: expected {}, found {}, and the bound is {}", o, i,
                         host[i], got[i], room);
    }
  }
  return "";
}

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
