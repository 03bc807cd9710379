// Implements f64_job.h: copies the job, resets what a run in f64 does not use, converts inputs.
#include "shardproof/engine/reference/f64_job.h"

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/ops/core/widen_op_call.h"

namespace shardproof {

Job on_simulated_ranks(const Job& job) {
  Job simulated = job;
  simulated.backend = "local";
  simulated.device = nullptr;
  simulated.cost = nullptr;
  simulated.order = {};
  simulated.keep.clear();
  simulated.records_values = false;
  simulated.compared = CompareScope::lines;
  simulated.timing = {};
  simulated.precision_limits.clear();
  return simulated;
}

Job with_wider_floats(const Job& job) {
  Job wide = on_simulated_ranks(job);
  for (JobInput& input : wide.inputs) {
    const DType dtype = wider(input.spec.dtype());
    if (dtype == input.spec.dtype()) continue;
    input.data = as_dtype(input.data, dtype);
    input.spec = input.spec.with_dtype(dtype);
  }
  wide.dtype = wider(job.dtype);
  return wide;
}

OwnDtypes dtypes_of(const Job& job) {
  OwnDtypes dtypes;
  dtypes.job = job.dtype;
  for (const JobInput& input : job.inputs) dtypes.inputs.push_back(input.spec.dtype());
  return dtypes;
}

Job to_lower(const Job& job, const OwnDtypes& dtypes) {
  Job own = job;
  own.dtype = dtypes.job;
  for (size_t i = 0; i < own.inputs.size(); ++i)
    own.inputs[i].spec = own.inputs[i].spec.with_dtype(dtypes.inputs.at(i));
  return own;
}

}  // namespace shardproof
