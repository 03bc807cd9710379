// Implements rank_case.h: lowers with the dtypes of the author, then lifts the floats if the case
// does.
#include "shardproof/engine/judging/rank_case.h"

#include "shardproof/engine/explain/edit_ranks.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/engine/reference/recompute_compared.h"

namespace shardproof {

RankProgram lower_ranks_of(const Job& job, const RankCase& about) {
  const OpRegistry& ops = about.registries.ops;
  RankProgram ranks = lower_ranks(to_lower(job, about.dtypes), ops);
  if (about.is_lifted) widen_floats(ranks.program, ops);
  separate_grouped_calls(ranks.program);
  return ranks;
}

GlobalProgram lower_truth_of(const Job& job, const RankCase& about) {
  const OpRegistry& ops = about.registries.ops;
  GlobalProgram truth =
      lower_global(*job.truth, context_of(to_lower(job, about.dtypes), ops), "/truth");
  recompute_compared(truth, ops);
  if (about.is_lifted) widen_floats(truth, ops);
  return truth;
}

}  // namespace shardproof
