#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/process/worker_monitor.h"
#include "shardproof/backends/remote/rendezvous/rendezvous.h"
#include "shardproof/cli/processes/process_role.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

constexpr std::chrono::seconds kPatience{120};  // of processes that people may start by hand

std::optional<int> number_in(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::atoi(text);
}

std::string text_in(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// What a process that mpirun or srun started is told by its environment.
enum class Counted : uint8_t { machines, processes_here };
struct Variables {
  const char *starter, *process, *processes, *number_here;
  const char* job[2];  // together they name it
  Counted counted;
  const char* count;
};
constexpr Variables kVariables[] = {
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     {"OMPI_MCA_ess_base_jobid", "OMPI_COMM_WORLD_SIZE"},
     Counted::processes_here,
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     Counted::machines,
     "SLURM_STEP_NUM_NODES"},
    {"mpiexec",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     {"PMI_SIZE", "PMI_SIZE"},
     Counted::machines,
     ""},
};

struct Started {
  std::string starter, job;
  int process = 0, processes = 1;
  std::optional<int> number_here;
  bool one_machine = false;
};
std::optional<Started> started_beside_others() {
  for (const Variables& names : kVariables) {
    const std::optional<int> process = number_in(names.process);
    const std::optional<int> processes = number_in(names.processes);
    if (!process || !processes || *processes < 2) continue;
    Started out{names.starter, "", *process, *processes, number_in(names.number_here), false};
    out.one_machine =
        number_in(names.count) == (names.counted == Counted::machines ? 1 : *processes);
    const std::string job = text_in(names.job[0]), step = text_in(names.job[1]);
    if (!job.empty() && !step.empty()) out.job = job + "-" + step;
    return out;
  }
  return std::nullopt;
}

// Where this process is to sit beside others.
struct Invitation {
  int process = 0, processes = 1;
  std::optional<int> number_here;
  std::string rendezvous, trouble;
};

Invitation by_words(const po::variables_map& given, const std::optional<Started>& started) {
  Invitation out;
  out.rendezvous = given["rendezvous"].as<std::string>();
  check_rendezvous(out.rendezvous);
  const bool numbered = given.count("process") != 0 && given.count("processes") != 0;
  if (!numbered && (!started || given.count("process") != 0))
    throw_bad_input(
        "--rendezvous: --process I --processes N say which process this is of how many, "
        "where no mpirun or srun does");
  out.process = numbered ? given["process"].as<int>() : started->process;
  out.processes = numbered ? given["processes"].as<int>() : started->processes;
  if (out.processes < 1 || out.process < 0 || out.process >= out.processes)
    throw_bad_input("--process {} of --processes {}: expected 0 to {}", out.process, out.processes,
                    out.processes - 1);
  if (!numbered) out.number_here = started->number_here;
  return out;
}

// By mpirun or srun, on one machine, where the name of their job is enough.
Invitation by_starter(const po::variables_map& given, const Started& started) {
  Invitation out{started.process, started.processes, started.number_here, "", ""};
  if (given.count("processes") && given["processes"].as<int>() != started.processes)
    out.trouble = fmt::format("--processes {}, but {} has started {}", given["processes"].as<int>(),
                              started.starter, started.processes);
  if (!started.one_machine)
    out.trouble = fmt::format(
        "{} has started {} processes, maybe on several machines: --rendezvous file:PATH, in a "
        "folder "
        "that all of them see, or --rendezvous tcp:HOST:PORT says where they meet",
        started.starter, started.processes);
  out.rendezvous = fmt::format("unix:shardproof-{}-{}", ::getuid(), started.job);
  return out;
}

std::optional<Invitation> find_invitation(const po::variables_map& given, bool has_processes) {
  const std::optional<Started> started = started_beside_others();
  if (!has_processes) {
    for (const char* option : {"process", "rendezvous"})
      if (given.count(option)) throw_bad_input("--{} is for backends of several processes", option);
    return std::nullopt;
  }
  if (given.count("rendezvous")) return by_words(given, started);
  if (given.count("process")) throw_bad_input("--process: --rendezvous says where they meet");
  if (!started || started->job.empty()) return std::nullopt;
  return by_starter(given, *started);
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

// --- from a seat
// ----------------------------------------------------------------------------------

// What goes wrong here, the process that leads tells.
int run_worker(const ProcessRole& role, const Seated& run) {
  try {
    return run(role);
  } catch (const Error& error) {
    decline(role.address, role.process, error);
    return 2;
  }
}

int run_guest(const Invitation& invitation, const Seated& run) {
  if (!invitation.trouble.empty()) return 0;  // the first process says so
  ProcessRole role;
  role.process = invitation.process;
  role.processes = invitation.processes;
  role.number_here = invitation.number_here ? *invitation.number_here
                                            : number_on_this_machine(invitation.rendezvous);
  const MonitoredWorker kept =
      monitor_external_worker(invitation.rendezvous, role.process, kPatience);
  role.address = kept.address;
  role.progress = kept.progress;
  return run_worker(role, run);
}

// Who leads tells of its own trouble first, and then the others that it is over.
int run_leader(const Invitation& invitation, const Seated& run) {
  if (!invitation.trouble.empty()) throw_bad_input("{}", invitation.trouble);
  ProcessRole role;
  role.processes = invitation.processes;
  role.place = open_rendezvous(invitation.rendezvous);
  role.number_here = invitation.number_here ? *invitation.number_here
                                            : number_on_this_machine(invitation.rendezvous);
  role.place->await(role.processes - 1);
  const int code = run_and_report_errors([&] { return run(role); });
  if (role.place->socket() >= 0) dismiss(*role.place);
  return code;
}

// Of a process that this program started.
int own_number() {
  if (const std::optional<int> number = number_in(kProcessVariable)) return *number;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (const std::optional<int> number = number_in(name)) return *number;
  throw_bad_input("--{} is for processes that shardproof starts itself", kJoinOption);
}

int run_started(const std::string& address, const Seated& run) {
  ProcessRole role;
  role.address = address;
  role.process = own_number();
  role.processes = number_in(kProcessesVariable).value_or(0);
  role.number_here = number_in(kNumberHereVariable).value_or(role.process);
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

int processes_beside() {
  const std::optional<Started> started = started_beside_others();
  return started ? started->processes : 0;
}

int run_in_role(const po::variables_map& given, const std::string& names,
                const Registries& registries, const Seated& run) {
  if (given.count(kJoinOption)) return run_started(given[kJoinOption].as<std::string>(), run);
  const std::optional<Invitation> invitation =
      find_invitation(given, have_processes(names, registries));
  if (!invitation) return run({});
  return invitation->process == 0 ? run_leader(*invitation, run) : run_guest(*invitation, run);
}

}  // namespace shardproof
