// The law of device kernels: on equal inputs they give the results of the host's kernels. It is
// checked on the samples of each op, in every dtype that the op supports. Lanes share copies, have
// their own, or read them by a table. Inputs are dense and strided, with random contents.
#pragma once

#include <functional>
#include <string>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/ops/cuda/device_kernels.h"

namespace shardproof::testing {

// The cases of one op: how many have a device kernel, and the dtypes of the others, such as "f16
// f16 -> f16".
struct KernelCases {
  int64_t on_device = 0;
  std::vector<std::string> on_host;
};

// The results of one lane; `exact` has the inputs of that lane.
struct KernelResults {
  const OpInstance& exact;
  std::vector<Tensor> host, device;  // by output
};
// Compares the two results. Returns the difference as text; "" if they agree.
using Judge = std::function<std::string(const KernelResults&)>;

// A judge for devices with another C library: each number must equal the host's. For products, and
// for ops that call functions of the C library, a float may differ. It must lie within a few units
// (tests/ops/agreement.h) of the host's f64 result.
std::string within_units(const KernelResults& results);
// A judge for products by a library that multiplies in fewer bits.
std::string within_units_of_few_bits(const KernelResults& results);

// Stops at the first case that is judged wrong and returns its text in `failure`.
KernelCases compare_kernels(const OpRecord& op, const DeviceKernels& kernels,
                            const std::shared_ptr<Device>& device, uint64_t seed,
                            const Judge& judge, std::string& failure);

// Totals over many ops.
struct LawCounts {
  int64_t ops = 0, cases = 0;  // those with a device kernel
};

// Checks the samples of all ops and long lines (long_samples.h). A case that is judged wrong, or a
// long line without a device kernel, fails the calling test.
LawCounts check_all_ops(const DeviceKernels& kernels, const std::shared_ptr<Device>& device,
                        uint64_t seed, const Judge& judge);
LawCounts check_long_lines(const DeviceKernels& kernels, const std::shared_ptr<Device>& device,
                           uint64_t seed, const Judge& judge);
// Checks products of sizes that tensor cores support, for a device with a library of the precision
// `high`.
LawCounts check_products_in_few_bits(const DeviceKernels& kernels,
                                     const std::shared_ptr<Device>& device, uint64_t seed);

}  // namespace shardproof::testing
