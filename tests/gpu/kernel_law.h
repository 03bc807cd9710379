// The law of device kernels: on equal inputs they give what the host's kernel gives. Checked on the
// samples of an op, in every dtype that the op takes, on several lanes that share copies, have
// their own or read them by a table, from dense and from strided inputs, with fresh random
// contents.
#pragma once

#include <functional>
#include <string>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/ops/device_kernels.h"
#include "shardproof/tests/ops/run_op.h"

namespace shardproof::testing {

// What one op came to: how many of its cases the device has a kernel for, and those that it has
// none for, such as "f16 f16 -> f16".
struct KernelCases {
  int64_t on_device = 0;
  std::vector<std::string> on_host;
};

// Two results of one lane and output; `exact` are the inputs of that lane.
struct KernelResults {
  const OpInstance& exact;
  std::vector<Tensor> host, device;  // one copy each
};
using Judge = std::function<std::string(const KernelResults&)>;  // "" when they agree

// A judge for devices whose C library is another: results lie within the bounds that ops claim for
// two honest computations, and are equal where these say exact.
std::string within_bounds(const KernelResults& results);

// The first case that is judged wrong ends it, with its text in `failure`.
KernelCases compare_kernels(const OpRecord& op, const DeviceKernels& kernels,
                            const std::shared_ptr<Device>& device, uint64_t seed,
                            const Judge& judge, std::string& failure);

}  // namespace shardproof::testing
