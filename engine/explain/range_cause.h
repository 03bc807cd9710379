// The step at which ranks leave the range of a dtype: the first value on the way to an imprecise
// one that is not finite on a rank, or of which nothing is left, while the same program in f64 has
// numbers there.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"

namespace shardproof {

// One rank program as it is run. In both the ids of values are the same.
struct RunnableRanks {
  const Job& job;  // on simulated ranks
  const std::vector<LocalTensor>& inputs;
  const SpmdProgram& program;
};

// "line 2: the sum over tp passes 65504, the largest f16, on ranks 0 1", "line 1: of g nothing is
// left, its largest number is 2.1e-8 and the smallest f16 5.9e-8". Empty where no value on the way
// to `targets` does, where what is lost was lost in an input, or where the values are too many to
// compare. Runs both programs once; throws Error where they do.
std::string range_cause(const RunnableRanks& own, const RunnableRanks& in_f64,
                        const std::vector<ValueId>& targets, const Registries& registries);

}  // namespace shardproof
