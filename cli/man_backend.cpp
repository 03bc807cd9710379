#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "shardproof/backends/assembly.h"
#include "shardproof/backends/remote/keeper.h"
#include "shardproof/cli/detail/crew.h"
#include "shardproof/localtensor/duration.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr int kMostByDefault = 8;
constexpr int kMost = 4096;

// Of this process among those that were started with it.
int process_number() {
  for (const char* name : {kProcessVariable, "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (const char* text = std::getenv(name)) return std::atoi(text);
  throw_bad_input("--{} is for processes that shardproof starts itself", kJoinOption);
}

// By an mpirun that is not shardproof's own, or by srun.
struct Started {
  int process = 0, processes = 1;
};
std::optional<Started> started_beside_others() {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}};
  for (const auto& [number, count] : kNames) {
    const char* process = std::getenv(number);
    const char* processes = std::getenv(count);
    if (process != nullptr && processes != nullptr)
      return Started{std::atoi(process), std::atoi(processes)};
  }
  return std::nullopt;
}

// An mpirun below another one, or below srun, takes their words for its own.
void forget_others() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    for (const char* start : {"OMPI_", "PMIX_", "ORTE_", "PMI_", "SLURM_"})
      if (text.starts_with(start)) names.push_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

std::string this_program() {
  std::error_code failed;
  const fs::path path = fs::read_symlink("/proc/self/exe", failed);
  if (failed) throw Error(ErrorKind::io, "this program's own file was not found");
  return path.string();
}

double read_timeout(const std::string& text) {
  const std::optional<Duration> time = parse_duration(text);
  if (!time || *time <= Duration{})
    throw_bad_input("--timeout: expected a time such as 30s, found \"{}\"", text);
  return to_seconds(*time);
}

void check_backend(const std::string& name, const Registries& registries) {
  NearestName nearest(name);
  for (const auto& launcher : registries.backends) {
    if (launcher->name() == name) {
      if (const auto reason = launcher->not_viable())
        throw Error(ErrorKind::unsupported, fmt::format("backend {}: {}", name, *reason));
      return;
    }
    nearest.offer(launcher->name());
  }
  throw_bad_input("unknown backend \"{}\"{}; shardproof list backends", name, nearest.hint());
}

}  // namespace

std::vector<std::string> read_backends(const std::string& text, const Registries& registries) {
  std::vector<std::string> names;
  std::istringstream in(text);
  for (std::string name; std::getline(in, name, ',');) {
    check_backend(name, registries);
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw_bad_input("--backend: {} stands there twice", name);
    names.push_back(name);
  }
  if (names.empty()) throw_bad_input("--backend: expected names such as local,mpi");
  return names;
}

po::options_description crew_options() {
  po::options_description options;
  options.add_options()                                            //
      ("processes", po::value<int>())                              //
      ("timeout", po::value<std::string>()->default_value("30s"))  //
      ("hosts", po::value<std::string>())                          //
      ("ranks-per-gpu", po::value<int>())                          //
      ("nccl-library", po::value<std::string>())                   //
      (kJoinOption, po::value<std::string>());
  return options;
}

int processes_beside() {
  const std::optional<Started> started = started_beside_others();
  return started ? started->processes : 0;
}

void use_library(Registries& registries, const po::variables_map& given) {
  if (!given.count("nccl-library")) return;
  const std::string path = given["nccl-library"].as<std::string>();
  for (std::shared_ptr<Launcher>& launcher : registries.backends)
    if (const std::shared_ptr<Launcher> over = launcher->over_library(path)) launcher = over;
}

void become_worker(const std::string& address) { keep_worker(address, process_number()); }

namespace {

CrewOptions read_crew(const CrewRequest& request) {
  const auto& given = request.given;
  CrewOptions crew;
  crew.timeout_seconds = read_timeout(given["timeout"].as<std::string>());
  const std::optional<Started> started = started_beside_others();
  crew.processes = started ? started->processes
                           : static_cast<int>(std::min<int64_t>(request.ranks, kMostByDefault));
  if (given.count("processes")) crew.processes = given["processes"].as<int>();
  if (crew.processes < 1 || crew.processes > kMost)
    throw_bad_input("--processes must be between 1 and {}", kMost);
  if (given.count("hosts")) crew.host_file = given["hosts"].as<std::string>();
  crew.order = request.order;
  if (given.count("ranks-per-gpu")) crew.ranks_per_gpu = given["ranks-per-gpu"].as<int>();
  if (crew.ranks_per_gpu < 1 || crew.ranks_per_gpu > kMost)
    throw_bad_input("--ranks-per-gpu must be between 1 and {}", kMost);
  if (given.count(kJoinOption)) {
    crew.join = given[kJoinOption].as<std::string>();
    crew.process = process_number();
    return crew;
  }
  crew.input = request.input;
  crew.command = {this_program(), request.command};
  for (const std::string& word : request.words) crew.command.push_back(word);
  crew.command.push_back(std::string("--") + kJoinOption);
  return crew;
}

}  // namespace

CrewRole man_backends(Registries& registries, RunOptions& options, const CrewRequest& request) {
  const CrewOptions crew = read_crew(request);
  bool manned = false;
  for (std::shared_ptr<Launcher>& launcher : registries.backends) {
    const auto& names = options.backends;
    if (std::find(names.begin(), names.end(), launcher->name()) == names.end()) continue;
    const std::shared_ptr<Launcher> with_crew = launcher->manned(crew);
    if (!with_crew) continue;
    launcher = with_crew;
    manned = true;
  }
  if (!manned) {
    for (const char* option : {"processes", "hosts", "ranks-per-gpu"})
      if (request.given.count(option))
        throw_bad_input("--{} is for backends of several processes; {} has none", option,
                        options.backends.front());
    return CrewRole::leads;
  }
  options.processes = crew.processes;
  if (!crew.join.empty()) return CrewRole::follows;
  const std::optional<Started> started = started_beside_others();
  if (started && started->process != 0) return CrewRole::idles;
  forget_others();
  return CrewRole::leads;
}

}  // namespace shardproof
