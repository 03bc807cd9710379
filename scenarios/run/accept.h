// Accepting measured counts: `shardproof run --accept` writes the calls and bytes of clean cases
// into "expect" of their file.
#pragma once

#include <string>
#include <vector>

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

struct Accepted {
  std::string text;                  // of the file; unchanged if `written` is empty
  std::vector<std::string> written;  // JSON pointers: "/expect/collectives"
  std::vector<std::string> refused;  // why something was not written, one sentence each
};

// Returns the text of a file in which `collectives` and `bytes` of each `expect` are as measured.
// All other bytes, comments included, stay unchanged. A value that the run met is not changed.
// Nothing is written for cases with findings, with another unmet expectation, or that expect a
// finding. If several cases share an `expect`, it is written only if their counts are equal.
// `results` are the cases of the scenario on one backend, which all ran.
Accepted accept_counts(const Scenario& scenario, const std::vector<CaseResult>& results);

// Removes from a case the unmet expectations about calls and bytes.
void drop_missed_counts(CaseResult& result);

}  // namespace shardproof
