#include "shardproof/ops/device_kernels.h"

#include <algorithm>

namespace shardproof {
namespace {

bool any_complex(const std::vector<TensorMeta>& metas) {
  return std::any_of(metas.begin(), metas.end(),
                     [](const TensorMeta& meta) { return !meta.absent && is_complex(meta.dtype); });
}

}  // namespace

Kernel DeviceKernels::find(const Kernel& host, const std::vector<TensorMeta>& inputs,
                           const std::vector<TensorMeta>& outputs) const {
  const auto found = makers_.find(host.plan.type());
  if (found == makers_.end() || any_complex(inputs) || any_complex(outputs)) return {};
  return found->second(host.plan);
}

}  // namespace shardproof
