// Finds which of several narrow steps makes a value of a rank program imprecise. A mask of 0 and 1,
// a count and a maximum that cancels lose nothing in bf16, so the first step may be harmless.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/explain/explain_precision.h"
#include "shardproof/engine/job/job.h"
#include "shardproof/engine/lower/rank_lowering.h"

namespace shardproof {

// A rank program with all floats in f64, on simulated ranks. Values have the ids of the program in
// its own dtypes.
struct RanksInF64 {
  const Job& job;
  const std::vector<LocalTensor>& inputs;
  const RankProgram& ranks;
};

// Returns the text of the step that makes the output `name` imprecise. For each step the program
// runs in f64 with the rounding of this step alone; a step loses if its error is half of the
// largest or more. The first call that loses comes before the first other step. Returns the text of
// the first step if none loses, or if there are more than 16 sites (128 in small programs). `steps`
// is not empty. Throws the errors of the runs.
std::string losing_step(const RanksInF64& in_f64, const std::vector<NarrowStep>& steps,
                        const std::string& name, const Registries& registries);

}  // namespace shardproof
