// A lowered program as it reads where all its floats are f64: every value and every dtype that a
// line writes, `cast(x, bf16)` and `recv(dtype=f32)` included. What ops chose by their dtypes when
// it was lowered, and what is left out, stays what it is as written.
#pragma once

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Ids of values stay; what is put in comes last.
void widen_floats(GlobalProgram& program, const OpRegistry& ops);
// Of a rank program: there are no plans in it.
void widen_floats(SpmdProgram& program, const OpRegistry& ops);

}  // namespace shardproof
