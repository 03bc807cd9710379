// Problems: everything that is not as expected in a run, one entry for each place in a file. SARIF
// and annotations list them.
#pragma once

#include <string>
#include <vector>

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

struct Problem {
  std::string rule;  // the verdict, "expectation" or "refused"
  std::string file;
  int line = 0, column = 0;  // in the text of the file, from 1; 0: not known
  std::string message;
};
// Returns the problems in the order of files and cases. A problem that several cases have at one
// place is listed once, with the first case.
std::vector<Problem> problems_of(const RunResult& result);
// Returns the values that are not decided (rule "not decided") and the notes (rule "note") of all
// cases, without a line of the file. They change no exit code. Equal ones of a file are listed
// once.
std::vector<Problem> remarks_of(const RunResult& result);

// Returns the cause of a finding as one text; empty if none is known.
std::string cause_of(const Finding& finding);
// Returns the verdict and headline of a case in one line: "wrong values: q[0] on all ranks: ...".
// Without a finding, returns its first error, or its first unmet expectation.
std::string headline_text(const CaseResult& result);

}  // namespace shardproof
