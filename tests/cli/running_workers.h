// Runs of the tool with several processes, beside this one: what they are, how one of them is hurt,
// and whether anybody is left.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace shardproof {

std::string read_whole(const std::filesystem::path& path);

// Processes of a run of that file that have joined MPI, whoever started them.
std::vector<pid_t> mpi_processes_of(const std::string& file);

// Whether a process is there that was started with it.
bool any_process_of(const std::string& file);

// Each of them has computed for so long, whatever the machine does beside them; or a minute is
// over.
void wait_for_work(const std::vector<pid_t>& processes, double cpu_seconds);

// A run of a scenario file with a crew of three, started beside this process. Its files are where
// its output goes.
class Running {
 public:
  // `more`: words behind those of every run.
  Running(const char* program, const char* backend, const std::string& file, const std::string& out,
          const char* timeout = "30s", const std::vector<std::string>& more = {});
  pid_t pid() const { return pid_; }
  // Workers and their keepers, when they are there.
  std::vector<pid_t> processes() const;
  std::vector<pid_t> wait_for_processes() const;
  // Children of keepers; what happens to a keeper does no harm.
  std::vector<pid_t> workers() const;
  // Of the command itself, beside what it starts.
  std::vector<pid_t> helpers() const;
  // Files in memory that its processes share, when they have any; nothing after a minute.
  std::set<std::string> wait_for_shared_memory() const;
  int code();  // -1: killed, -2: stuck
  std::string text() const { return read_whole(out_); }
  // Nobody of the crew is left, at once or a moment later.
  bool all_gone() const;

 private:
  std::string file_, out_;
  pid_t pid_ = 0;
};

// A folder of scenario files for one test.
class ScenarioFolder {
 public:
  ScenarioFolder();
  ~ScenarioFolder();
  ScenarioFolder(const ScenarioFolder&) = delete;
  ScenarioFolder& operator=(const ScenarioFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const;
  // Reductions without end, for as long as a test needs them: large ones, since each call that is
  // never made is looked at when the run is judged.
  std::string endless() const;

 private:
  std::filesystem::path path_;
};

// How one of the workers of a run is hurt, in mid-collective.
struct Hurt {
  const char* program = nullptr;
  const char* backend = nullptr;
  int signal = 0;
  const char* word = nullptr;  // that tells of it
  // Long enough for an honest crew on a busy machine; who ends is told at once, who stops after it.
  const char* timeout = "30s";
  std::vector<std::string> options = {};  // more of the run
};
// It is told as a missing rank, and nobody is left; at so many moments. What takes long is waiting
// for a sign of life, so that two runs go at a time.
void hurt_one_of_each(const Hurt& hurt, int runs);

}  // namespace shardproof
