// The local backend: all ranks simulated in this process by the physics of sim. The reference every
// other backend is compared with.
#pragma once

#include "shardproof/backends/api/execution_context.h"

namespace shardproof {

class MatchObserver;  // sim/matching/call_matcher.h

// Bare: without recorder and faults, which decorate any backend. A witness is told what the gate
// lets through.
std::unique_ptr<World> local_world(const WorldOptions& options, MatchObserver* observer = nullptr);
std::shared_ptr<Backend> local_backend();

}  // namespace shardproof
