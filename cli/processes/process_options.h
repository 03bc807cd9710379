// Options of runs in several processes, and the step that gives backends their processes.
#pragma once

#include <map>
#include <string>

#include "shardproof/cli/base/console.h"
#include "shardproof/cli/processes/process_role.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof {

// Options of every command that may run in several processes: --processes, --timeout, --hosts,
// --ranks-per-gpu, --gpus-per-process, --nccl-library, and those of process_role.h.
boost::program_options::options_description pool_options();
// Returns --gpus-per-process, 1 by default. Throws Error(bad_input) outside 1 .. 4096.
int gpus_per_process(const boost::program_options::variables_map& given);
// Returns `processes`. Throws Error(bad_input) outside 1 .. 4096.
int check_process_count(int processes);
// Replaces backends that load libraries by ones with --nccl-library and --matmul-precision.
void use_libraries(Registries& registries, const boost::program_options::variables_map& given);
// Returns --matmul-precision, by default the highest. Throws Error(bad_input).
MatmulPrecision matmul_precision(const boost::program_options::variables_map& given);

// The arguments of attach_processes.
struct WorkerPoolRequest {
  std::string command;
  const CommandArguments& words;  // arguments after the command
  const boost::program_options::variables_map& given;
  const ProcessRole& role;
  int64_t ranks = 1;                                // most ranks of any case
  ReductionSchedule order = {};                     // order in which reductions add
  std::optional<std::string> input = std::nullopt;  // contents of standard input, if it was read
  std::map<std::string, std::string> terms =
      {};  // options and files that must be equal in all processes
};
// Returns the backends of "local,mpi". Throws Error(bad_input) for an unknown or repeated name and
// Error(unsupported) for a backend that is not available; `viability` selects the checks.
std::vector<std::string> read_backends(const std::string& text, const Registries& registries,
                                       Availability viability);
// Returns the options that must be equal in all processes: all except those about this process and
// about its outputs.
std::map<std::string, std::string> agreed_options(
    const boost::program_options::variables_map& given);
enum class PoolRole : uint8_t {
  leads,    // this process coordinates the run, alone or with workers
  follows,  // this process is a worker
};
// Replaces the backends that `options` name by backends with worker processes, if they need some,
// and sets options.processes. If mpirun, srun or a user started the processes, waits until all have
// joined. Throws Error(bad_input) for options that the backends do not have.
PoolRole attach_processes(Registries& registries, RunOptions& options,
                          const WorkerPoolRequest& request);

}  // namespace shardproof
