// Turning differences into findings in the user's own names.
#pragma once

#include "shardproof/engine/compare.h"
#include "shardproof/engine/partition.h"
#include "shardproof/program/spmd_program.h"

namespace shardproof {

struct WrongValue {
  ValueLabel label;
  Spec spec;
  ValueId global = kNoValue;  // in the reference program
};

// `difference` was found in f64. `own`: the same elements in the program's own dtypes, whose
// numbers are shown where they differ there too; null where `difference` is in these dtypes
// already. Named values of the program are computed from what `reference` holds when they are not
// there and it frees nothing.
Finding explain_difference(const WrongValue& wrong, const Difference& difference,
                           const Difference* own, ReferenceRun& reference);
// Of a line with `as`: what its ops would have needed, or what the rules say of its result. Nothing
// is added to a finding that has a cause already.
void explain_claim(const WrongValue& wrong, const GlobalProgram& global, const Partitioned& parts,
                   const Job& job, const OpRegistry& ops, Finding& finding);
Finding explain_replicas(const WrongValue& wrong, const ReplicaDifference& difference);

}  // namespace shardproof
