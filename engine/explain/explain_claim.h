// Finds the cause of wrong values on a line with `as`. By the rules, its ops need a call that `as`
// does not add, or give other placements than it declares.
#pragma once

#include "shardproof/engine/explain/explain.h"
#include "shardproof/engine/partition/partition.h"

namespace shardproof {

// Adds the cause of a wrong line with `as`: what its ops would have needed, or the placements that
// the rules give its result. Adds nothing to a finding that has a cause.
void explain_claim(const WrongValue& wrong, const GlobalProgram& global, const Partitioned& parts,
                   const Job& job, const OpRegistry& ops, Finding& finding);

}  // namespace shardproof
