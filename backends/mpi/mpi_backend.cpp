#include "shardproof/backends/mpi/mpi_backend.h"
#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/mpi/mpi_transport.h"
#include "shardproof/backends/mpi/mpirun.h"
#include "shardproof/backends/remote/process/process_spawner.h"
#include "shardproof/backends/remote/worker/worker.h"

namespace shardproof {
namespace {

class MpiBackend : public Backend, public MultiProcessBackend {
 public:
  std::string name() const override { return "mpi"; }
  std::string summary() const override { return "ranks in real processes over MPI"; }
  std::optional<std::string> not_viable() const override { return no_mpirun(); }
  std::optional<std::string> not_viable_beside_others() const override { return std::nullopt; }
  std::optional<std::string> unsupported_reason(const Collective&) const override {
    return std::nullopt;
  }
  std::unique_ptr<World> start(const WorldOptions&) override {
    throw Error(ErrorKind::unsupported, "the mpi backend runs nothing before it has processes");
  }
  std::shared_ptr<Backend> with_processes(const WorkerPoolOptions& options) const override;
};

// With processes that this one coordinates.
class MpiCoordination : public MpiBackend {
 public:
  explicit MpiCoordination(const WorkerPoolOptions& options)
      : beside_others_(options.place != nullptr),
        coordinator_(options, beside_others_ ? spawner({options}) : mpirun_starter(options)) {}
  std::optional<std::string> not_viable() const override {
    return beside_others_ ? not_viable_beside_others() : MpiBackend::not_viable();
  }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    faults_of(options);  // refused before anybody starts
    return coordinator_.start(options);
  }
  WorkerPool* pool() override { return &coordinator_; }

 private:
  bool beside_others_;
  Coordinator coordinator_;
};

// Who started this process has to tell MPI the same.
std::unique_ptr<Transport> transport_of(const WorkerPoolOptions& options) {
  std::unique_ptr<Transport> transport = mpi_transport();
  if (transport->self() == options.process && transport->processes() == options.processes)
    return transport;
  transport->abort();
  throw Error(
      ErrorKind::unsupported,
      fmt::format("MPI takes this process for {} of {}, and it is {} of {}: processes are "
                  "started by mpirun, or by srun --mpi=pmix",
                  transport->self(), transport->processes(), options.process, options.processes));
}

class MpiWorker : public MpiBackend {
 public:
  explicit MpiWorker(const WorkerPoolOptions& options) : link_(options, transport_of(options)) {}
  std::optional<std::string> not_viable() const override { return std::nullopt; }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    return worker_world(link_, options);
  }
  WorkerPool* pool() override { return &link_; }

 private:
  WorkerLink link_;
};

std::shared_ptr<Backend> MpiBackend::with_processes(const WorkerPoolOptions& options) const {
  if (options.gpus_per_process > 1)
    throw Error(ErrorKind::bad_input,
                "--gpus-per-process is of the nccl backend; processes of mpi have no GPUs");
  if (options.join.empty()) return std::make_shared<MpiCoordination>(options);
  return std::make_shared<MpiWorker>(options);
}

}  // namespace

std::shared_ptr<Backend> mpi_backend() { return std::make_shared<MpiBackend>(); }

}  // namespace shardproof
