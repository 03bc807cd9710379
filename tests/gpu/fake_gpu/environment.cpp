// Implements the functions of fake_gpu.h and fake_nccl.h that read the environment.
#include <cstdlib>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/localtensor/collective/reduction_schedule.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl.h"

namespace shardproof {
namespace {

int number_in(const char* name, int fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

ReductionSchedule pinned_order(int version) {
  const char* const algorithms = std::getenv("NCCL_ALGO");
  const int channels = number_in("NCCL_MAX_CTAS", 1);
  if (algorithms == nullptr) return {};
  const bool tree = fake_gpu::algorithms_for("allreduce", algorithms) == "Tree";
  const char* const protocol = std::getenv("NCCL_PROTO");
  ReductionSchedule order;
  order.order = tree ? FoldOrder::tree : FoldOrder::ring;
  order.channels = channels;
  if (protocol != nullptr && std::string(protocol) == "LL") order.protocol = NcclProtocol::ll;
  if (protocol != nullptr && std::string(protocol) == "LL128") order.protocol = NcclProtocol::ll128;
  return with_nccl(order, version);
}

}  // namespace

FakeGpuOptions machine_in_environment() {
  FakeGpuOptions options;
  options.devices = number_in("FAKE_GPU_GPUS", 8);
  options.driver_version = number_in("FAKE_GPU_DRIVER", 13000);
  options.timeout_seconds = 60;
  options.seed = static_cast<uint64_t>(number_in("FAKE_GPU_SEED", 1));
  options.device_bytes = int64_t{number_in("FAKE_GPU_MEBIBYTES", 1024)} << 20;
  options.waits = number_in("FAKE_GPU_WAITS", 1) != 0;
  if (const char* const trace = std::getenv("FAKE_GPU_STREAMS")) options.trace = trace;
  return options;
}

NcclDependencies fake_gpu::nccl_parts(const CudaApi& cuda) {
  NcclDependencies parts;
  parts.cuda = cuda;
  parts.load = [cuda](const NcclSearchPaths&) {
    fake_gpu::NcclOptions options;
    options.version = number_in("FAKE_GPU_NCCL", 22809);
    if (const char* const trace = std::getenv("FAKE_GPU_TRACE")) options.trace = trace;
    if (const char* const algorithms = std::getenv("NCCL_ALGO")) options.algorithms = algorithms;
    options.order = pinned_order(options.version);
    options.ranks_are_nodes = std::getenv("NCCL_HOSTID") != nullptr;
    options.reads_directly = number_in("NCCL_P2P_DIRECT_DISABLE", 0) == 0;
    options.failing_call = number_in("FAKE_GPU_FAILING_CALL", 0);
    options.kill_after_ms = number_in("FAKE_GPU_KILL_AFTER_MS", 0);
    options.launches_block = number_in("CUDA_LAUNCH_BLOCKING", 0) != 0;
    options.symmetric = number_in("FAKE_GPU_SYMMETRIC", 1) != 0;
    options.no_window_memory =
        number_in("FAKE_GPU_NO_WINDOW_MEMORY", -1) == number_in(kProcessVariable, 0);
    options.no_window = number_in("FAKE_GPU_NO_WINDOW", -1);
    options.no_signal = number_in("FAKE_GPU_NO_SIGNAL", -1);
    const char* const blocking = std::getenv("NCCL_COMM_BLOCKING");
    if (blocking != nullptr && *blocking != 0) options.blocking = std::atoi(blocking) == 1;
    options.memory = cuda;
    options.enqueue = FakeGpu::enqueue_when;
    return fake_gpu::nccl_api(options);
  };
  return parts;
}

}  // namespace shardproof
