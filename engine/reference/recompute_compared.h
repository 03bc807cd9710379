// Makes comparisons of a value with a result of itself, such as `x == amax(x)`, independent of
// which of both values is held (reference_run.h).
#pragma once

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

// Changes instructions with a bool result that compare a value with what one op computes from it,
// views aside: the op runs once more, and the comparison reads the new result. The gradient of amax
// compares in this way. If the ranks' maximum is held but x is computed by one device, x may have
// no element of that value; the maximum of one device's own x it has. Values keep their ids; new
// values are added at the end and have no names, so that they are never held.
void recompute_compared(GlobalProgram& program, const OpRegistry& ops);

}  // namespace shardproof
