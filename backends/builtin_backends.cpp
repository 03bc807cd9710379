// Implements builtin_backends (execution_context.h) and instrumented (fault_injection.h).
#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/decorators/flight_recorder.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/backends/mpi/mpi_backend.h"
#include "shardproof/backends/nccl/nccl_backend.h"

namespace shardproof {
namespace {

class Instrumented : public Backend {
 public:
  explicit Instrumented(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  std::string summary() const override { return inner_->summary(); }
  std::optional<std::string> not_viable() const override { return inner_->not_viable(); }
  std::optional<std::string> unsupported_reason(const Collective& collective) const override {
    return inner_->unsupported_reason(collective);
  }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    return inner_->environment();
  }
  std::optional<std::string> refuses_device() const override { return inner_->refuses_device(); }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    std::vector<Fault> faults = faults_of(options);
    std::unique_ptr<World> world = recorded(inner_->start(options), options.max_records);
    if (faults.empty()) return world;
    return faulty(std::move(world), std::move(faults));
  }

 private:
  std::shared_ptr<Backend> inner_;
};

}  // namespace

std::shared_ptr<Backend> instrumented(std::shared_ptr<Backend> backend) {
  return std::make_shared<Instrumented>(std::move(backend));
}

BackendRegistry builtin_backends(const std::vector<std::string>& folders) {
  NcclDependencies nccl;
  nccl.cuda = runtime_cuda_api(folders);
  nccl.places.folders = folders;
  return {instrumented(local_backend()), mpi_backend(), nccl_backend(nccl)};
}

}  // namespace shardproof
