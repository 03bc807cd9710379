// The processes of a run over several: how the command line asks for them, and what makes this
// process one of them.
#pragma once

#include <map>
#include <string>

#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/processes/process_role.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof {

// Options of every command with a crew: --processes, --timeout, --hosts, --ranks-per-gpu,
// --gpus-per-process, --nccl-library, and those of a seat.
boost::program_options::options_description pool_options();
int gpus_per_process(const boost::program_options::variables_map& given);
int possible_processes(int processes);  // Error(bad_input) when so many cannot be
// What opens libraries opens those that were given, with the precision that was.
void use_libraries(Registries& registries, const boost::program_options::variables_map& given);
// Of --matmul-precision; the highest without one.
MatmulPrecision matmul_precision(const boost::program_options::variables_map& given);

struct WorkerPoolRequest {
  std::string command;
  const CommandArguments& words;  // behind it
  const boost::program_options::variables_map& given;
  const ProcessRole& role;
  int64_t ranks = 1;                                // the most that are needed
  ReductionSchedule order = {};                     // in which reductions add
  std::optional<std::string> input = std::nullopt;  // standard input, where it was read
  std::map<std::string, std::string> terms = {};    // in which all processes agree
};
// Of the options: all but those that only say what this process is, or where it writes.
std::map<std::string, std::string> terms_of(const boost::program_options::variables_map& given);
enum class PoolRole : uint8_t {
  leads,    // or there is no crew
  follows,  // this process is one of the crew
};
// Puts the backends that `options` name into the registries with their processes, if they have any.
// Those that somebody else has started are all there afterwards.
PoolRole attach_processes(Registries& registries, RunOptions& options,
                          const WorkerPoolRequest& request);

}  // namespace shardproof
