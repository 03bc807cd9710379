#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "shardproof/backends/assembly.h"
#include "shardproof/backends/remote/keeper.h"
#include "shardproof/cli/detail/crew.h"
#include "shardproof/localtensor/duration.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

constexpr int kMostByDefault = 8;
constexpr int kMost = 4096;

// Of this process among those that were started with it.
int process_number() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (const char* text = std::getenv(name)) return std::atoi(text);
  throw_bad_input("--{} is for processes that shardproof starts itself", kJoinOption);
}

std::string this_program() {
  std::error_code failed;
  const fs::path path = fs::read_symlink("/proc/self/exe", failed);
  if (failed) throw Error(ErrorKind::io, "this program's own file was not found");
  return path.string();
}

int processes_for(const std::vector<Scenario>& scenarios) {
  int64_t ranks = 1;
  for (const Scenario& scenario : scenarios)
    for (const Case& one : scenario.cases)
      for (const Phase& phase : one.phases) ranks = std::max(ranks, phase.job.world);
  return static_cast<int>(std::min<int64_t>(ranks, kMostByDefault));
}

double read_timeout(const std::string& text) {
  const std::optional<Duration> time = parse_duration(text);
  if (!time || *time <= Duration{})
    throw_bad_input("--timeout: expected a time such as 30s, found \"{}\"", text);
  return to_seconds(*time);
}

}  // namespace

void become_worker(const std::string& address) { keep_worker(address, process_number()); }

bool man_backend(Registries& registries, RunOptions& options, const CrewRequest& request) {
  const auto& given = request.given;
  CrewOptions crew;
  crew.timeout_seconds = read_timeout(given["timeout"].as<std::string>());
  if (given.count("processes")) {
    crew.processes = given["processes"].as<int>();
    if (crew.processes < 1 || crew.processes > kMost)
      throw_bad_input("--processes must be between 1 and {}", kMost);
  } else {
    crew.processes = processes_for(request.scenarios);
  }
  if (given.count("hosts")) crew.host_file = given["hosts"].as<std::string>();
  if (given.count(kJoinOption)) crew.join = given[kJoinOption].as<std::string>();
  for (std::shared_ptr<Launcher>& launcher : registries.backends) {
    if (launcher->name() != options.backend) continue;
    if (crew.join.empty()) {
      crew.command = {this_program(), "run"};
      for (const std::string& word : request.words) crew.command.push_back(word);
      crew.command.push_back(std::string("--") + kJoinOption);
    }
    if (const auto manned = launcher->manned(crew)) launcher = manned;
    if (launcher->crew() == nullptr) break;
    options.processes = crew.processes;
    return !crew.join.empty();
  }
  for (const char* option : {"processes", "hosts"})
    if (given.count(option))
      throw_bad_input("--{} is for backends of several processes; {} has none", option,
                      options.backend);
  return false;
}

}  // namespace shardproof
