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

// The dtypes that a job has before with_wider_floats.
struct OwnDtypes {
  DType job = DType::f32;
  std::vector<DType> inputs;
};
OwnDtypes dtypes_of(const Job& job);
// Returns the job as its listings are lowered: a line cast(x, f32) reads the dtypes of the author's
// program. The contents of the inputs are not converted, so the job does not run.
Job to_lower(const Job& job, const OwnDtypes& dtypes);

}  // namespace shardproof
