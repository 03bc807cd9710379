// The local backend: simulates all ranks in this process, with the call matcher and the clock of
// sim. It is the reference for all other backends.
#pragma once

#include "shardproof/backends/api/execution_context.h"

namespace shardproof {

class MatchObserver;  // sim/matching/call_matcher.h

// Starts a world without recorder and faults. `observer`, if not null, is called for every matched
// call and must outlive the world.
std::unique_ptr<World> local_world(const WorldOptions& options, MatchObserver* observer = nullptr);
std::shared_ptr<Backend> local_backend();

}  // namespace shardproof
