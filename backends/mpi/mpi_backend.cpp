// Implements mpi_backend.h: the backend in its three forms, without processes, as coordinator, as
// worker.
#include "shardproof/backends/mpi/mpi_backend.h"
#include "shardproof/backends/mpi/mpi_transport.h"
#include "shardproof/backends/mpi/mpirun.h"
#include "shardproof/backends/remote/coordinator/process_backend.h"
#include "shardproof/backends/remote/process/process_spawner.h"

namespace shardproof {
namespace {

class MpiBackend : public Backend, public MultiProcessBackend {
 public:
  std::string name() const override { return "mpi"; }
  std::string summary() const override { return "ranks in real processes over MPI"; }
  std::optional<std::string> not_viable() const override { return no_mpirun(); }
  std::optional<std::string> not_viable_if_started() const override { return std::nullopt; }
  std::optional<std::string> unsupported_reason(const Collective&) const override {
    return std::nullopt;
  }
  std::unique_ptr<World> start(const WorldOptions&) override {
    throw Error(ErrorKind::unsupported, "the mpi backend was given no processes");
  }
  std::shared_ptr<Backend> with_processes(const WorkerPoolOptions& options) const override;
};

// Starts processes by mpirun; if mpirun, srun or a shell has started them, only the first worker.
class CoordinatedMpi : public CoordinatedBackend<MpiBackend> {
 public:
  explicit CoordinatedMpi(const WorkerPoolOptions& options)
      : CoordinatedBackend(options,
                           options.place != nullptr ? spawner({options}) : mpirun_starter(options)),
        is_started_(options.place != nullptr) {}
  std::optional<std::string> not_viable() const override {
    return is_started_ ? not_viable_if_started() : MpiBackend::not_viable();
  }

 private:
  bool is_started_;
};

// Starts MPI. Throws Error(unsupported) if MPI and the environment number this process differently.
std::unique_ptr<Transport> start_mpi(const WorkerPoolOptions& options) {
  std::unique_ptr<Transport> transport = mpi_transport();
  if (transport->self() == options.process && transport->processes() == options.processes)
    return transport;
  transport->abort();
  throw Error(
      ErrorKind::unsupported,
      fmt::format(
          "MPI numbers this process {} of {}, its environment {} of {}; start the processes "
          "with mpirun or with srun --mpi=pmix",
          transport->self(), transport->processes(), options.process, options.processes));
}

std::shared_ptr<Backend> MpiBackend::with_processes(const WorkerPoolOptions& options) const {
  if (options.gpus_per_process > 1)
    throw Error(ErrorKind::bad_input,
                "--gpus-per-process needs backend nccl; processes of mpi use no GPUs");
  if (options.join.empty()) return std::make_shared<CoordinatedMpi>(options);
  return std::make_shared<WorkerBackend<MpiBackend>>(options, start_mpi(options));
}

}  // namespace

std::shared_ptr<Backend> mpi_backend() { return std::make_shared<MpiBackend>(); }

}  // namespace shardproof
