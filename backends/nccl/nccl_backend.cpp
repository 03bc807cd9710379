// Implements nccl_backend.h: the backend in its three forms, without processes, as coordinator, as
// worker.
#include "shardproof/backends/nccl/nccl_backend.h"
#include "shardproof/backends/api/library_choice.h"
#include "shardproof/backends/nccl/gpu_sharing.h"
#include "shardproof/backends/nccl/nccl_transport.h"
#include "shardproof/backends/remote/coordinator/process_backend.h"
#include "shardproof/backends/remote/process/process_spawner.h"

namespace shardproof {
namespace {

class NcclBackend : public Backend, public MultiProcessBackend {
 public:
  explicit NcclBackend(const NcclDependencies& parts) : parts_(parts) {}
  std::string name() const override { return "nccl"; }
  std::string summary() const override { return "ranks on GPUs over NCCL"; }
  std::optional<std::string> not_viable() const override {
    if (std::optional<std::string> reason = why_no_device(parts_.cuda)) return reason;
    try {
      parts_.load(parts_.places);
    } catch (const Error& error) {
      return error.message();
    }
    return std::nullopt;
  }
  std::optional<std::string> not_viable_if_started() const override { return not_viable(); }
  std::optional<std::string> unsupported_reason(const Collective&) const override {
    return std::nullopt;
  }
  std::optional<std::string> refuses_device() const override {
    return "each of its ranks has a GPU of its own, and computes there";
  }
  std::unique_ptr<World> start(const WorldOptions&) override {
    throw Error(ErrorKind::unsupported, "the nccl backend was given no processes");
  }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    if (not_viable()) return {};
    CudaDeviceFacts facts;
    int driver = 0;
    parts_.cuda.device_facts(0, &facts);
    parts_.cuda.driver_version(&driver);
    const NcclApi api = parts_.load(parts_.places);
    std::vector<std::pair<std::string, std::string>> environment{
        {"gpu", facts.name},
        {"driver", fmt::format("CUDA {}.{}", driver / 1000, driver % 1000 / 10)},
        {"nccl", nccl_version_text(api.version)},
        {"matmul", matmul_fact(parts_.cuda.matmul)}};
    if (api.group_simulate_end != nullptr)
      environment.emplace_back(kEstimateFact, "ncclGroupSimulateEnd");
    return environment;
  }
  std::shared_ptr<Backend> with_processes(const WorkerPoolOptions& options) const override;
  std::shared_ptr<Backend> with_libraries(const LibraryChoice& choice) const override {
    NcclDependencies parts = parts_;
    if (choice.nccl) parts.places.library = *choice.nccl;
    parts.cuda.matmul = choice.matmul;
    return std::make_shared<NcclBackend>(parts);
  }

 protected:
  NcclDependencies parts_;
};

int gpu_count(const CudaApi& cuda) {
  int count = 0;
  cuda.device_count(&count);
  return count;
}

SpawnOptions spawn_options(const WorkerPoolOptions& options, GpuSharing sharing) {
  return {options,
          [options, sharing](int process) { return nccl_environment(options, sharing, process); }};
}

class CoordinatedNccl : public CoordinatedBackend<NcclBackend> {
 public:
  CoordinatedNccl(const NcclDependencies& parts, const WorkerPoolOptions& options)
      : CoordinatedNccl(parts, options, gpu_sharing(options, parts.load(parts.places).version)) {}
  std::string report_note() const override {
    const std::string& puts = coordinator().window_words;
    return note_ + (note_.empty() || puts.empty() ? "" : "; ") + puts;
  }

 private:
  CoordinatedNccl(const NcclDependencies& parts, const WorkerPoolOptions& options,
                  GpuSharing sharing)
      : CoordinatedBackend(options, spawner(spawn_options(options, sharing)), parts),
        note_(sharing_note(options, sharing)) {}

  std::string note_;
};

NcclHardware machine_of(const NcclDependencies& parts, int first_gpu) {
  NcclHardware machine;
  machine.open_nccl = [parts] { return parts.load(parts.places); };
  machine.open_device = [parts, first_gpu](int own) {
    return open_device(parts.cuda, first_gpu + own);
  };
  return machine;
}

// Sets NCCL's variables in this worker, because the program that started it may not have, and
// returns the transport over the worker's own GPUs.
std::unique_ptr<Transport> start_nccl(const NcclDependencies& parts,
                                      const WorkerPoolOptions& options) {
  set_nccl_environment(options, gpu_sharing(options, parts.load(parts.places).version));
  const int first_gpu = first_own_gpu(options, gpu_count(parts.cuda));
  return nccl_transport(machine_of(parts, first_gpu), {options.process, options.processes,
                                                       options.gpus_per_process, options.order});
}

std::shared_ptr<Backend> NcclBackend::with_processes(const WorkerPoolOptions& options) const {
  if (!options.join.empty())
    return std::make_shared<WorkerBackend<NcclBackend>>(options, start_nccl(parts_, options),
                                                        parts_);
  if (options.host_file)
    throw Error(ErrorKind::unsupported, "--hosts: backend nccl uses the GPUs of this machine only");
  if (!options.place) check_gpu_count(options, gpu_count(parts_.cuda));
  check_order(options.order, parts_.load(parts_.places).version);
  return std::make_shared<CoordinatedNccl>(parts_, options);
}

}  // namespace

std::shared_ptr<Backend> nccl_backend(const NcclDependencies& parts) {
  return std::make_shared<NcclBackend>(parts);
}

}  // namespace shardproof
