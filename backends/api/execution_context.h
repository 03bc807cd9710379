// The door: everything a cohort of ranks can do to the world outside its own memory. Local
// simulation, MPI processes and NCCL/CUDA GPUs are peers behind it.
//
// A door serves one cohort (some lanes, one host program), never blocks the OS thread and never
// throws through it. The host issues work in program order on named streams; the door decides when
// it runs. Buffers exist from issue on, their contents once the work has run. A submission that is
// found wrong fails: its stream never gets past it, others do. Threading: one OS thread. Tickets
// are per world and grow with issue order; kDone is done at once.
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
  virtual StreamId stream(std::string_view name) = 0;
  // One span is one group: its calls start and end together (ncclGroupStart/End), and are moved.
  virtual Ticket submit(std::span<Call> calls, StreamId stream) = 0;
  virtual Ticket launch(Work work) = 0;
  virtual void allocate(const Allocation& allocation) = 0;
  virtual void release(const Allocation& allocation) = 0;
  // Later work of `stream` waits for the ticket.
  virtual void order(StreamId stream, Ticket ticket) = 0;
  virtual Ticket last(StreamId stream) = 0;  // of all that was issued on a stream so far
  // The host waits for the ticket on the clock too, or is going to (sync); data waiting is poll.
  virtual void host_wait(Ticket ticket) = 0;
  virtual TicketState poll(Ticket ticket) = 0;
  virtual CohortState state() = 0;
  virtual void finish() = 0;  // the listing has ended on this cohort

  // When the work of a ticket began and ended, on each lane; nothing before its end or without a
  // clock. Of simulated doors on the virtual clock; of real ones as measured, on the host for work
  // that the host does, by the device's own events for work of a device.
  virtual std::optional<TicketTimes> times(Ticket) { return std::nullopt; }
  // For bodies of Work: what was last put into a slot of each lane's window, or zeros.
  virtual void read_slot(int64_t, LocalTensor&) {}
  // Where the kernels of this cohort run and its tensors live; null: the host.
  virtual std::shared_ptr<Device> device() { return nullptr; }
  // For decorators: time passes on the host before its next item; it stops here.
  virtual void elapse(Duration) {}
  virtual void stop(CohortState) {}
};

class CostModel;  // sim/cost/cost_model.h
class Assembly;   // assembly.h
class WorkerPool;
struct WorkerPoolOptions;
struct LibraryChoice;  // library_choice.h

class World {
 public:
  virtual ~World() = default;
  virtual ExecutionContext& open(
      const Lanes& cohort) = 0;  // disjoint cohorts; valid as long as the world
  // Runs what can run. False when nothing moved: if a cohort still waits then, it can never go on.
  virtual bool progress() = 0;
  // Ranks for which a ticket has ended since the last call, ascending. Nothing when the world has
  // not kept count: then who waits polls.
  virtual std::optional<std::vector<int32_t>> take_ready_ranks() { return std::nullopt; }
  // Ends the run: what is still blocked becomes findings. Tickets may still be polled.
  virtual WorldReport close() = 0;
  virtual Assembly* assembly() { return nullptr; }  // null: all hosts run in this process
  // What ranks here came to their end without meeting: "hang(rank=3, call=9): rank 3 makes 4 calls"
  virtual std::vector<std::string> unfired_faults() const { return {}; }
};

struct WorldOptions {
  int64_t ranks = 1;
  Schedule schedule;
  std::shared_ptr<const CostModel> cost;  // null: no times
  std::vector<std::string> faults;        // "hang(rank=3, call=5)": see faulty.h
  std::shared_ptr<Device> device;         // ranks of one process compute there; null: on the host
  int64_t max_records = 1 << 20;          // ring buffer of the recorder
  bool measures = false;                  // real processes stamp what they carry out
  // Computes what each rank calls in its whole program, when a standstill is explained; null where
  // that is unknown. Its captures outlive the world's close().
  std::function<PlannedCalls()> planned = {};
};

inline constexpr std::string_view kEstimateFact = "estimate";
// Starts worlds. Refusal is known before any rank exists, with the reason as text.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;
  virtual std::optional<std::string> not_viable() const = 0;  // reason, or nullopt
  virtual std::optional<std::string> unsupported_reason(const Collective& collective) const = 0;
  // Why it takes no WorldOptions::device.
  virtual std::optional<std::string> refuses_device() const { return "it computes on the host"; }
  virtual std::unique_ptr<World> start(const WorldOptions& options) = 0;
  // What a recorded run says of the machine: "gpu", "driver", "nccl", "estimate" with what says how
  // long the library itself expects a call to take, and "matmul" (matmul_fact).
  virtual std::vector<std::pair<std::string, std::string>> environment() const { return {}; }
  // Of a backend of several processes: itself with a crew, which is started when it is needed.
  virtual std::shared_ptr<Backend> with_processes(const WorkerPoolOptions&) const {
    return nullptr;
  }
  virtual WorkerPool* pool() { return nullptr; }
  // Of a backend that opens libraries when it runs: itself with these.
  virtual std::shared_ptr<Backend> with_libraries(const LibraryChoice&) const { return nullptr; }
  // What a report of its runs has to say; empty: nothing.
  virtual std::string report_note() const { return {}; }
};

using BackendRegistry = std::vector<std::shared_ptr<Backend>>;
// `folders`: where libraries may lie beside the system's own places.
BackendRegistry builtin_backends(const std::vector<std::string>& folders = {});

}  // namespace shardproof
