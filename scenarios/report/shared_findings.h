// Cases of one file that report the same findings: a text shows the first of them for all.
#pragma once

#include <string>
#include <vector>

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

struct SharedCases {
  const CaseResult* first = nullptr;
  std::vector<const CaseResult*> others;
};

// Groups of `cases` whose findings are equal in verdict, line, group of the call, name, instance
// and cause (but for the numbers in it, which are sizes of a case's own mesh), and that missed the
// same of what was expected; in order of their first cases. A case without findings, or that was
// refused, stands alone.
std::vector<SharedCases> share_findings(const std::vector<const CaseResult*>& cases);

}  // namespace shardproof
