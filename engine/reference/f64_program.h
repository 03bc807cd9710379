// Changes all floats of a lowered program to f64: the dtype of every value, and every dtype that a
// line names. Examples: `cast(x, bf16)` and `recv(dtype=f32)`. Choices that ops made by their
// dtypes at lowering stay as written.
#pragma once

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Changes a global program. Values keep their ids; new values are added at the end.
void widen_floats(GlobalProgram& program, const OpRegistry& ops);
// Changes a lowered rank program. Calls and local steps stay the same ones.
void widen_floats(SpmdProgram& program, const OpRegistry& ops);

}  // namespace shardproof
