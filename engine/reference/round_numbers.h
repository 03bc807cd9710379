// Rounds the numbers that a lowered program holds to f32, as its lines of f32 and narrower dtypes
// read them. A constant such as 0.33333334 is then the f32 number 1/3.
#pragma once

#include "shardproof/program/ir/global_program.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Rounds numbers and the attributes of ops. Returns false if none changes.
bool round_numbers(GlobalProgram& program);
bool round_numbers(SpmdProgram& program);

}  // namespace shardproof
