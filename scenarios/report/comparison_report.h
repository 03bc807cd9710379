// Reports of two runs laid side by side: a table for people, no wider than 100 columns, and JSON
// for machines, which holds every rank.
#pragma once

#include <string>

#include "shardproof/scenarios/record/run_comparison.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof {

std::string comparison_text(const RunComparison& comparison, const TextStyle& style);
std::string comparison_json(const std::vector<RunComparison>& comparisons,
                            const std::string& tool_version);

}  // namespace shardproof
