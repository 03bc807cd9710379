// Text of the programs and the communication of one job, for `shardproof show`.
#pragma once

#include <string>

#include "shardproof/engine/check/print_job.h"

namespace shardproof {

struct ShownParts {
  bool program = true, rank_program = true, communication = true;
};

// Returns the parts, each under its title.
std::string shown_text(const Job& job, const PrintedJob& printed, const ShownParts& parts);

// Returns the redistributions by line, and the calls and bytes of the ranks that make some. Ranks
// with equal communication are listed once.
std::string communication_text(const SpmdProgram& program, const CostModel* machine);

}  // namespace shardproof
