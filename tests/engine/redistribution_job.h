// The job of one redistribution, and the machine that laws of bytes and times run it on.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

#include "shardproof/sim/cost/cost_model.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing {

// Returns links of 5 us and 50 GB/s.
inline std::shared_ptr<const CostModel> machine() {
  return flat_machine({duration_of_seconds(5e-6), 50e9});
}

// Returns the global program y = redistribute(x, to) with x placed as `from`. It names the axes
// that are R, because others stay as they are.
inline Job job_of_pair(const Spec& from, const Spec& to) {
  std::string target = placements_text(to) == "R" ? "" : placements_text(to);
  for (int axis = 0; axis < to.mesh().axis_count(); ++axis)
    if (to.placement(axis).is_replicate())
      target += " " + to.mesh().axes()[static_cast<size_t>(axis)].name + ":R";
  Job job = job_of(to_string(from.mesh()), {fmt::format("y = redistribute(x, {})", target)});
  add_input(job, "x", from.shape(), placements_text(from), from.dtype());
  return job;
}

}  // namespace shardproof::testing
