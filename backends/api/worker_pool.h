// Assembly: the processes that make up one world, as one of them sees it. Ranks' hosts run in some
// of them; one process without ranks judges: it runs the physics that match calls, knows the truth
// and writes the report. Crew: the same processes over all cases of a run, which they go through in
// step.
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

enum class ValueEvent : uint8_t { made, at_end };  // a value when it was made; at the end

// How the hosts came to their end.
struct HostResult {
  bool finished = true;
  std::vector<Error> errors;  // of kernels
  std::vector<std::string> unfired_faults;
};

class Assembly {
 public:
  virtual ~Assembly() = default;
  virtual Lanes here() const = 0;  // lanes whose hosts run in this process
  // The same by the device whose they are: a cohort has one device at most.
  virtual std::vector<Lanes> here_by_device() const { return {here()}; }
  // From hosts to the process that judges, where `reader` is called with it. Lanes' contents that
  // do not exist yet stay so.
  virtual void publish(ValueEvent kind, int64_t value, const LocalTensor& contents) = 0;
  // What the hosts here did, as they measured it: for WorldReport::measured.
  virtual void publish(const std::vector<Record>& measured) = 0;
  using Reader = std::function<void(ValueEvent, int64_t value, LocalTensor contents)>;
  virtual void read(Reader reader) = 0;
  // What all processes together came to. Every process asks, once, before the world closes.
  virtual HostResult conclude(HostResult own) = 0;
};

inline constexpr const char* kInputPath = "-";

class ListenAddress;  // remote/meeting_place.h
struct ProgressPage;  // remote/flight_page.h

struct WorkerPoolOptions {
  int processes = 0;
  double timeout_seconds = 30;  // without any progress while something is awaited
  // What each process was asked to run, by name: all of them the same.
  std::map<std::string, std::string> terms;
  std::vector<std::string> command;  // this program and the words that make it a worker
  // Of this process. The others find it in a file of the name "-": the word "-" becomes its path.
  std::optional<std::string> input;
  std::optional<std::string> host_file;  // processes on several machines
  // Somebody else has started the processes but for the first one's worker: they come here.
  std::shared_ptr<ListenAddress> place;
  std::string join;     // this process is one of them, and the coordinator is at this address
  int process = 0;      // its number among them
  int number_here = 0;  // and among those on its machine
  ProgressPage* progress = nullptr;  // where it writes down how far it has come; null: nowhere
  bool passes_on = false;            // what the processes print, to this one's standard error
  // Of the nccl backend.
  int ranks_per_gpu = 1;  // processes that share one
  int gpus_per_process = 1;
  ReductionSchedule order;  // in which it is to add
};

class Transport;  // remote/transport.h
// Hold these numbers in the environment of processes that are started without an mpirun.
inline constexpr const char* kProcessVariable = "SHARDPROOF_PROCESS";
inline constexpr const char* kProcessesVariable = "SHARDPROOF_PROCESSES";
inline constexpr const char* kNumberHereVariable = "SHARDPROOF_NUMBER_HERE";

// What a launcher also is whose ranks lie in several processes.
class MultiProcessBackend {
 public:
  virtual ~MultiProcessBackend() = default;
  // Launcher::not_viable() where somebody else has started the processes.
  virtual std::optional<std::string> not_viable_beside_others() const = 0;
};

class WorkerPool {
 public:
  virtual ~WorkerPool() = default;
  // Of the process that judges: the others go to this case, and leave it. What each of them has
  // told of it, awaited; throws Error(io) when one is lost.
  virtual void gather() = 0;  // before the first case, to know that all are here: throws Error
  virtual void begin(int64_t index) = 0;
  virtual void end() = 0;
  virtual std::vector<Repeated> told() = 0;
  // Of the others: the case to go to, nothing when there are no more; and that they are through
  // with it, with what went wrong there.
  virtual std::optional<int64_t> next() = 0;
  virtual void done(const std::string& trouble) = 0;
  virtual void tell(const Repeated& repeated) = 0;
  virtual Transport& transport() = 0;
};

}  // namespace shardproof
