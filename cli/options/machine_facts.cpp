// Implements machine_facts.h for Linux.
#include "shardproof/cli/options/machine_facts.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace shardproof {
namespace {

// Returns the "model name" of the first CPU in /proc/cpuinfo, or "".
std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(':');
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    if (colon != std::string::npos && start != std::string::npos) return line.substr(start);
  }
  return "";
}

// Returns the first line that a command prints, or "" if it cannot run.
std::string first_line_of(const char* command) {
  FILE* const pipe = popen(command, "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 512> chunk;
  while (std::fgets(chunk.data(), chunk.size(), pipe) != nullptr)
    if (text.empty()) text = chunk.data();
  pclose(pipe);
  text.erase(std::min(text.find('\n'), text.size()));
  return text;
}

}  // namespace

Environment read_environment(const RunOptions& options) {
  Environment facts;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) facts.emplace_back(name, value);
  };
  utsname system;
  if (uname(&system) == 0) {
    add("host", system.nodename);
    add("system", fmt::format("{} {} {}", system.sysname, system.release, system.machine));
  }
  add("cpu", cpu_model());
  add("cores", std::to_string(std::thread::hardware_concurrency()));
  add("shardproof", SHARDPROOF_VERSION);
  if (options.processes > 0)
    add("mpi", first_line_of("timeout -k 1 10 mpirun --version 2>/dev/null"));
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    for (const char* start : {"NCCL_", "CUDA_", "OMPI_MCA_", "OMP_", "NVIDIA_TF32_OVERRIDE"})
      if (text.starts_with(start)) variables.push_back(text);
  }
  std::sort(variables.begin(), variables.end());
  for (const std::string& text : variables) {
    const size_t equals = text.find('=');
    if (equals != std::string::npos)
      facts.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return facts;
}

}  // namespace shardproof
