// The two services of the engine. `check` lowers a job, partitions it, runs it on a backend, judges
// its values against a run on one device, and explains what differs. `lower_job` stops before the
// run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"

namespace shardproof {

// The lowered programs, which `show` prints without running them.
struct LoweredJob {
  std::vector<std::string> global_lines;  // empty for rank programs
  SpmdProgram program;
  std::vector<Finding> unwritten;       // when explicit_only
  std::map<std::string, DType> dtypes;  // of named values, as they were last bound
};

// Returns the programs of a job. Throws Error for bad input, with Where::path, line and column.
LoweredJob lower_job(const Job& job, const Registries& registries);

struct RankProgram;  // engine/lower/rank_lowering.h
// Returns the rank programs of a job in the form that `check` runs; null for a global program.
// Throws Error like lower_job.
std::shared_ptr<const RankProgram> lower_rank_programs(const Job& job,
                                                       const Registries& registries);

// Returns what a run of the job found: findings, compared values, times and memory. A finding about
// the program is in the outcome. `lowered`, if not null, is what lower_rank_programs returned for a
// job with the same programs and tensors; the job is then not lowered again. Throws Error for bad
// input, with Where::path, line and column.
Outcome check(const Job& job, const Registries& registries,
              std::shared_ptr<const RankProgram> lowered = nullptr);

}  // namespace shardproof
