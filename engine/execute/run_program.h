// Runs an SPMD program in a new world. The first run has one cohort for each listing. If it
// deadlocks or reports a finding, the program runs again with one cohort for the ranks of each
// branch, and then with one for each rank. The last run decides.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "shardproof/engine/execute/executor.h"
#include "shardproof/engine/job/job.h"

namespace shardproof {

using ProbeFunction = std::function<void(ValueId, const LocalTensor&)>;

// The values that the caller reads. If ranks run in other processes, these are sent to this one.
struct ValueFilter {
  std::function<bool(ValueId)> made;  // true for values that the probe gets
  std::vector<ValueId> at_end;        // values that ProgramRun::value() returns
};

struct ProgramRun {
  Outcome outcome;  // findings of the world (no judgement of values), calls, times, memory
  std::unique_ptr<World> world;
  std::unique_ptr<Executor> executor;
  std::map<ValueId, LocalTensor> arrived;  // values at the end that other processes have sent

  // True in a worker process: the coordinator receives all values and judges them.
  bool is_of_worker() const;
  // Returns a value at the end of the run; empty if it was released or never made.
  LocalTensor value(ValueId id) const;
};

// Returns what the ranks hold of each of the job's inputs, in the order of Job::inputs.
std::vector<LocalTensor> split_inputs(const Job& job);

// Runs the program and returns its outcome, world and values. `make_probe` is called once for each
// attempt. `inputs` is the result of split_inputs(), for callers that run a job more than once;
// null: they are split here. Throws Error(bad_input) for an unknown backend, Error(unsupported) for
// one that refuses the job, and the errors of kernels that depend on data.
ProgramRun run_program(const SpmdProgram& program, const Job& job, const Registries& registries,
                       const ValueFilter& watched, const std::function<ProbeFunction()>& make_probe,
                       const std::vector<LocalTensor>* inputs = nullptr);

}  // namespace shardproof
