// Executor: a resumable interpreter of SPMD programs. It holds one frame for each cohort; a frame
// is a cohort at one position of its listing. If all ranks form one cohort, one frame computes all
// ranks in lockstep; if each rank is a cohort, each has its own frame. Values, records and verdicts
// do not depend on how ranks are grouped.
//
// A frame issues its instructions in order and does not block; only `sync` and the end of the
// listing wait. A buffer exists from the moment its instruction is issued. It gets its contents
// when the execution context runs the work.
//
// Threading: one thread calls all functions.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/ops/cuda/device_kernels.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

struct ExecutorOptions {
  // Called when the contents of a value exist on some lanes. A later line may write the value in
  // place. Null: no probe.
  std::function<void(ValueId, const LocalTensor&)> made;
  const DeviceKernels* kernels = nullptr;  // for cohorts that have a device
  // Loads all device kernels before the first call. A collective that waits on the device would
  // otherwise block the loading of a kernel.
  bool loads_kernels = false;
  bool repeats = false;  // the world repeats the work: bodies can run more than once
  bool timed = false;    // computes the cost of every op
};

class Executor {
 public:
  // The arguments must outlive the executor.
  Executor(const SpmdProgram& program, const OpRegistry& ops, World& world,
           ExecutorOptions options);
  ~Executor();
  // Makes one frame for each cohort and gives it its part of the inputs, which are in the order of
  // program.inputs. Requires disjoint cohorts, each inside the lanes of one listing.
  void start(const std::vector<Lanes>& cohorts, const std::vector<LocalTensor>& inputs);
  // Advances all frames until none can continue. Returns true if every listing has ended and all
  // its work is done. `advance_functions` advances rank functions of the same world, and returns
  // true if any of them continued.
  bool run(const std::function<bool()>& advance_functions = {});
  // Returns a value at the end of the run; empty if it was released or never made.
  LocalTensor value(ValueId id) const;
  // Returns the errors of kernels that depend on data (an index out of range), with the line of the
  // program.
  const std::vector<Error>& kernel_errors() const;
  // Returns the ops that ran on the host in cohorts that have a device.
  const std::set<std::string>& host_ops() const;

 private:
  struct Shared;
  struct Frame;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<Frame*> frame_of_first_;  // by rank: the frame of which it is the first; else null
  bool advance_frames(bool all, bool functions_beside);
};

}  // namespace shardproof
