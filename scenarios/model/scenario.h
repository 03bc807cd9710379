// Scenario: one scenario file as a value, checked as far as possible without a run. A sweep is
// expanded to cases. A case has one phase unless the file has `phases`. A phase is a Job without
// tensor data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/model/expect.h"
#include "shardproof/scenarios/model/fill.h"

namespace shardproof {

struct Phase {
  Job job;                  // inputs without data
  std::vector<Fill> fills;  // one for each input
  Expect expect;
  // JSON paths in the file of the listings that a Job calls "/program" and "/truth".
  std::string program_path = "/program", truth_path = "/truth";
};

struct Case {
  std::string name;  // settings of the sweep: "mesh=tp=3 tokens=7"; empty without a sweep
  std::vector<Phase> phases;
  // The Error of a case that expects bad input and was refused while it was read.
  std::optional<Error> refused;
  Expect refusal;  // the expectation of such a case
};

struct Scenario {
  std::string file;  // name in reports: never absolute
  std::string path;  // path that was opened; empty for a text
  std::string about;
  std::string text;  // contents of the file
  std::vector<Case> cases;
};

// Returns the job with tensor data drawn from `seed`. Throws Error(bad_input) for a negative
// element of a P(norm) tensor.
Job filled(const Phase& phase, uint64_t seed);
// Returns an Error about the job of a phase with its JSON path in the file.
Error placed_in(const Phase& phase, const Error& error);

}  // namespace shardproof
