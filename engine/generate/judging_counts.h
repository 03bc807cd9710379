// Counts how often verdicts are right. Honest random programs should have no finding. Programs with
// a planted error should have one on its line, and their twins without the error none.
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
  std::optional<double> size;  // of planted errors; none: drawn, from the smallest one upwards
  int threads = 1;             // each program runs on one thread
  std::function<bool()> may_go_on = [] { return true; };  // called before each program
};

// Returns the smallest error that judging must find, as a share of a line's largest element.
double smallest_planted_error(DType dtype);

// A program with a wrong verdict, or one that could not run.
struct JudgingFailure {
  std::string what;  // "false finding", "missed", "found elsewhere", "twin not clean", "error"
  uint64_t seed = 0;
  std::optional<DType> planted;  // dtype of the planted error; none for an honest program
  std::string message;           // the finding or the error
  ProgramText text;
};

struct HonestCounts {
  int64_t programs = 0, values = 0;  // values: all that were compared
  int64_t false_findings = 0;        // programs with any finding but `imprecise`
  int64_t imprecise = 0;             // programs whose findings are all `imprecise`
  int64_t undecided = 0;             // values with undecided elements
  int64_t errors = 0;                // programs that are bad input, or fail on their data
  // Returns undecided / values; 0 if there are no values.
  double undecided_share() const;
};

struct PlantedCounts {
  DType dtype = DType::f32;
  int64_t programs = 0;
  int64_t found = 0;        // wrong values on the planted line, and nothing else
  int64_t elsewhere = 0;    // any finding on another line or with another verdict
  int64_t missed = 0;       // no finding
  int64_t clean_twins = 0;  // no finding other than `imprecise`
  int64_t errors = 0;
  int64_t skipped = 0;  // programs without a suitable line
};

struct JudgingCounts {
  HonestCounts honest;
  std::vector<PlantedCounts> planted;    // one for each dtype: f32, f64, bf16, or the given one
  std::vector<JudgingFailure> failures;  // in order of seeds
  // True if there is no false finding, no error is missed or found elsewhere, and twins are clean.
  // The share of undecided values must be below kMostUndecided.
  bool is_good() const;
};

inline constexpr double kMostUndecided = 0.005;  // share of the values of honest programs

// Generates, runs and judges all programs. The counts do not depend on the number of threads.
JudgingCounts count_judging(const JudgingOptions& options, const Registries& registries);

}  // namespace shardproof
