// Scenario: one scenario file as a value, checked as far as possible without a run. A sweep is
// expanded to cases. A case has one phase unless the file has `phases`. A phase is a Job without
// tensor data.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/model/expect.h"
#include "shardproof/scenarios/model/fill.h"

namespace shardproof {

struct RankProgram;  // engine/lower/rank_lowering.h

struct Phase {
  Job job;  // inputs without data
  // The programs of `job`, if program_errors has stored them; null: they are lowered by the run.
  std::shared_ptr<const RankProgram> lowered;
  std::vector<Fill> fills;  // one for each input
  Expect expect;
  // JSON paths in the file of the listings that a Job calls "/program" and "/truth".
  std::string program_path = "/program", truth_path = "/truth";
  // JSON path of `train`, and the number of lines before those that it adds; "" without it.
  std::string train_path;
  int program_lines = 0;
};

struct Case {
  std::string name;  // settings of the sweep: "mesh=tp=3 tokens=7"; empty without a sweep
  std::vector<std::string> labels;  // one for each setting in the name: "mesh=tp=3", "tokens=7"
  std::vector<Phase> phases;
  // The Error of a case that expects bad input and was refused while it was read.
  std::optional<Error> refused;
  Expect refusal;  // the expectation of such a case
  // Settings of the sweep: JSON pointer of the value that is set, and of the setting in the file.
  std::vector<std::pair<std::string, std::string>> settings;
};

// Returns the cases that `text` chooses: the one with this name, else all whose names have each
// setting in `text`, in any order. Spaces are ignored. "n=1" chooses "mesh=tp=2 n=1".
std::vector<size_t> choose_cases(const std::vector<Case>& cases, const std::string& text);

struct Scenario {
  std::string file;  // name in reports: never absolute
  std::string path;  // path that was opened; empty for a text
  std::string about;
  std::string text;  // contents of the file
  std::vector<Case> cases;
};

// True if a line of the program of a phase is one that `train` adds.
inline bool is_of_training(const Phase& phase, int line) {
  return !phase.train_path.empty() && line > phase.program_lines;
}
// Returns the job with tensor data drawn from `seed`. Throws Error(bad_input) for a negative
// element of a P(norm) tensor.
Job filled(const Phase& phase, uint64_t seed);
// Returns an Error about the job of a phase with its JSON path in the file.
Error placed_in(const Phase& phase, const Error& error);
// Returns an Error about a case with the name of the file, and line and column in its text.
Error placed_in(const Scenario& scenario, const Case& one, const Error& error);

}  // namespace shardproof
