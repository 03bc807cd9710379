// Fault injection on any backend: hang, die, skip, delay, corrupt, slow (sim/cost/fault.h).
//
// A rank with a fault should be a cohort of its own. In a cohort of several lanes the whole cohort
// is stopped as hung when the fault fires. The run then blocks and is repeated with one cohort for
// each rank.
#pragma once

#include <memory>
#include <vector>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/sim/cost/fault.h"

namespace shardproof {

// Returns the faults of a world. Throws Error(bad_input) for a malformed fault and for a rank that
// the world does not have.
std::vector<Fault> faults_of(const WorldOptions& options);
// Returns a world that injects the faults into `world`.
std::unique_ptr<World> faulty(std::unique_ptr<World> world, std::vector<Fault> faults);

// Returns a backend with recorder and faults. Faults wrap the recorder, so that it records what was
// really done.
std::shared_ptr<Backend> instrumented(std::shared_ptr<Backend> backend);

}  // namespace shardproof
