// Scenario: one file as a value, everything checked that needs no run. A sweep has become cases, a
// case has one phase unless the file has `phases`; a phase is a Job whose tensors still lack their
// data.
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
  std::vector<Fill> fills;  // one an input
  Expect expect;
  // Where the file has the listings that a job knows as "/program" and "/truth".
  std::string program_path = "/program", truth_path = "/truth";
};

struct Case {
  std::string name;  // what the sweep sets: "mesh=tp=3 tokens=7"; empty without a sweep
  std::vector<Phase> phases;
  // Bad input that `expect` asks for: the case was refused before it could run.
  std::optional<Error> refused;
  Expect refusal;  // what was expected then
};

struct Scenario {
  std::string file;  // as reports name it: never absolute
  std::string path;  // as it was opened; empty for a text
  std::string about;
  std::string text;  // as it was read
  std::vector<Case> cases;
};

// The job with its data drawn from `seed`.
Job filled(const Phase& phase, uint64_t seed);
// What was thrown about the phase's job, with its place in the file.
Error placed_in(const Phase& phase, const Error& error);

}  // namespace shardproof
