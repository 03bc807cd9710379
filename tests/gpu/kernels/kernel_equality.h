// The law of device kernels: on equal inputs they give what the host's kernel gives. Checked on the
// samples of an op, in every dtype that the op takes, on several lanes that share copies, have
// their own or read them by a table, from dense and from strided inputs, with fresh random
// contents.
#pragma once

#include <functional>
#include <string>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/ops/cuda/device_kernels.h"
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

// A judge for devices whose C library is another: each number is the host's. Of ops that call
// functions of the C library, and of products, a float may instead lie within a few units
// (tests/ops/agreement.h) of what the host computes in f64.
std::string within_units(const KernelResults& results);
// The same for products by a library that multiplies in fewer bits.
std::string within_units_of_few_bits(const KernelResults& results);

// The first case that is judged wrong ends it, with its text in `failure`.
KernelCases compare_kernels(const OpRecord& op, const DeviceKernels& kernels,
                            const std::shared_ptr<Device>& device, uint64_t seed,
                            const Judge& judge, std::string& failure);

// What the law came to over many ops.
struct LawCounts {
  int64_t ops = 0, cases = 0;  // that the device has a kernel for
};

// The law over the samples of all ops, and over long lines (long_samples.h). A case that is judged
// wrong is a failure of the test that calls, and so is a long line that the device has no kernel
// for.
LawCounts check_all_ops(const DeviceKernels& kernels, const std::shared_ptr<Device>& device,
                        uint64_t seed, const Judge& judge);
LawCounts check_long_lines(const DeviceKernels& kernels, const std::shared_ptr<Device>& device,
                           uint64_t seed, const Judge& judge);
// The law over products of the sizes that tensor cores take, for a device with a library of the
// precision `high`.
LawCounts check_products_in_few_bits(const DeviceKernels& kernels,
                                     const std::shared_ptr<Device>& device, uint64_t seed);

}  // namespace shardproof::testing
