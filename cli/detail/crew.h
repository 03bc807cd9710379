// The processes of a run over several: how the command line asks for them, and what makes this
// process one of them.
#pragma once

#include <string>

#include "shardproof/cli/detail/command.h"
#include "shardproof/scenarios/run.h"

namespace shardproof {

inline constexpr const char* kJoinOption = "join-crew";  // not for people

// Before anything else is done in this process.
void become_worker(const std::string& address);

// Options of every command with a crew: --processes, --timeout, --hosts, --ranks-per-gpu,
// --nccl-library.
boost::program_options::options_description crew_options();
// Backends that open a library open the one that was given, if one was.
void use_library(Registries& registries, const boost::program_options::variables_map& given);

// Processes that mpirun or srun started together with this one, itself included; 0: none did.
int processes_beside();

struct CrewRequest {
  std::string command;
  const Words& words;  // behind it
  const boost::program_options::variables_map& given;
  int64_t ranks = 1;                                // the most that are needed
  ReductionSchedule order = {};                     // in which reductions add
  std::optional<std::string> input = std::nullopt;  // standard input, where it was read
};
enum class CrewRole : uint8_t {
  leads,    // or there is no crew
  follows,  // this process is one of the crew
  idles,    // another of the processes that were started beside this one does everything
};
// Puts the backends that `options` name into the registries with their processes, if they have any.
//
// Started by somebody else's mpirun or by srun, the first process starts as many of its own and the
// others have nothing to do.
CrewRole man_backends(Registries& registries, RunOptions& options, const CrewRequest& request);

}  // namespace shardproof
