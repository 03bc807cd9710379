// Running an SPMD program in a fresh world: coarse cohorts first; when that blocks or finds
// anything, again with cohorts of one, whose verdict is the one that counts.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "shardproof/engine/execute/executor.h"
#include "shardproof/engine/job/job.h"

namespace shardproof {

using ProbeFunction = std::function<void(ValueId, const LocalTensor&)>;

// What the caller looks at of the values. Where hosts run in other processes, these travel here.
struct ValueFilter {
  std::function<bool(ValueId)> made;  // handed to the probe
  std::vector<ValueId> at_end;        // asked for by ProgramRun::value
};

struct ProgramRun {
  Outcome outcome;  // findings of the physics, calls, clock, memory
  std::unique_ptr<World> world;
  std::unique_ptr<Executor> executor;
  std::map<ValueId, LocalTensor> arrived;  // at the end, from other processes

  // At the end; empty when it was released or never made.
  LocalTensor value(ValueId id) const;
};

// The parts that the ranks hold of the job's inputs, in their order.
std::vector<LocalTensor> split_inputs(const Job& job);

// `inputs`: as split_inputs gives them, where the caller runs the job more than once; null: they
// are split here. `make_probe` is called once for each attempt. Throws Error for an unknown or
// refusing backend and for data-dependent trouble of a kernel.
ProgramRun run_program(const SpmdProgram& program, const Job& job, const Registries& registries,
                       const ValueFilter& watched, const std::function<ProbeFunction()>& make_probe,
                       const std::vector<LocalTensor>* inputs = nullptr);

// Seconds first, then calls, then peak: the planner's price on a machine.
PriceFunction price_by_time(std::shared_ptr<const CostModel> cost);

}  // namespace shardproof
