// Makes findings from differences of values, with the names of the author. A finding has a
// headline, the elements, a proven cause or else a hint, and a fix.
#pragma once

#include "shardproof/engine/compare/compare.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// A value of the program that differs.
struct WrongValue {
  ValueLabel label;
  Spec spec;
  ValueId global = kNoValue;  // in the reference program
};

// Returns the finding `wrong values`. `own` holds the same elements in the program's own dtypes;
// its numbers are shown if they differ there too. Null: `difference` is in these dtypes already.
// Named values of `reference` may explain this one, so it should have freed none.
Finding explain_difference(const WrongValue& wrong, const Difference& difference,
                           const Difference* own, const ReferenceRun& reference);

// Returns the finding `replicas differ`.
Finding explain_replicas(const WrongValue& wrong, const ReplicaDifference& difference);

}  // namespace shardproof
