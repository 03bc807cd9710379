// Functions that the benchmarks share: processor time, medians of interleaved repetitions, and a
// table of results. Each result has its ratio to a baseline of the same run.
#pragma once

#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/error.h"

extern char** environ;

namespace shardproof::bench {

// Returns the processor time, user and system, because other processes may share the machine.
// RUSAGE_CHILDREN counts children that have ended.
inline double processor_seconds(int who = RUSAGE_SELF) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

inline double seconds_of(const std::function<void()>& work, int who = RUSAGE_SELF) {
  const double start = processor_seconds(who);
  work();
  return processor_seconds(who) - start;
}

inline int64_t peak_bytes(int who = RUSAGE_SELF) {
  rusage usage{};
  getrusage(who, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

// Runs a program to its end without its output, and returns its peak memory in bytes. Its time
// counts for RUSAGE_CHILDREN.
inline int64_t run_child(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1 /* O_WRONLY */, 0);
  pid_t child = 0;
  SP_CHECK(posix_spawn(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environ) == 0,
           "cannot start {}", words[0]);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  SP_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "{} failed", words[0]);
  return int64_t{1024} * usage.ru_maxrss;
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Contender {
  std::function<void()> work;
  int times = 1;  // repetitions in one measurement
  int who = RUSAGE_SELF;
};

// Returns the median seconds of each contender. They are measured in turn, so that a slow phase of
// the machine affects all of them.
inline std::vector<double> race(const std::vector<Contender>& contenders, int rounds = 11) {
  std::vector<std::vector<double>> seconds(contenders.size());
  for (const Contender& c : contenders) c.work();
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < contenders.size(); ++i) {
      const Contender& c = contenders[i];
      const double all = seconds_of(
          [&] {
            for (int t = 0; t < c.times; ++t) c.work();
          },
          c.who);
      seconds[i].push_back(all / c.times);
    }
  std::vector<double> medians;
  for (std::vector<double>& of_one : seconds) medians.push_back(median(std::move(of_one)));
  return medians;
}

struct Claim {
  std::string work, measured, baseline, ratio, target;
};

inline std::string megabytes(int64_t bytes) { return fmt::format("{} MB", bytes / 1'000'000); }
inline std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

inline void print_head() {
#if defined(__clang__)
  fmt::print("compiler: clang {}; ", __clang_version__);
#else
  fmt::print("compiler: gcc {}; ", __VERSION__);
#endif
  fmt::print("flags: {}\n\n", SHARDPROOF_BENCH_FLAGS);
  fmt::print("| work | measured | baseline | ratio | target |\n|---|---|---|---|---|\n");
}

inline void print(const Claim& claim) {
  fmt::print("| {} | {} | {} | {} | {} |\n", claim.work, claim.measured, claim.baseline,
             claim.ratio, claim.target);
}

}  // namespace shardproof::bench
