// Partition: from a global program to the SPMD program of its ranks. Every op takes its inputs'
// placements as they are when a legal strategy exists; else the cheapest redistribution is put in,
// as explicit instructions.
#pragma once

#include "shardproof/engine/job/job.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

struct PartitionOptions {
  PriceFunction price = price_by_bytes;
  bool explicit_only = false;  // a redistribution with a call that is not written is a finding
};

struct Partitioned {
  SpmdProgram program;
  std::vector<Finding> unwritten;
  std::vector<ValueId> placed;  // of each global value: the SPMD value that equals it, or kNoValue
};

// Throws Error(bad_input) with /program, line and column: placements that do not fit, inputs on two
// meshes, a redistribution that cannot be made, a claim whose local shapes do not fit.
Partitioned partition(const GlobalProgram& program, const Job& job, const OpRegistry& ops,
                      const PartitionOptions& options = {});

}  // namespace shardproof
