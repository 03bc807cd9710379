// Partition: turns a global program into the SPMD program of its ranks. An op uses the placements
// of its inputs if a legal strategy takes them as they are. Otherwise the cheapest redistribution
// is inserted as explicit instructions.
#pragma once

#include "shardproof/engine/job/job.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

struct PartitionOptions {
  PriceFunction price = price_without_topology;  // of a plan between two placements
  // The price by which the placements of an op are compared; empty: the price of the plans. Its
  // primary price is at least the bytes that a rank sends. Bytes count before calls, so that an op
  // on a cut tensor reduces its result and does not gather a small tensor.
  PriceFunction choice_price = price_by_bytes;
  PlanMoves moves = PlanMoves::all;
  std::optional<int64_t> peak_limit;  // PlannerOptions::peak_limit of every redistribution
  bool explicit_only = false;         // an inserted redistribution that communicates is a finding
};

struct Partitioned {
  SpmdProgram program;
  std::vector<Finding> unwritten;  // inserted redistributions; empty unless explicit_only
  std::vector<ValueId> placed;     // by global value: the SPMD value that equals it, or kNoValue
};

// Returns the SPMD program. Throws Error(bad_input) with path /program, line and column. Causes are
// placements that do not fit, inputs on two meshes, a redistribution without a plan, and a claim
// (`as`) that the local shapes contradict.
Partitioned partition(const GlobalProgram& program, const Job& job, const OpRegistry& ops,
                      const PartitionOptions& options = {});

}  // namespace shardproof
