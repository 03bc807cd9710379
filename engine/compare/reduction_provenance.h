// Provenance of values: which values of a program depend on a sum of floats over ranks, and which
// are written in place. Another order of addition may change the former.
#pragma once

#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Returns, by value id, if floats were reduced over ranks on the way to the value in a way that
// depends on their order.
std::vector<bool> values_reduced_over_ranks(const SpmdProgram& program, const OpRegistry& ops);

// Returns, by value id, if an instruction makes the value or writes into memory that it may share.
std::vector<bool> values_written(const SpmdProgram& program, const OpRegistry& ops);

// Returns, by value id, if a line writes in place into memory that the value shares with another
// one (a view, a merge). Such a value may change in a line that does not name it.
std::vector<bool> written_through_others(const SpmdProgram& program, const OpRegistry& ops);

}  // namespace shardproof
