// Helpers of tests: runs of the program in several processes that are started, killed or stopped,
// and checks that no process is left.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace shardproof {

std::string read_whole(const std::filesystem::path& path);

// Returns the processes of a run of that file that have joined MPI.
std::vector<pid_t> mpi_processes_of(const std::string& file);

// True if a process with this argument exists.
bool any_process_of(const std::string& file);

// Waits until each process has used `cpu_seconds` of CPU time, at most a minute.
void wait_for_work(const std::vector<pid_t>& processes, double cpu_seconds);

// A run of a scenario file in three worker processes, started in the background. Its files are in
// the folder of its output.
class Running {
 public:
  // `more`: further arguments.
  Running(const char* program, const char* backend, const std::string& file, const std::string& out,
          const char* timeout = "30s", const std::vector<std::string>& more = {});
  pid_t pid() const { return pid_; }
  // Returns workers and the processes that monitor them, once they exist.
  std::vector<pid_t> processes() const;
  std::vector<pid_t> wait_for_processes() const;
  // Returns only the workers.
  std::vector<pid_t> workers() const;
  // Returns the process of the command itself.
  std::vector<pid_t> helpers() const;
  // Returns the shared memory files of its processes, or nothing after a minute.
  std::set<std::string> wait_for_shared_memory() const;
  int code();  // -1: killed, -2: stuck
  std::string text() const { return read_whole(out_); }
  // Expects that soon no process of the run is left.
  bool all_have_exited() const;

 private:
  std::string file_, out_;
  pid_t pid_ = 0;
};

// Fixture: a folder of scenario files for one test.
class ScenarioFolder {
 public:
  ScenarioFolder();
  ~ScenarioFolder();
  ScenarioFolder(const ScenarioFolder&) = delete;
  ScenarioFolder& operator=(const ScenarioFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const;
  // Copies folders of the source tree, separated by spaces, without the numbers of findings that
  // their files expect. Returns the copies in the same form. There --no-causes searches no cause:
  // a file that expects a number of findings still has the search.
  std::string copy_without_counts(const std::string& folders) const;
  // Writes a scenario with more reductions than a test can wait for. They are large, because every
  // missing call costs time in the report.
  std::string endless() const;
  // Writes a short scenario, which a run repeats for longer than a test can wait.
  std::string repeated() const;

 private:
  std::filesystem::path path_;
};

// A fault of one worker in the middle of a collective.
struct WorkerFailure {
  const char* program = nullptr;
  const char* backend = nullptr;
  int signal = 0;
  const char* word = nullptr;  // in the verdict about it
  // Long enough for healthy workers on a busy machine. An exit is reported at once, a stop after
  // this time.
  const char* timeout = "30s";
  std::vector<std::string> options = {};  // more of the run
  bool in_repetitions = false;            // the failure occurs while calls are repeated
};
// Kills or stops a process in each of `runs` runs, at another moment each time. Expects a missing
// rank and no process left. Two runs execute at a time, because most of the time is spent in
// timeouts.
void fail_one_worker_in_each(const WorkerFailure& failure, int runs);

}  // namespace shardproof
