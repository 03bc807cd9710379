// The HTML report of a run: one file that needs no network and no script.
//
//   part of the page            shown for
//   summary, table of files     the run
//   verdict, findings, errors   each case
//   mesh, shards, lines         the first cases of each file (kDrawnCases)
//   wait-for graph              each deadlock and missing rank
//   timeline                    cases with times
#pragma once

#include <string>
#include <vector>

#include "shardproof/scenarios/report/report.h"

namespace shardproof {

// Number of cases of a file with pictures and lines. Later cases have only verdict and findings;
// the page states this.
inline constexpr size_t kDrawnCases = 8;

// Returns the page. `scenarios` holds at least the files of `result` that ran. Programs are lowered
// again to describe their lines.
std::string html_report(const RunResult& result, const ReportHead& head,
                        const std::vector<Scenario>& scenarios, const Registries& registries);

}  // namespace shardproof
