// ExecutionContext: the streams, calls and work of one cohort. The host of the cohort does
// everything outside its own memory through it. Backend: starts worlds. Backends are the local
// simulation, MPI processes, and GPUs with NCCL.
//
// A context belongs to one cohort: some lanes that run one host program. The host issues work in
// program order on named streams; the context decides when it runs. Buffers exist from issue on,
// their contents once the work has run. A submission that is found wrong fails: its stream never
// continues after it, other streams continue.
//
// Threading: one thread for a world and its contexts. No function blocks the thread, and none
// throws because of the program. Tickets count up in order of issue within a world; kDone is always
// done. The world owns its contexts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardproof/backends/api/world_report.h"
#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/planned_calls.h"
#include "shardproof/sim/call/call.h"
#include "shardproof/sim/call/schedule.h"
#include "shardproof/sim/call/ticket_times.h"

namespace shardproof {

class Device;  // cuda/device.h

class ExecutionContext {
 public:
  virtual ~ExecutionContext() = default;
  // Returns the stream of this name; makes it on first use.
  virtual StreamId stream(std::string_view name) = 0;
  // Submits one group: its calls start and end together (ncclGroupStart/End). Moves from `calls`.
  virtual Ticket submit(std::span<Call> calls, StreamId stream) = 0;
  // Submits local work. Its body runs during this call if the stream is idle and the schedule is
  // fifo.
  virtual Ticket launch(Work work) = 0;
  // Count memory; `bytes` is for each lane.
  virtual void allocate(const Allocation& allocation) = 0;
  virtual void release(const Allocation& allocation) = 0;
  // Makes later work of `stream` wait for the ticket.
  virtual void order(StreamId stream, Ticket ticket) = 0;
  virtual Ticket last(StreamId stream) = 0;  // the last ticket issued on a stream
  // Records that the host waits for the ticket, now or soon: its clock moves to the ticket's end.
  // Does not block: the caller polls.
  virtual void host_wait(Ticket ticket) = 0;
  virtual TicketState poll(Ticket ticket) = 0;
  virtual CohortState state() = 0;
  virtual void finish() = 0;  // the host has reached the end of its program

  // Returns start and end of a ticket's work on each lane; nullopt before its end or without a
  // clock. A simulation gives virtual time. Real processes give measured time: the host's clock for
  // work of the host, device events for work of a device.
  virtual std::optional<TicketTimes> times(Ticket) { return std::nullopt; }
  // For bodies of Work: reads the bytes last put into a slot of each lane's window, or zeros.
  virtual void read_slot(int64_t, LocalTensor&) {}
  // Returns the device of this cohort's kernels and tensors; null: the host.
  virtual std::shared_ptr<Device> device() { return nullptr; }
  // Both are for WorldOptions::repeats. `provide` names a tensor that has contents although no work
  // has written it, before anything reads it. `discard` names a tensor that nothing issued later
  // reads.
  virtual void provide(const LocalTensor&) {}
  virtual void discard(const LocalTensor&) {}
  // For decorators: lets time pass on the host before its next item; stops the host.
  virtual void elapse(Duration) {}
  virtual void stop(CohortState) {}
};

class CostModel;       // sim/cost/cost_model.h
class WorldProcesses;  // worker_pool.h
class WorkerPool;
struct WorkerPoolOptions;
struct LibraryChoice;  // library_choice.h

class World {
 public:
  virtual ~World() = default;
  // Opens the context of a cohort. Cohorts are disjoint. Valid as long as the world.
  virtual ExecutionContext& open(const Lanes& cohort) = 0;
  // Runs all items that can run. Returns false if nothing could: a cohort that still waits then is
  // blocked forever.
  virtual bool progress() = 0;
  // Returns the ranks for which a ticket has ended since the last call, ascending. Nullopt if the
  // world does not record them: the caller then polls every rank.
  virtual std::optional<std::vector<int32_t>> collect_ready_ranks() { return std::nullopt; }
  // Ends the world. Calls that are still blocked become findings. Tickets may still be polled.
  virtual WorldReport close() = 0;
  virtual WorldProcesses* processes() { return nullptr; }  // null: all hosts run in this process
  // Returns the records of the ranks here, with measured times; empty without a recorder.
  virtual std::vector<Record> measured_records() const { return {}; }
  // Returns faults that did not happen although their ranks have ended: "hang(rank=3, call=9): rank
  // 3 makes 4 calls".
  virtual std::vector<std::string> unfired_faults() const { return {}; }
};

struct WorldOptions {
  int64_t ranks = 1;
  Schedule schedule;
  std::shared_ptr<const CostModel> cost;  // null: no clock
  std::vector<std::string> faults;        // "hang(rank=3, call=5)": see fault_injection.h
  std::shared_ptr<Device> device;         // for all ranks of this process; null: the host
  int64_t max_records = 1 << 20;          // capacity of the recorder's ring buffer
  bool measures = false;                  // real processes measure the work that they do
  bool repeats = false;                   // WorldProcesses::repeat will be called
  // Computes the calls of each rank's whole program, to explain blocked ranks; null: unknown. Its
  // captures must outlive World::close().
  std::function<PlannedCalls()> planned = {};
};

inline constexpr std::string_view kEstimateFact = "estimate";
// A backend. It states before any rank exists why it cannot run.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;
  virtual std::optional<std::string> not_viable() const = 0;  // reason; nullopt: it can run
  // Returns why it cannot run this collective; nullopt: it can.
  virtual std::optional<std::string> unsupported_reason(const Collective& collective) const = 0;
  // Returns why it supports no WorldOptions::device; nullopt: it does.
  virtual std::optional<std::string> refuses_device() const { return "it computes on the host"; }
  // Starts a world. Throws Error(bad_input) for bad faults, Error(unsupported) if it cannot run,
  // Error(io) if processes are lost.
  virtual std::unique_ptr<World> start(const WorldOptions& options) = 0;
  // Returns facts of the machine for a recorded run: "gpu", "driver", "nccl", "matmul"
  // (matmul_fact), "estimate". The last one names the function by which the library predicts times.
  virtual std::vector<std::pair<std::string, std::string>> environment() const { return {}; }
  // Returns this backend with processes, which are started on first use; null if it needs none.
  virtual std::shared_ptr<Backend> with_processes(const WorkerPoolOptions&) const {
    return nullptr;
  }
  virtual WorkerPool* pool() { return nullptr; }
  // Returns this backend with these libraries; null if it opens none.
  virtual std::shared_ptr<Backend> with_libraries(const LibraryChoice&) const { return nullptr; }
  // Returns a remark for reports of its runs; empty: none.
  virtual std::string report_note() const { return {}; }
};

using BackendRegistry = std::vector<std::shared_ptr<Backend>>;
// `folders`: where to look for libraries in addition to the system's places.
BackendRegistry builtin_backends(const std::vector<std::string>& folders = {});

}  // namespace shardproof
