// The conformance suite over a fake NCCL: each process has a fake GPU made of host memory.
#include <cstdlib>

#include "shardproof/backends/nccl/nccl_backend.h"
#include "shardproof/backends/remote/process/process_spawner.h"
#include "shardproof/tests/backends/worker_pool_conformance.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl.h"

namespace shardproof {
namespace {

constexpr const char* kProcesses = "CONFORMANCE_PROCESSES";

std::unique_ptr<Starter> start_here(const WorkerPoolOptions& options) {
  const int processes = options.processes;
  return spawner({options, [processes](int) {
                    return Environment{{kProcesses, fmt::format("{}", processes)}};
                  }});
}

std::shared_ptr<Backend> join(const WorkerPoolOptions& options) {
  FakeGpuOptions machine;
  machine.devices = options.processes;
  machine.device_bytes = int64_t{64} << 20;
  machine.seed = static_cast<uint64_t>(options.process) + 1;
  machine.timeout_seconds = 30;
  NcclDependencies parts;
  parts.cuda = FakeGpu(machine).api();
  parts.load = [cuda = parts.cuda](const NcclSearchPaths&) {
    fake_gpu::NcclOptions nccl;
    nccl.version = 22907;
    nccl.memory = cuda;
    nccl.enqueue = FakeGpu::enqueue_when;
    return fake_gpu::nccl_api(nccl);
  };
  return nccl_backend(parts)->with_processes(options);
}

}  // namespace

const WorkerPoolConformance& pool_conformance() {
  static const WorkerPoolConformance kNccl{"nccl",
                                           {1, 2, 3, 4, 6},
                                           start_here,
                                           [] {
                                             return std::pair(
                                                 std::atoi(std::getenv(kProcessVariable)),
                                                 std::atoi(std::getenv(kProcesses)));
                                           },
                                           join,
                                           {}};
  return kNccl;
}

}  // namespace shardproof
