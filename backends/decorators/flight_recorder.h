// The flight recorder: records every call and every named work of all cohorts in a ring buffer, on
// any backend. Records do not depend on how ranks are grouped into cohorts: ranks whose calls are
// equal in everything share a record. For a mismatch it adds the first call in which its ranks
// differ.
#pragma once

#include <memory>

#include "shardproof/backends/api/execution_context.h"

namespace shardproof {

// Returns `world` with a recorder that keeps the newest `max_records` calls and works of cohorts.
// If hosts run in several processes, the coordinator's recorder states the calls of all of them.
// World::measured_records() returns the records that a worker keeps.
std::unique_ptr<World> recorded(std::unique_ptr<World> world, int64_t max_records);

}  // namespace shardproof
