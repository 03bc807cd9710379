// Turning differences into findings in the user's own names.
#pragma once

#include "shardproof/engine/compare/compare.h"
#include "shardproof/engine/partition/partition.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

struct WrongValue {
  ValueLabel label;
  Spec spec;
  ValueId global = kNoValue;  // in the reference program
};

// `difference` was found in f64. `own`: the same elements in the program's own dtypes, whose
// numbers are shown where they differ there too; null where `difference` is in these dtypes
// already. `reference` should have freed nothing: named values of it may explain this one.
Finding explain_difference(const WrongValue& wrong, const Difference& difference,
                           const Difference* own, const ReferenceRun& reference);
// Of a line with `as`: what its ops would have needed, or what the rules say of its result. Nothing
// is added to a finding that has a cause already.
void explain_claim(const WrongValue& wrong, const GlobalProgram& global, const Partitioned& parts,
                   const Job& job, const OpRegistry& ops, Finding& finding);
Finding explain_replicas(const WrongValue& wrong, const ReplicaDifference& difference);

}  // namespace shardproof
