// Helpers of tests: runs recorded in memory, and their comparison.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "shardproof/localtensor/collective/reduction_schedule.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/record/run_comparison.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof {

inline const Registries& registries() {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  return kRegistries;
}

// Causes are not searched, so findings are not counted.
inline std::vector<RecordedRun> runs_of(Scenario scenario, const std::string& order = "rank") {
  for (Case& one : scenario.cases)
    for (Phase& phase : one.phases) phase.expect.findings = {};
  RunOptions options;
  options.records_values = true;
  options.searches_causes = false;
  options.order = parse_reduction_schedule(order);
  const RunResult result = run_scenarios({scenario}, {""}, options, registries());
  std::vector<RecordedRun> runs;
  for (const CaseResult& one : result.scenarios[0].cases)
    for (const RecordedRun& run : one.runs) runs.push_back(run);
  return runs;
}

// Values are not whole numbers, so that sums depend on the order.
inline Scenario mlp() {
  return load_text(R"json({"version": 1, "mesh": "dp=2, tp=4",
    "topology": "flat(latency='5 us', bandwidth='50 GB/s', compute='989.4 TFLOP/s', memory='3.35 TB/s')",
    "tensors": {
      "x": {"shape": [16, 8], "placements": "dp:S(0)", "fill": "normal(0, 1)"},
      "w1": {"shape": [8, 32], "placements": "tp:S(1)", "fill": "normal(0, 1)"},
      "w2": {"shape": [32, 8], "placements": "tp:S(0)", "fill": "normal(0, 1)"}},
    "program": ["h = gelu(x @ w1)", "p = h @ w2", "y = redistribute(p, tp:R)", "z = y * 2"]})json",
                   "mlp.json");
}

inline ValueDifference worst(const RunComparison& comparison, int line) {
  for (const ListingComparison& listing : comparison.listings)
    for (const LineComparison& own : listing.lines)
      if (own.line == line && !own.differences.empty()) return own.differences.front();
  throw std::out_of_range("nothing differs in line " + std::to_string(line));
}

inline RecordedValue& value_of(RecordedRun& run, const std::string& name) {
  for (RecordedValue& value : run.values)
    if (value.id == name) return value;
  throw std::out_of_range(name);
}

inline void set_element(RecordedValue& value, int64_t at, double to) {
  Tensor& tensor = value.parts.at(0).tensor;
  store_f64(tensor.mutate() + at * size_of(tensor.dtype), tensor.dtype, to);
}

inline double element(const RecordedValue& value, int64_t at) {
  return values_of(value.parts.at(0).tensor).at(static_cast<size_t>(at));
}

}  // namespace shardproof
