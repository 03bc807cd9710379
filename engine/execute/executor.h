// The one executor: a resumable interpreter of SPMD programs. A frame is a cohort at one place of
// one listing; lockstep (LocalTensor mode) is one frame of all ranks, per-rank execution is one
// frame each. Values, records and verdicts do not depend on how ranks are grouped.
//
// The host of a frame issues every instruction in order and never waits by itself; only `sync` and
// the end of the listing wait. Buffers exist from issue on, their contents from the moment the door
// has run the work.
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
  // Called when a value's contents exist on some lanes. The value may be written in place later.
  std::function<void(ValueId, const LocalTensor&)> made;
  const DeviceKernels* kernels = nullptr;  // for cohorts that have a device
  // All of them before the first call: one that waits for others would hold up what is loaded then.
  bool loads_kernels = false;
  bool timed = false;    // ask ops for their cost
  bool records = false;  // name works for the flight record
};

class Executor {
 public:
  // `inputs` in the order of program.inputs. Cohorts are disjoint and each lies in one listing.
  Executor(const SpmdProgram& program, const OpRegistry& ops, World& world,
           ExecutorOptions options);
  ~Executor();
  void start(const std::vector<Lanes>& cohorts, const std::vector<LocalTensor>& inputs);
  // Runs until nothing moves. True when every listing has ended and all its work is done. `beside`
  // lets other hosts of the world go on, and is true when any did.
  bool run(const std::function<bool()>& beside = {});
  // A value as the frames hold it at the end; empty when it was released.
  LocalTensor value(ValueId id) const;
  // Data-dependent trouble of a kernel (an index out of range), with the program's line.
  const std::vector<Error>& kernel_errors() const;
  // Ops that ran on the host on cohorts that have a device.
  const std::set<std::string>& host_ops() const;

 private:
  struct Shared;
  struct Frame;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Frame>> frames_;
};

}  // namespace shardproof
