// Text of the programs of one job and of its communication, for `shardproof show`.
#pragma once

#include <string>

#include "shardproof/engine/check/print_job.h"

namespace shardproof {

struct ShownParts {
  bool program = true, rank_program = true, communication = true;
};

// Returns the parts, each under its title.
std::string shown_text(const Job& job, const PrintedJob& printed, const ShownParts& parts);

}  // namespace shardproof
