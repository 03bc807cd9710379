// Runs of the tool with several processes, beside this one: what they are, how one of them is hurt,
// and whether anybody is left.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shardproof {

std::string read_whole(const std::filesystem::path& path);

// A run of a scenario file with a crew of three, started beside this process. Its files are where
// its output goes.
class Running {
 public:
  Running(const char* program, const char* backend, const std::string& file,
          const std::string& out);
  pid_t pid() const { return pid_; }
  // Workers and their keepers, when they are there.
  std::vector<pid_t> processes() const;
  std::vector<pid_t> wait_for_processes() const;
  // Children of keepers; what happens to a keeper does no harm.
  std::vector<pid_t> workers() const;
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

// Hurts one of the workers of a run in mid-collective: it is told as a missing rank, and nobody is
// left.
void hurt_one(const char* program, const char* backend, int signal, uint64_t seed,
              const char* word);

}  // namespace shardproof
