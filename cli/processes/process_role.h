// Seat: the place of this process among those of a run: it runs the ranks of a process, or leads
// those that do. Processes are started by this program, or by mpirun, srun or people, who start
// several of this program that then come together at a rendezvous
// (backends/remote/rendezvous/rendezvous.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "shardproof/cli/commands/command.h"

namespace shardproof {

inline constexpr const char* kJoinOption = "join-crew";  // not for people

class ListenAddress;  // backends/remote/rendezvous/listen_address.h
struct ProgressPage;  // backends/remote/process/progress_page.h

struct ProcessRole {
  int process = 0;
  int processes = 0;                     // that there are; 0: that is for the words to say
  int number_here = 0;                   // of this process among those on its machine
  std::shared_ptr<ListenAddress> place;  // of the first of them: where the others come
  std::string address;                   // of the process that leads: this one is a worker
  ProgressPage* progress = nullptr;      // where a worker writes down how far it has come
  bool works() const { return !address.empty(); }
  Availability viability() const {  // what is to be asked of backends from here
    if (works()) return Availability::known;
    return place ? Availability::asked_beside_others : Availability::asked;
  }
};

// Options that say where this process sits: --process, --rendezvous, and kJoinOption.
boost::program_options::options_description role_options();

// Runs a command from its seat; the exit code. `names`: the backends, "local,mpi".
//
// Of processes that somebody else started, the first one leads, runs a worker beside itself, and
// alone says what goes wrong anywhere: the others end with 0. To be called before any thread is
// started and any device is looked for, since a worker is a fork of the process that keeps it.
using Seated = std::function<int(const ProcessRole& role)>;
int run_in_role(const boost::program_options::variables_map& given, const std::string& names,
                const Registries& registries, const Seated& run);

// Processes that mpirun or srun started together with this one, itself included; 0: none did.
int processes_beside();

}  // namespace shardproof
