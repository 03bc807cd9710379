#include "shardproof/backends/local.h"
#include "shardproof/tests/backends/conformance.h"

namespace shardproof {

std::vector<ConformanceBackend> conformance_backends() {
  const auto with = [](ScheduleKind kind, uint64_t seed) {
    return [=](WorldOptions options) {
      options.schedule = {kind, seed};
      return local_world(options);
    };
  };
  return {{"fifo", with(ScheduleKind::fifo, 0)},
          {"seeded", with(ScheduleKind::seeded, 7)},
          {"adversarial", with(ScheduleKind::adversarial, 0)}};
}

}  // namespace shardproof
