// Groups of cases of one file with the same findings. A text report prints the first case of a
// group.
#pragma once

#include <vector>

#include "shardproof/scenarios/run/run.h"

namespace shardproof {

struct SharedCases {
  const CaseResult* first = nullptr;
  std::vector<const CaseResult*> others;
};

// Returns the groups in order of their first cases. Cases share a group if they miss the same
// expectations and their findings are equal in verdict, line, group of the call, name, instance and
// cause. Numbers in a cause are ignored, because they are sizes of the mesh of a case. A case
// without findings and a refused case are groups of their own.
std::vector<SharedCases> group_findings(const std::vector<const CaseResult*>& cases);

}  // namespace shardproof
