// Implements fake_kernels.h: compiles the bodies of the device kernels as loops of the host.
#include "shardproof/tests/gpu/fake_gpu/fake_kernels.h"

#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"

namespace shardproof {

void run_late(void* stream, std::function<void()> work) {
  FakeGpu::enqueue(stream, [work = std::move(work)] { return work(), true; });
}

DeviceKernels fake_kernels() { return all_families<HostTarget>(); }

}  // namespace shardproof
