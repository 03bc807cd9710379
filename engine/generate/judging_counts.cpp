// Implements judging_counts.h. Threads draw seeds in order and store the result of each. The
// results are then added in order of seeds, so the counts do not depend on the number of threads.
// Planting continues with further seeds until enough programs had a suitable line.
#include "shardproof/engine/generate/judging_counts.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "shardproof/engine/check/check.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int64_t kMostSkipped = 20;  // skipped programs for each wanted one, before giving up

// The result of one seed.
struct Trial {
  bool ran = false;
  HonestCounts honest;
  PlantedCounts planted;
  std::vector<JudgingFailure> failures;
};

bool is_false(const Finding& finding) { return finding.verdict != Verdict::imprecise; }

std::string false_findings_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings)
    if (is_false(finding) && text.size() < 1000) text += to_string(finding) + "\n";
  return text;
}

bool has_false_finding(const Outcome& outcome) {
  return std::any_of(outcome.findings.begin(), outcome.findings.end(), is_false);
}

Trial try_honest(uint64_t seed, const JudgingOptions& options, const Registries& registries) {
  Trial trial;
  trial.ran = true;
  trial.honest.programs = 1;
  RandomProgram program;
  try {
    program = random_program(seed, options.programs, registries.ops);
    const Outcome outcome = check(job_of(program.text), registries);
    trial.honest.values = outcome.values_compared;
    trial.honest.undecided = std::ssize(outcome.undecided);
    if (has_false_finding(outcome)) {
      trial.honest.false_findings = 1;
      trial.failures.push_back({"false finding", seed, std::nullopt,
                                false_findings_text(outcome.findings), program.text});
    } else if (!outcome.findings.empty()) {
      trial.honest.imprecise = 1;
    }
  } catch (const Error& error) {
    trial.honest.errors = 1;
    trial.failures.push_back({"error", seed, std::nullopt, error.what(), program.text});
  }
  return trial;
}

// Returns the smallest size for half of the seeds, and up to a thousand times it for the others.
double draw_error_size(uint64_t seed, const JudgingOptions& options, DType dtype) {
  if (options.size) return *options.size;
  Draw draw(seed, "size");
  const double least = smallest_planted_error(dtype);
  const double grown = least * std::pow(10.0, 3 * draw.uniform());
  return draw.chance(0.5) ? least : std::min(grown, 0.3);
}

bool is_found(const Outcome& outcome, const PlantedError& error) {
  return has_false_finding(outcome) &&
         std::all_of(outcome.findings.begin(), outcome.findings.end(), [&](const Finding& finding) {
           return !is_false(finding) || (finding.verdict == Verdict::wrong_values &&
                                         finding.line == error.line && finding.name == error.name);
         });
}

std::string planted_text(const PlantedError& error) {
  return fmt::format("planted on line {}, {}: {} of {:.3g}, one device loses {:.3g}\n", error.line,
                     error.name, name(error.pattern), error.size, error.loss);
}

void judge_planted(const PlantedProgram& planted, uint64_t seed, DType dtype,
                   const Registries& registries, Trial& trial) {
  const std::string about = planted_text(planted.error);
  const auto fail = [&](const char* what, const std::string& message, const ProgramText& text) {
    trial.failures.push_back({what, seed, dtype, about + message, text});
  };
  const Outcome twin = check(job_of(planted.twin), registries);
  if (has_false_finding(twin))
    fail("twin not clean", false_findings_text(twin.findings), planted.twin);
  else
    trial.planted.clean_twins = 1;
  const Outcome outcome = check(job_of(planted.text), registries);
  if (is_found(outcome, planted.error)) {
    trial.planted.found = 1;
  } else if (outcome.findings.empty()) {
    trial.planted.missed = 1;
    fail("missed", "", planted.text);
  } else {
    trial.planted.elsewhere = 1;
    std::string findings;
    for (const Finding& finding : outcome.findings)
      if (findings.size() < 1000) findings += to_string(finding) + "\n";
    fail("found elsewhere", findings, planted.text);
  }
}

Trial try_planted(uint64_t seed, DType dtype, const JudgingOptions& options,
                  const Registries& registries) {
  Trial trial;
  trial.ran = true;
  ProgramOptions programs = options.programs;
  programs.dtype = dtype;
  RandomProgram program;
  std::optional<PlantedProgram> planted;
  try {
    program = random_program(seed, programs, registries.ops);
    planted = plant_error(program, draw_error_size(seed, options, dtype), registries);
    if (!planted) {
      trial.planted.skipped = 1;
      return trial;
    }
    trial.planted.programs = 1;
    judge_planted(*planted, seed, dtype, registries, trial);
  } catch (const Error& error) {
    trial.planted.programs = 1;
    trial.planted.errors = 1;
    trial.failures.push_back(
        {"error", seed, dtype, error.what(), planted ? planted->text : program.text});
  }
  return trial;
}

// Runs the trials of consecutive seeds on several threads and returns them in order of seeds.
std::vector<Trial> run_trials(uint64_t first, int64_t count, const JudgingOptions& options,
                              const std::function<Trial(uint64_t)>& run) {
  std::vector<Trial> trials(static_cast<size_t>(count));
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < count && options.may_go_on(); i = next++)
      trials[static_cast<size_t>(i)] = run(first + static_cast<uint64_t>(i));
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < options.threads; ++i) threads.emplace_back(work);
  work();
  threads.clear();  // joins
  return trials;
}

void add_failures(const Trial& trial, JudgingCounts& counts) {
  counts.failures.insert(counts.failures.end(), trial.failures.begin(), trial.failures.end());
}

void add(const Trial& trial, JudgingCounts& counts) {
  HonestCounts& sum = counts.honest;
  const HonestCounts& one = trial.honest;
  sum.programs += one.programs;
  sum.values += one.values;
  sum.false_findings += one.false_findings;
  sum.imprecise += one.imprecise;
  sum.undecided += one.undecided;
  sum.errors += one.errors;
  add_failures(trial, counts);
}

void add(const PlantedCounts& one, PlantedCounts& sum) {
  sum.programs += one.programs;
  sum.found += one.found;
  sum.elsewhere += one.elsewhere;
  sum.missed += one.missed;
  sum.clean_twins += one.clean_twins;
  sum.errors += one.errors;
  sum.skipped += one.skipped;
}

void count_planted(DType dtype, const JudgingOptions& options, const Registries& registries,
                   JudgingCounts& counts) {
  PlantedCounts sum;
  sum.dtype = dtype;
  uint64_t seed = options.seed;
  while (sum.programs < options.planted && sum.skipped < kMostSkipped * options.planted &&
         options.may_go_on()) {
    const int64_t count = options.planted - sum.programs;
    for (const Trial& trial : run_trials(seed, count, options, [&](uint64_t one) {
           return try_planted(one, dtype, options, registries);
         })) {
      add(trial.planted, sum);
      add_failures(trial, counts);
    }
    seed += static_cast<uint64_t>(count);
  }
  counts.planted.push_back(sum);
}

}  // namespace

double smallest_planted_error(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-11;
    case DType::f32: return 1e-7;
    case DType::f16: return 5e-4;
    default: return 2e-3;
  }
}

double HonestCounts::undecided_share() const {
  return values == 0 ? 0 : static_cast<double>(undecided) / static_cast<double>(values);
}

bool JudgingCounts::is_good() const {
  return honest.false_findings == 0 && honest.undecided_share() < kMostUndecided &&
         std::all_of(planted.begin(), planted.end(), [](const PlantedCounts& one) {
           return one.found + one.errors == one.programs &&
                  one.clean_twins + one.errors == one.programs;
         });
}

JudgingCounts count_judging(const JudgingOptions& options, const Registries& registries) {
  JudgingCounts counts;
  for (const Trial& trial : run_trials(options.seed, options.honest, options, [&](uint64_t seed) {
         return try_honest(seed, options, registries);
       }))
    add(trial, counts);
  if (options.planted == 0) return counts;
  std::vector<DType> dtypes = {DType::f32, DType::f64, DType::bf16};
  if (options.programs.dtype) dtypes = {*options.programs.dtype};
  for (const DType dtype : dtypes) count_planted(dtype, options, registries, counts);
  return counts;
}

}  // namespace shardproof
