// Whether floats were added up over ranks on the way to a value, so that another order of addition
// may have made another value of it.
#pragma once

#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// By value id.
std::vector<bool> values_reduced_over_ranks(const SpmdProgram& program, const OpRegistry& ops);

// Whether a line writes into a value, or into one that may lie in its memory; what makes a value
// counts. By value id.
std::vector<bool> values_written(const SpmdProgram& program, const OpRegistry& ops);

// Whether a line writes in place into memory that another value may see too (a view, a merge), so
// that the value may change without being named. By value id.
std::vector<bool> written_through_others(const SpmdProgram& program, const OpRegistry& ops);

}  // namespace shardproof
