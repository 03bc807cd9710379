// Implements process_role.h. A process with --join-workers is a worker that this program started.
// If options or environment variables state that another program started several processes, process
// 0 is the coordinator and the others are workers. Otherwise this process runs alone or starts its
// own workers.
#include "shardproof/cli/processes/process_role.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/process/worker_monitor.h"
#include "shardproof/backends/remote/rendezvous/rendezvous.h"
#include "shardproof/cli/base/console.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

constexpr std::chrono::seconds kJoinTimeout{120};  // enough to start processes by hand

std::optional<int> integer_variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::atoi(text);
}

std::string text_variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// Environment variables by which a launcher describes a process. `job` names the job by two
// variables. A launcher counts either the machines of the job or the processes on this machine.
enum class MachineTest : uint8_t { machines, processes_on_machine };
struct LauncherVariables {
  const char *starter, *process, *processes, *number_on_machine;
  const char* job[2];
  MachineTest machine_test;
  const char* count;
};
constexpr LauncherVariables kLauncherVariables[] = {
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     {"OMPI_MCA_ess_base_jobid", "OMPI_COMM_WORLD_SIZE"},
     MachineTest::processes_on_machine,
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     MachineTest::machines,
     "SLURM_STEP_NUM_NODES"},
    {"mpiexec",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     {"PMI_SIZE", "PMI_SIZE"},
     MachineTest::machines,
     ""},
};

struct ExternalStart {
  std::string starter, job;
  int process = 0, processes = 1;
  std::optional<int> number_on_machine;
  bool one_machine = false;
};
std::optional<ExternalStart> find_external_start() {
  for (const LauncherVariables& names : kLauncherVariables) {
    const std::optional<int> process = integer_variable(names.process);
    const std::optional<int> processes = integer_variable(names.processes);
    if (!process || !processes || *processes < 2) continue;
    ExternalStart out{
        names.starter, "", *process, *processes, integer_variable(names.number_on_machine), false};
    out.one_machine = integer_variable(names.count) ==
                      (names.machine_test == MachineTest::machines ? 1 : *processes);
    const std::string job = text_variable(names.job[0]), step = text_variable(names.job[1]);
    if (!job.empty() && !step.empty()) out.job = job + "-" + step;
    return out;
  }
  return std::nullopt;
}

// The number and meeting point of a process that another program started.
struct JoinRequest {
  int process = 0, processes = 1;
  std::optional<int> number_on_machine;
  std::string rendezvous, error_text;
};

JoinRequest request_from_options(const po::variables_map& given,
                                 const std::optional<ExternalStart>& started) {
  JoinRequest out;
  out.rendezvous = given["rendezvous"].as<std::string>();
  check_rendezvous(out.rendezvous);
  const bool numbered = given.count("process") != 0 && given.count("processes") != 0;
  if (!numbered && (!started || given.count("process") != 0))
    throw_bad_input(
        "--rendezvous needs --process I and --processes N, unless mpirun or srun started this "
        "process");
  out.process = numbered ? given["process"].as<int>() : started->process;
  out.processes = numbered ? given["processes"].as<int>() : started->processes;
  if (out.processes < 1 || out.process < 0 || out.process >= out.processes)
    throw_bad_input("--process {} of --processes {}: expected 0 to {}", out.process, out.processes,
                    out.processes - 1);
  if (!numbered) out.number_on_machine = started->number_on_machine;
  return out;
}

// Returns the request of a process that mpirun or srun has started. On one machine the name of the
// job makes a unique socket name.
JoinRequest request_from_launcher(const po::variables_map& given, const ExternalStart& started) {
  JoinRequest out{started.process, started.processes, started.number_on_machine, "", ""};
  if (given.count("processes") && given["processes"].as<int>() != started.processes)
    out.error_text = fmt::format("--processes {}, but {} started {}", given["processes"].as<int>(),
                                 started.starter, started.processes);
  if (!started.one_machine)
    out.error_text = fmt::format(
        "{} started {} processes, possibly on several machines; add --rendezvous file:PATH in a "
        "folder that all of them share, or --rendezvous tcp:HOST:PORT",
        started.starter, started.processes);
  out.rendezvous = fmt::format("unix:shardproof-{}-{}", ::getuid(), started.job);
  return out;
}

std::optional<JoinRequest> find_join_request(const po::variables_map& given, bool has_processes) {
  const std::optional<ExternalStart> started = find_external_start();
  if (!has_processes) {
    for (const char* option : {"process", "rendezvous"})
      if (given.count(option))
        throw_bad_input("--{} needs a backend of several processes, such as --backend mpi", option);
    return std::nullopt;
  }
  if (given.count("rendezvous")) return request_from_options(given, started);
  if (given.count("process"))
    throw_bad_input(
        "--process needs --rendezvous file:PATH or tcp:HOST:PORT, where the processes meet");
  if (!started || started->job.empty()) return std::nullopt;
  return request_from_launcher(given, *started);
}

bool have_processes(const std::string& names, const Registries& registries) {
  std::istringstream in(names);
  for (std::string name; std::getline(in, name, ',');)
    for (const auto& backend : registries.backends)
      if (backend->name() == name &&
          dynamic_cast<const MultiProcessBackend*>(backend.get()) != nullptr)
        return true;
  return false;
}

// --- a worker ------------------------------------------------------------------------------------

// Sends an Error to the coordinator, which prints it.
int run_worker(const ProcessRole& role, const RoleFunction& run) {
  try {
    return run(role);
  } catch (const Error& error) {
    report_unfit(role.address, role.process, error);
    return 2;
  }
}

int run_joined_worker(const JoinRequest& request, const RoleFunction& run) {
  if (!request.error_text.empty()) return 0;  // process 0 reports it
  ProcessRole role;
  role.process = request.process;
  role.processes = request.processes;
  role.number_on_machine = request.number_on_machine ? *request.number_on_machine
                                                     : number_on_this_machine(request.rendezvous);
  const MonitoredWorker kept =
      monitor_external_worker(request.rendezvous, role.process, kJoinTimeout);
  role.address = kept.address;
  role.progress = kept.progress;
  return run_worker(role, run);
}

// Prints an Error of this process, then sends the workers the end of the run.
int run_leader(const JoinRequest& request, const RoleFunction& run) {
  if (!request.error_text.empty()) throw_bad_input("{}", request.error_text);
  ProcessRole role;
  role.processes = request.processes;
  role.place = open_rendezvous(request.rendezvous);
  role.number_on_machine = request.number_on_machine ? *request.number_on_machine
                                                     : number_on_this_machine(request.rendezvous);
  role.place->await(role.processes - 1);
  const int code = run_and_report_errors([&] { return run(role); });
  if (role.place->socket() >= 0) close_unstarted(*role.place);
  return code;
}

// Returns the number of a process that this program started.
int started_process_number() {
  if (const std::optional<int> number = integer_variable(kProcessVariable)) return *number;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (const std::optional<int> number = integer_variable(name)) return *number;
  throw_bad_input("--{} is for processes that shardproof starts itself", kJoinOption);
}

int run_started(const std::string& address, const RoleFunction& run) {
  ProcessRole role;
  role.address = address;
  role.process = started_process_number();
  role.processes = integer_variable(kProcessesVariable).value_or(0);
  role.number_on_machine = integer_variable(kNumberOnMachineVariable).value_or(role.process);
  role.progress = fork_monitored_worker(address, role.process);
  return run_worker(role, run);
}

}  // namespace

po::options_description role_options() {
  po::options_description options;
  options.add_options()                         //
      ("process", po::value<int>())             //
      ("rendezvous", po::value<std::string>())  //
      (kJoinOption, po::value<std::string>());
  return options;
}

int launched_process_count() {
  const std::optional<ExternalStart> started = find_external_start();
  return started ? started->processes : 0;
}

int run_in_role(const po::variables_map& given, const std::string& names,
                const Registries& registries, const RoleFunction& run) {
  if (given.count(kJoinOption)) return run_started(given[kJoinOption].as<std::string>(), run);
  const std::optional<JoinRequest> request =
      find_join_request(given, have_processes(names, registries));
  if (!request) return run({});
  return request->process == 0 ? run_leader(*request, run) : run_joined_worker(*request, run);
}

}  // namespace shardproof
