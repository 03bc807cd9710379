// Rank lowering: listings of the rank language to one SPMD program. Shapes of every value are
// inferred here, per class of ranks, so that whatever is wrong with the text is an Error before
// anything runs; what only the ranks together get wrong (counts that differ, a missing partner) is
// left to the run.
#pragma once

#include "shardproof/engine/job.h"

namespace shardproof {

struct NamedPart {
  Lanes lanes;
  ValueId value = kNoValue;
  int line = 0;  // of the statement that last bound or wrote the name
};

struct RankProgram {
  SpmdProgram program;
  std::map<std::string, std::vector<NamedPart>> names;  // tensors at the end of the listings
};

// Throws Error with the listing's path, line and column.
RankProgram lower_ranks(const Job& job, const OpRegistry& ops);

}  // namespace shardproof
