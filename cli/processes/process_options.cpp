// Implements process_options.h. Steps of attach_processes: read the options of processes; replace
// each chosen backend by one with these processes; refuse options that no backend uses; wait for
// processes that another program started.
#include "shardproof/cli/processes/process_options.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "shardproof/backends/api/library_choice.h"
#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr int kDefaultProcesses = 8;
constexpr int kMaxProcesses = 4096;

// Removes the variables of a launcher (mpirun, srun) from the environment. An mpirun that this
// process starts would read them as its own. Does nothing if no launcher started this process, so
// that variables that a user sets for MPI stay.
void remove_launcher_variables() {
  constexpr const char* kLauncherVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE",
                                                "PMI_SIZE", "SLURM_JOB_ID"};
  if (std::none_of(std::begin(kLauncherVariables), std::end(kLauncherVariables),
                   [](const char* name) { return std::getenv(name) != nullptr; }))
    return;
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    for (const char* start : {"OMPI_", "PMIX_", "ORTE_", "PMI_", "SLURM_"})
      if (text.starts_with(start)) names.push_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

// Returns the path of this program. If it is unknown, starting a process will report it.
std::string this_program() {
  constexpr const char* kLink = "/proc/self/exe";
  std::error_code failed;
  const fs::path path = fs::read_symlink(kLink, failed);
  return failed ? kLink : path.string();
}

double read_timeout(const std::string& text) {
  const std::optional<Duration> time = parse_duration(text);
  if (!time || *time <= Duration{})
    throw_bad_input("--timeout: expected a time such as 30s, found \"{}\"", text);
  return to_seconds(*time);
}

std::optional<std::string> unavailable_reason(const Backend& backend, Availability viability) {
  if (viability == Availability::checked_before) return std::nullopt;
  const auto* const processes = dynamic_cast<const MultiProcessBackend*>(&backend);
  if (viability == Availability::joins_others && processes != nullptr)
    return processes->not_viable_if_started();
  return backend.not_viable();
}

void check_backend(const std::string& name, const Registries& registries, Availability viability) {
  NearestName nearest(name);
  for (const auto& backend : registries.backends) {
    if (backend->name() == name) {
      if (const auto reason = unavailable_reason(*backend, viability))
        throw Error(ErrorKind::unsupported, fmt::format("backend {}: {}", name, *reason));
      return;
    }
    nearest.offer(backend->name());
  }
  throw_bad_input("unknown backend \"{}\"{}", name,
                  nearest.best().empty() ? "; shardproof list backends lists all" : nearest.hint());
}

}  // namespace

std::vector<std::string> read_backends(const std::string& text, const Registries& registries,
                                       Availability viability) {
  std::vector<std::string> names;
  std::istringstream in(text);
  for (std::string name; std::getline(in, name, ',');) {
    check_backend(name, registries, viability);
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw_bad_input("--backend: {} is listed twice", name);
    names.push_back(name);
  }
  if (names.empty()) throw_bad_input("--backend: expected names such as local,mpi");
  return names;
}

po::options_description pool_options() {
  po::options_description options;
  options.add(role_options());
  options.add_options()                                            //
      ("processes", po::value<int>())                              //
      ("timeout", po::value<std::string>()->default_value("30s"))  //
      ("hosts", po::value<std::string>())                          //
      ("ranks-per-gpu", po::value<int>())                          //
      ("gpus-per-process,g", po::value<int>())                     //
      ("nccl-library", po::value<std::string>());
  return options;
}

int gpus_per_process(const po::variables_map& given) {
  if (!given.count("gpus-per-process")) return 1;
  const int gpus = given["gpus-per-process"].as<int>();
  if (gpus < 1 || gpus > kMaxProcesses)
    throw_bad_input("--gpus-per-process: expected 1 to {}, found {}", kMaxProcesses, gpus);
  return gpus;
}

int check_process_count(int processes) {
  if (processes < 1 || processes > kMaxProcesses)
    throw_bad_input("--processes: expected 1 to {}, found {}", kMaxProcesses, processes);
  return processes;
}

MatmulPrecision matmul_precision(const po::variables_map& given) {
  if (!given.count("matmul-precision")) return MatmulPrecision::highest;
  const std::string text = given["matmul-precision"].as<std::string>();
  if (text == "highest") return MatmulPrecision::highest;
  if (text == "high") return MatmulPrecision::high;
  throw_bad_input("--matmul-precision: expected highest or high, found \"{}\"", text);
}

void use_libraries(Registries& registries, const po::variables_map& given) {
  LibraryChoice choice;
  if (given.count("nccl-library")) choice.nccl = given["nccl-library"].as<std::string>();
  choice.matmul = registries.cuda.matmul = matmul_precision(given);
  for (std::shared_ptr<Backend>& backend : registries.backends)
    if (const std::shared_ptr<Backend> with_libraries = backend->with_libraries(choice))
      backend = with_libraries;
}

namespace {

std::string text_of(const boost::any& value) {
  if (const auto* text = boost::any_cast<std::string>(&value)) return *text;
  if (const auto* words = boost::any_cast<CommandArguments>(&value))
    return fmt::format("{}", fmt::join(*words, " "));
  if (const auto* number = boost::any_cast<int>(&value)) return std::to_string(*number);
  if (const auto* number = boost::any_cast<int64_t>(&value)) return std::to_string(*number);
  if (const auto* flag = boost::any_cast<bool>(&value)) return *flag ? "yes" : "no";
  SP_UNREACHABLE("an option has an unknown type");
}

// Refuses more processes than the largest case has ranks. Workers check nothing: the coordinator
// refuses.
void check_surplus(const WorkerPoolRequest& request, int processes) {
  if (request.role.works() || processes <= request.ranks) return;
  const auto most = static_cast<int>(request.ranks);
  const std::string who = request.role.processes > 0 && !request.given.count("processes")
                              ? fmt::format("{} processes were started", processes)
                              : fmt::format("--processes {}", processes);
  throw_bad_input(
      "{}: expected at most {}, the number of ranks; a process without ranks has no "
      "work; {}",
      who, most,
      request.role.place ? fmt::format("start {}", most)
                         : fmt::format("write --processes {}", most));
}

// Returns the number of processes: given, or by default one for each rank (GPU), at most 8.
int read_processes(const WorkerPoolRequest& request, int gpus_each) {
  const auto& given = request.given;
  if (request.role.processes > 0) return request.role.processes;
  if (given.count("processes")) return given["processes"].as<int>();
  const int seats = static_cast<int>(std::min<int64_t>(request.ranks, kDefaultProcesses));
  return (seats + gpus_each - 1) / gpus_each;
}

void read_gpus(WorkerPoolOptions& pool, const po::variables_map& given) {
  if (given.count("ranks-per-gpu")) pool.ranks_per_gpu = given["ranks-per-gpu"].as<int>();
  if (pool.ranks_per_gpu < 1 || pool.ranks_per_gpu > kMaxProcesses)
    throw_bad_input("--ranks-per-gpu: expected 1 to {}, found {}", kMaxProcesses,
                    pool.ranks_per_gpu);
  pool.gpus_per_process = gpus_per_process(given);
  if (pool.gpus_per_process > 1 && pool.ranks_per_gpu > 1)
    throw_bad_input(
        "--gpus-per-process {} and --ranks-per-gpu {}: expected 1 for one of them, because "
        "processes "
        "either have several GPUs or share one",
        pool.gpus_per_process, pool.ranks_per_gpu);
}

WorkerPoolOptions read_pool_options(const WorkerPoolRequest& request) {
  const auto& given = request.given;
  WorkerPoolOptions pool;
  pool.timeout_seconds = read_timeout(given["timeout"].as<std::string>());
  read_gpus(pool, given);
  pool.processes = check_process_count(read_processes(request, pool.gpus_per_process));
  check_surplus(request, pool.processes);
  if (given.count("hosts")) pool.host_file = given["hosts"].as<std::string>();
  pool.order = request.order;
  pool.terms = request.terms;
  pool.place = request.role.place;
  if (pool.place && pool.host_file)
    throw_bad_input("--hosts: the processes of this run were started by mpirun, srun or a user");
  if (pool.place && request.input)
    throw_bad_input("run -: only the first process has the standard input; name a file instead");
  if (pool.host_file && request.input)
    throw_bad_input(
        "run -: processes on other machines cannot read standard input; name a file instead");
  pool.join = request.role.address;
  pool.process = request.role.process;
  pool.number_on_machine = request.role.number_on_machine;
  pool.progress = request.role.progress;
  if (request.role.works()) return pool;
  pool.input = request.input;
  pool.passes_on = std::getenv("NCCL_DEBUG") != nullptr;
  pool.command = {this_program(), request.command};
  for (const std::string& word : request.words) pool.command.push_back(word);
  pool.command.push_back(std::string("--") + kJoinOption);
  return pool;
}

}  // namespace

std::map<std::string, std::string> agreed_options(const po::variables_map& given) {
  constexpr const char* kOwn[] = {"path",     "process",   "processes",    "rendezvous",  "hosts",
                                  "json",     "junit",     "sarif",        "html",        "jobs",
                                  "annotate", "fail-fast", "quiet",        "junit-times", "watch",
                                  "accept",   "record",    "nccl-library", kJoinOption};
  std::map<std::string, std::string> terms;
  for (const auto& [name, value] : given)
    if (std::find(std::begin(kOwn), std::end(kOwn), name) == std::end(kOwn))
      terms["--" + name] = text_of(value.value());
  return terms;
}

PoolRole attach_processes(Registries& registries, RunOptions& options,
                          const WorkerPoolRequest& request) {
  const WorkerPoolOptions pool = read_pool_options(request);
  bool with_processes = false;
  for (std::shared_ptr<Backend>& backend : registries.backends) {
    const auto& names = options.backends;
    if (std::find(names.begin(), names.end(), backend->name()) == names.end()) continue;
    const std::shared_ptr<Backend> with_pool = backend->with_processes(pool);
    if (!with_pool) continue;
    if (with_processes && pool.place)
      throw_bad_input(
          "--backend {}: expected one backend of processes, because they were started by mpirun, "
          "srun or a user",
          fmt::join(names, ","));
    backend = with_pool;
    with_processes = true;
  }
  if (!with_processes) {
    for (const char* option : {"processes", "hosts", "ranks-per-gpu", "gpus-per-process"})
      // `-g 1` is allowed everywhere, because command lines of nccl-tests contain it.
      if (request.given.count(option) &&
          (std::string_view(option) != "gpus-per-process" || gpus_per_process(request.given) > 1))
        throw_bad_input(
            "--{} needs a backend of several processes, such as --backend mpi; {} has none", option,
            options.backends.front());
    return PoolRole::leads;
  }
  options.processes = pool.processes;
  if (request.role.works()) return PoolRole::follows;
  if (!pool.place) remove_launcher_variables();
  for (const std::shared_ptr<Backend>& backend : registries.backends)
    if (pool.place && backend->pool() != nullptr) backend->pool()->gather();
  return PoolRole::leads;
}

}  // namespace shardproof
