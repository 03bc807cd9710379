// Finds the step at which ranks leave the range of a dtype. It is the first value that leads to an
// imprecise one and is not finite, or all zeros, on a rank. In the run in f64 the same
// value has finite numbers other than 0.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"

namespace shardproof {

// A rank program and the job to run it with. Both programs of a comparison have the same value ids.
struct RunnableRanks {
  const Job& job;  // on simulated ranks
  const std::vector<LocalTensor>& inputs;
  const SpmdProgram& program;
};

struct RangeCause {
  std::string text;  // "" if there is none
  // Replicas differ because a line other than a sum reads shards, of which some left the range.
  bool of_shards = false;
  // Values on the way that pass the largest number of their dtype on a rank, computed from values
  // that do not.
  int overflows = 0;
};

// Returns "line 2: the sum over tp passes 65504, the largest f16, on ranks 0 1". For small values:
// "all of it is rounded to 0: line 1 rounds to f16, whose smallest number is 6.0e-8, and its
// largest input is 1.4e-8". Returns no text in these cases: no value on the way to `targets` leaves
// the range; an input has left it already; there are too many values to compare. Runs both programs
// once and throws the errors of the runs.
RangeCause range_cause(const RunnableRanks& own, const RunnableRanks& in_f64,
                       const std::vector<ValueId>& targets, const Registries& registries);

}  // namespace shardproof
