// Implements mpi_backend.h in a build without MPI: the backend states the reason.
#include "shardproof/backends/mpi/mpi_backend.h"

namespace shardproof {
namespace {

constexpr const char* kReason = "built without MPI; install libopenmpi-dev and openmpi-bin";

class NoMpi : public Backend {
 public:
  std::string name() const override { return "mpi"; }
  std::string summary() const override { return "ranks in real processes over MPI"; }
  std::optional<std::string> not_viable() const override { return kReason; }
  std::optional<std::string> unsupported_reason(const Collective&) const override {
    return kReason;
  }
  std::unique_ptr<World> start(const WorldOptions&) override {
    throw Error(ErrorKind::unsupported, kReason);
  }
};

}  // namespace

std::shared_ptr<Backend> mpi_backend() { return std::make_shared<NoMpi>(); }

}  // namespace shardproof
