// The programs of a job as `shardproof show` prints them, without running them.
#pragma once

#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/program/ir/rank_text.h"

namespace shardproof {

struct PrintedJob {
  std::vector<ListingLine> global;  // empty for rank programs
  std::vector<RankText> ranks;
  SpmdProgram program;
  NamesAtEnd at_end;               // of `program`
  std::vector<Finding> unwritten;  // when explicit_only
};

// Returns the programs. Throws Error for bad input, with Where::path, line and column.
PrintedJob print_job(const Job& job, const Registries& registries);

// Returns the job whose rank programs are the printed ones. It has no global program; its inputs,
// meshes and groups are those of `job`. Text that does not parse back is a bug and throws Error.
Job job_of_printed(const Job& job, const PrintedJob& printed);

}  // namespace shardproof
