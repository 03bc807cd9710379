// ProcessRole: the role of this process in a run of several processes: coordinator or worker. This
// program starts the workers itself, or mpirun, srun or a user starts several copies of it. These
// copies then meet at a rendezvous (backends/remote/rendezvous/rendezvous.h).
#pragma once

#include <boost/program_options.hpp>
#include <functional>
#include <memory>
#include <string>

#include "shardproof/engine/job/job.h"

namespace shardproof {

inline constexpr const char* kJoinOption = "join-workers";  // internal: address of the coordinator

class ListenAddress;  // backends/remote/rendezvous/listen_address.h
struct ProgressPage;  // backends/remote/process/progress_page.h

// The ability of a backend on this machine that read_backends checks.
enum class Availability : uint8_t {
  starts_all,      // starts all processes
  joins_others,    // joins processes that another program started
  checked_before,  // none: the coordinator has checked it
};

struct ProcessRole {
  int process = 0;
  int processes = 0;                     // number of processes; 0: --processes or the default
  int number_on_machine = 0;             // number of this process on its machine
  std::shared_ptr<ListenAddress> place;  // coordinator: where the workers connect
  std::string address;                   // worker: address of the coordinator
  ProgressPage* progress = nullptr;      // worker: page for its progress
  bool works() const { return !address.empty(); }  // true: a worker
  Availability viability() const {
    if (works()) return Availability::checked_before;
    return place ? Availability::joins_others : Availability::starts_all;
  }
};

// Options about the role of this process: --process, --rendezvous and kJoinOption.
boost::program_options::options_description role_options();

// Finds the role of this process, calls `run` with it and returns the exit code. `names` are the
// backends, such as "local,mpi".
//
// If another program started the processes, the first one is the coordinator. It starts one worker
// of its own and reports all errors; the other processes return 0. Requires that no thread runs and
// no device is open, because workers are forked.
using RoleFunction = std::function<int(const ProcessRole& role)>;
int run_in_role(const boost::program_options::variables_map& given, const std::string& names,
                const Registries& registries, const RoleFunction& run);

// Returns the number of processes that mpirun or srun started, including this one, or 0.
int launched_process_count();

}  // namespace shardproof
