// Makes comparisons of a value with a result of itself, such as `x == amax(x)`, independent of
// which of both values is held (reference_run.h).
#pragma once

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

// Changes instructions with a bool result that compare a value with the result of one op on it,
// apart from views. The op runs once more, and the comparison reads the new result. The gradient of
// amax compares in this way. The held maximum is the ranks', and x is computed by one device. So x
// may have no element of that value, but it has its own maximum. Values keep their ids; new values
// are added at the end and have no names, so that they are never held.
void recompute_compared(GlobalProgram& program, const OpRegistry& ops);

}  // namespace shardproof
