// Reports of the comparison of two runs: a text table of at most 100 columns, and JSON with every
// rank.
//
//   key of a comparison   value
//   file, case, phase     the run; case is omitted without a sweep
//   agrees                false: a bug, another precision, verdict or finding
//   values                number of compared values
//   bit-equal, within rounding, not decided, wrong   numbers of values of each class
//   a, b                  backend, processes, order, verdict, error, repeat, repetitions, step,
//                         cuda_graph (true: only the step has times), exposed, waiting, outside,
//                         times (none, predicted or measured), ranks (step, exposed, waiting,
//                         outside); without rates of the machine, no predicted time of work and of
//                         the step
//   listings[].ranks      ranks that run the listing
//   listings[].lines[]    line, source, values, match, differences[], times[]
//   differences[]         value (id), name, instance, match, cause, why, first (index), of ("value"
//                         or "shard"), a, b, rounding, rounding_factor, ulps, elements, owners,
//                         ranks
//   times[]               call ("" for the work of the line), a, b: by rank time, count, bytes,
//                         expected, busbw (GB/s)
#pragma once

#include <string>

#include "shardproof/scenarios/record/run_comparison.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof {

// Returns the lines of the table. If `comparison.alone`, prints the times of one run only.
std::string comparison_text(const RunComparison& comparison, const TextStyle& style);
// Returns {"tool", "version", "comparisons": [...]}, with the keys above.
std::string comparison_json(const std::vector<RunComparison>& comparisons,
                            const std::string& tool_version);

}  // namespace shardproof
