// The conformance suite on the local backend, with every schedule.
#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/decorators/flight_recorder.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/tests/backends/conformance.h"

namespace shardproof {

std::vector<ConformanceBackend> conformance_backends() {
  const auto with = [](ScheduleKind kind, uint64_t seed) {
    return [=](WorldOptions options) {
      options.schedule = {kind, seed};
      return instrumented(local_backend())->start(options);
    };
  };
  const auto bare = [](const WorldOptions& options) {
    return recorded(local_world(options), options.max_records);
  };
  return {{"bare", bare},
          {"fifo", with(ScheduleKind::fifo, 0)},
          {"seeded", with(ScheduleKind::seeded, 7)},
          {"adversarial", with(ScheduleKind::adversarial, 0)}};
}

}  // namespace shardproof
