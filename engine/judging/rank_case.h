// RankCase: a lowered rank program with its truth and inputs. Edits of it confirm the causes of a
// wrong value (engine/causes). Internal to the engine.
#pragma once

#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/engine/reference/f64_job.h"
#include "shardproof/engine/reference/recorded_integers.h"

namespace shardproof {

// All references must outlive it.
struct RankCase {
  const Job& job;  // with all floats lifted, if `is_lifted`
  const std::vector<LocalTensor>& inputs;
  const RankProgram& ranks;
  const GlobalProgram& truth;
  const Registries& registries;
  const OwnDtypes& dtypes;  // of the job, before all floats were lifted
  // Whole numbers that replace those of ranks and truth, as in the run that found the value wrong.
  const RecordedIntegers* integers = nullptr;
  bool is_lifted = true;  // false: in the program's own dtypes
};

// Return the programs of a job like that of the case. Their floats are lifted if the case's are,
// and the calls of `group:` blocks are separated (explain/edit_ranks.h). Throw Error(bad_input) if
// the job has none.
RankProgram lower_ranks_of(const Job& job, const RankCase& about);
GlobalProgram lower_truth_of(const Job& job, const RankCase& about);

}  // namespace shardproof
