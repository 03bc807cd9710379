// What the benchmarks share: processor time, medians of interleaved repetitions, and the table
// that holds a claim as a ratio to a named baseline of the same run.
#pragma once

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace shardproof::bench {

// Processor time, user and system: the machine may be shared. RUSAGE_CHILDREN counts what ended.
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

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Contender {
  std::function<void()> work;
  int times = 1;  // of the work in one measurement
  int who = RUSAGE_SELF;
};

// Median seconds of each, measured in turn, so that a slow spell of the machine meets all of them.
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
