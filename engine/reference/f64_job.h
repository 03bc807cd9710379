// Derived jobs for the run in f64: the same job on simulated ranks, and with inputs in f64.
#pragma once

#include "shardproof/engine/job/job.h"

namespace shardproof {

// Returns the job on simulated ranks that compute on the host. It measures no time, stores no
// values, and compares every line.
Job on_simulated_ranks(const Job& job);
// Returns the job on simulated ranks with inputs in f64 and c128. The dtypes of its lines are
// changed after lowering (f64_program.h).
Job with_wider_floats(const Job& job);

}  // namespace shardproof
