// WorkerPool: the processes of a run over all its cases. WorldProcesses: the same processes within
// one world, seen from one of them.
//
// The hosts of ranks run in worker processes. One process without ranks, the coordinator, matches
// their calls, compares values with the reference and writes the report. All processes run the
// cases of a run together, one after another. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/backends/api/benchmark.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/localtensor/report/call_record.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

enum class ValueEvent : uint8_t { made, at_end };  // a value when it was made; at the program's end

// The result of the hosts of one process, or of all.
struct HostResult {
  bool finished = true;
  std::vector<Error> errors;  // thrown by kernels
  std::vector<std::string> unfired_faults;
};

// Repetitions of the sequence of calls and works that a process has made in a world.
struct Repetitions {
  // each: before each iteration all processes meet in a barrier, and inputs that the sequence
  // overwrites are restored; both are not timed. graph: the same, and each iteration is one CUDA
  // graph; only whole iterations have times. back_to_back: both happen once, before the first
  // iteration that is timed.
  enum class Mode : uint8_t { each, graph, back_to_back };
  int warmup = 0, iterations = 1;
  Mode mode = Mode::each;
  // In workers, mode `graph`: the reason why a graph cannot hold an iteration, if the caller has
  // one. Empty: the worker searches for reasons itself.
  std::string not_captured = {};
  // In workers, mode `each`: called for each counted iteration, in order, after the last one or
  // between two. The contexts then return the times of that iteration. Null: not called.
  std::function<void()> measured = {};
  // In workers: called after one more iteration, whose results lie in their buffers. Returns the
  // number of wrong elements. Null: there is no such iteration.
  std::function<int64_t()> count_wrong = {};
};

// The kind of the record of a whole iteration that ran as one CUDA graph.
inline constexpr const char* kGraphRecord = "cuda_graph";

class WorldProcesses {
 public:
  virtual ~WorldProcesses() = default;
  // True in the process to which all others send their values and records.
  virtual bool is_coordinator() const = 0;
  virtual Lanes local_ranks() const = 0;  // ranks whose hosts run in this process
  // Returns the same ranks by device: the lanes of a cohort lie on one device at most.
  virtual std::vector<Lanes> local_ranks_by_device() const { return {local_ranks()}; }
  // Sends a value from hosts to the coordinator, where `reader` receives it. Lanes without contents
  // are received without.
  virtual void publish(ValueEvent kind, int64_t value, const LocalTensor& contents) = 0;
  // Sends measured records of the hosts here, for WorldReport::measured.
  virtual void publish(const std::vector<Record>& measured) = 0;
  using Reader = std::function<void(ValueEvent, int64_t value, LocalTensor contents)>;
  virtual void read(Reader reader) = 0;
  // Returns the combined result of all processes. Every process calls it once, before World::close.
  virtual HostResult conclude(HostResult own) = 0;
  // Repeats the work and the calls of a world with WorldOptions::repeats. Each process repeats its
  // own in the order in which it carried them out; the coordinator does not take part. Every
  // process calls it between conclude() and World::close(). Returns the results of all processes;
  // in a worker its own. If a process is lost, returns nothing, and World::close() reports it.
  virtual std::vector<BenchmarkResult> repeat(const Repetitions& repetitions) = 0;
};

inline constexpr const char* kInputPath =
    "-";  // placeholder of the input file in WorkerPoolOptions::command

class ListenAddress;  // remote/rendezvous/listen_address.h
struct ProgressPage;  // remote/process/progress_page.h

struct WorkerPoolOptions {
  int processes = 0;
  double timeout_seconds = 30;  // without any progress while something is waited for
  // Names and values of what is run: scenario and options. Must be equal in all processes.
  std::map<std::string, std::string> terms;
  std::vector<std::string> command;  // program and arguments that start a worker
  // Standard input of this process. Workers read it from a file, whose path replaces "-".
  std::optional<std::string> input;
  std::optional<std::string> host_file;  // hosts of mpirun, if processes run on several machines
  // Set if mpirun, srun or a shell has started all processes but the first worker: where they
  // connect.
  std::shared_ptr<ListenAddress> place;
  std::string join;                  // set in a worker: address of the coordinator
  int process = 0;                   // number of this worker
  int number_on_machine = 0;         // its number among the workers of its machine
  ProgressPage* progress = nullptr;  // the worker writes its progress there; null: nowhere
  bool passes_on = false;            // copies the output of workers to standard error
  // Options of the nccl backend.
  int ranks_per_gpu = 1;  // processes that share a GPU
  int gpus_per_process = 1;
  ReductionSchedule order;  // order of additions that NCCL is set to
};

// Environment variables with these numbers, set for processes that are started without mpirun.
inline constexpr const char* kProcessVariable = "SHARDPROOF_PROCESS";
inline constexpr const char* kProcessesVariable = "SHARDPROOF_PROCESSES";
inline constexpr const char* kNumberOnMachineVariable = "SHARDPROOF_NUMBER_ON_MACHINE";

// A backend whose ranks run in several processes.
class MultiProcessBackend {
 public:
  virtual ~MultiProcessBackend() = default;
  // Returns not_viable() for a run whose processes mpirun, srun or a shell has started.
  virtual std::optional<std::string> not_viable_if_started() const = 0;
};

class WorkerPool {
 public:
  virtual ~WorkerPool() = default;
  // Functions of the coordinator. `gather` waits until all workers have connected; without it the
  // first `begin` does. `begin` starts a case in all workers; `end` ends it. All throw Error(io) if
  // a worker is lost.
  virtual void gather() = 0;
  virtual void begin(int64_t index) = 0;
  virtual void end() = 0;
  // Functions of a worker. `next` waits for the next case; nullopt: the run is over. `done` reports
  // the end of a case, with an error text if there is one.
  virtual std::optional<int64_t> next() = 0;
  virtual void done(const std::string& error) = 0;
};

}  // namespace shardproof
