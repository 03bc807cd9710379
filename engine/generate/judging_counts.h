// Counts how often judging is right: over honest random programs, which have no finding, and over
// programs with a planted error, which have one on its line, while their clean twins have none.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/plant_error.h"
#include "shardproof/engine/job/registries.h"

namespace shardproof {

struct JudgingOptions {
  uint64_t seed = 0;    // program i has seed + i
  int64_t honest = 0;   // honest programs
  int64_t planted = 0;  // programs with a planted error, of each dtype
  ProgramOptions programs;
  std::optional<double> size;  // of planted errors; default: drawn from the smallest one upwards
  int threads = 1;             // each program runs on one
  std::function<bool()> may_go_on = [] { return true; };  // asked before each program
};

// The smallest error that has to be found, as a share of a line's largest element.
double smallest_planted_error(DType dtype);

// A program about which the verdict is not as it should be, or that could not run.
struct JudgingFailure {
  std::string what;  // "false finding", "missed", "found elsewhere", "twin not clean", "error"
  uint64_t seed = 0;
  std::optional<DType> planted;  // dtype of the planted error; nothing for an honest program
  std::string message;           // the finding or the error
  ProgramText text;
};

struct HonestCounts {
  int64_t programs = 0, values = 0;  // values compared
  int64_t false_findings = 0;        // programs with any finding but `imprecise`
  int64_t imprecise = 0;             // programs whose findings are all `imprecise`
  int64_t undecided = 0;             // values
  int64_t errors = 0;                // programs that are bad input, or fail on their data
  double undecided_share() const;
};

struct PlantedCounts {
  DType dtype = DType::f32;
  int64_t programs = 0;
  int64_t found = 0;        // wrong values on the planted line, and nothing else
  int64_t elsewhere = 0;    // a finding on another line, or another verdict, too or instead
  int64_t missed = 0;       // no finding
  int64_t clean_twins = 0;  // without a finding but `imprecise`
  int64_t errors = 0;
  int64_t skipped = 0;  // programs where no line suits
};

struct JudgingCounts {
  HonestCounts honest;
  std::vector<PlantedCounts> planted;    // one a dtype: f32, f64, bf16, or the one that is given
  std::vector<JudgingFailure> failures;  // in order of seeds
  // No false finding, nothing missed or found elsewhere, twins clean, and few undecided values.
  bool is_good() const;
};

inline constexpr double kMostUndecided = 0.005;  // share of the values of honest programs

// The same counts for the same options, however many threads run.
JudgingCounts count_judging(const JudgingOptions& options, const Registries& registries);

}  // namespace shardproof
