// Turning differences into findings in the user's own names.
#pragma once

#include "shardproof/engine/compare.h"
#include "shardproof/engine/partition.h"
#include "shardproof/engine/truth.h"
#include "shardproof/program/spmd_program.h"

namespace shardproof {

struct WrongValue {
  std::string name;  // the author's, "" for a value inside a line
  Spec spec;
  int line = 0;
  std::string text;  // of the line
  std::string instance;
  ValueId global = kNoValue;  // in the truth
};

Finding explain_difference(const WrongValue& wrong, const Difference& difference, Truth& truth);
// Of a line with `as`: what its ops would have needed, or what the rules say of its result. Nothing
// is added to a finding that has a cause already.
void explain_claim(const WrongValue& wrong, const GlobalProgram& global, const Partitioned& parts,
                   const Job& job, const OpRegistry& ops, Finding& finding);
Finding explain_replicas(const WrongValue& wrong, const ReplicaDifference& difference);

}  // namespace shardproof
