// Implements the end of local_world.h: runs the items that can still run, and collects findings,
// times and memory.
#include <algorithm>
#include <tuple>

#include "shardproof/backends/local/local_world.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {

void LocalWorld::report_times(WorldReport& report) {
  if (!timed()) return;
  report.timed = true;
  report.unpriced_work = unpriced_work_;
  report.rank_times.assign(static_cast<size_t>(ranks_), Duration{});
  for (LocalContext& context : contexts_) {
    context.observe_host_waits();
    const LaneTimes through = context.through();
    for (int64_t i = 0; i < context.lanes_.size(); ++i)
      report.rank_times[static_cast<size_t>(context.lanes_[i])] = through[i];
    report.time = std::max(report.time, through.max());
  }
}

void LocalWorld::report_memory(WorldReport& report) {
  report.peak_bytes = -1;
  for (const LocalContext& context : contexts_) {
    const int64_t lane = context.memory_.fullest_lane();
    const MemoryUse& use = context.memory_.of_lane(lane);
    const int64_t rank = context.lanes_[lane];
    if (use.peak_bytes < report.peak_bytes) continue;
    if (use.peak_bytes == report.peak_bytes && rank > report.peak_rank) continue;
    report.peak_bytes = use.peak_bytes;
    report.peak_by_category = use.peak_by_category;
    report.peak_rank = rank;
  }
  report.peak_bytes = std::max<int64_t>(report.peak_bytes, 0);
}

namespace {

// Sorts findings by their contents, so that their order does not depend on the schedule.
void sort_findings(std::vector<Finding>& findings) {
  const auto key = [](const Finding& f) {
    return std::tuple<Verdict, int, int32_t, int64_t, const std::string&, const std::string&>(
        f.verdict, f.line, f.ranks[0], f.call, f.group, f.headline);
  };
  std::stable_sort(findings.begin(), findings.end(),
                   [&](const Finding& a, const Finding& b) { return key(a) < key(b); });
}

}  // namespace

WorldReport LocalWorld::close() {
  while (progress()) {
  }
  WorldReport report;
  matcher_.find_open_mismatches();
  sort_findings(matcher_.findings());
  report.findings = merged_findings(std::move(matcher_.findings()));
  for (Finding& finding : find_blocked_ranks()) report.findings.push_back(std::move(finding));
  sort_findings(report.findings);
  report_times(report);
  report_memory(report);
  return report;
}

}  // namespace shardproof
