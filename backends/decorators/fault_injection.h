// Injected trouble on whatever backend: hang, die, skip, delay, corrupt, slow (sim/cost/fault.h).
//
// A rank with a fault should be a cohort of its own (faulty_ranks). In a cohort of several lanes
// the whole cohort is stopped as hung when the fault fires, so that a coarse run is seen to block
// and is repeated rank by rank.
#pragma once

#include <memory>
#include <vector>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/sim/cost/fault.h"

namespace shardproof {

// The faults of a world. Throws Error(bad_input), also for a rank that the world does not have.
std::vector<Fault> faults_of(const WorldOptions& options);
std::unique_ptr<World> faulty(std::unique_ptr<World> world, std::vector<Fault> faults);

// Both decorators, as every backend is started: faults outside, so that the recorder sees what was
// done.
std::shared_ptr<Backend> instrumented(std::shared_ptr<Backend> backend);

}  // namespace shardproof
