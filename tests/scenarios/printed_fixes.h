// A law of findings: a printed fix can be applied as it is written, and corrects the value that it
// is printed for. The rank program of a finding is changed as its fix states, parsed and run again.
// Fixes that leave a choice to the author are not applied.
#pragma once

#include <cstdint>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof::printed_fixes {

struct FixCounts {
  int64_t applied = 0, left_out = 0;

  // Applies each fix in the result of a scenario and expects that its value is right then.
  void check(const Scenario& scenario, const ScenarioResult& result, const Registries& registries);
};

}  // namespace shardproof::printed_fixes
