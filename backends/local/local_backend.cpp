// Implements local_backend.h.
#include "shardproof/backends/local/local_world.h"

namespace shardproof {
namespace {

class LocalBackend : public Backend {
 public:
  std::string name() const override { return "local"; }
  std::string summary() const override { return "all ranks simulated in this process"; }
  std::optional<std::string> not_viable() const override { return std::nullopt; }
  std::optional<std::string> unsupported_reason(const Collective&) const override {
    return std::nullopt;
  }
  std::optional<std::string> refuses_device() const override { return std::nullopt; }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    return local_world(options);
  }
};

}  // namespace

std::unique_ptr<World> local_world(const WorldOptions& options, MatchObserver* observer) {
  return std::make_unique<LocalWorld>(options, observer);
}

std::shared_ptr<Backend> local_backend() { return std::make_shared<LocalBackend>(); }

}  // namespace shardproof
