#include "shardproof/backends/local/local_world.h"

namespace shardproof {
namespace {

class LocalLauncher : public Launcher {
 public:
  std::string name() const override { return "local"; }
  std::string summary() const override { return "all ranks simulated in this process"; }
  std::optional<std::string> not_viable() const override { return std::nullopt; }
  std::optional<std::string> refuses(const Collective&) const override { return std::nullopt; }
  std::optional<std::string> refuses_device() const override { return std::nullopt; }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    return local_world(options);
  }
};

}  // namespace

std::unique_ptr<World> local_world(const WorldOptions& options, GateWitness* witness) {
  return std::make_unique<LocalWorld>(options, witness);
}

std::shared_ptr<Launcher> local_backend() { return std::make_shared<LocalLauncher>(); }

}  // namespace shardproof
