// RecordedIntegers: whole numbers that rank programs and their truth compute from floats in the
// program's own dtypes, and flags of overflow. With all floats in f64 the program may fail, or an
// overflow that decides a branch may not occur. Then it is made again with these numbers. Example:
// an index that is 256 in bf16 and 257 in f64 is 256 in the second run. Internal to the engine.
#pragma once

#include <map>
#include <vector>

#include "shardproof/localtensor/tensor/collected_parts.h"
#include "shardproof/program/ir/global_program.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

struct RecordedIntegers {
  std::map<ValueId, CollectedParts> of_ranks;  // by value of the rank program
  std::map<ValueId, Tensor> of_truth;          // by value of the truth
};

// Returns, by value, if an op computes this whole number from floats, or a bool that states whether
// they are infinite or NaN. The result is the same for a program and its form with all floats in
// f64.
std::vector<bool> integers_from_floats(const SpmdProgram& program);
std::vector<bool> integers_from_floats(const GlobalProgram& program);

// Adds a copy of a value that some ranks have made.
void record_integers(ValueId id, const LocalTensor& made, RecordedIntegers& recorded);
// Replaces the contents of a value that some ranks have just made by the recorded ones. Views and
// values that were not recorded are not changed.
void replace_integers(ValueId id, const LocalTensor& made, const RecordedIntegers& recorded);

}  // namespace shardproof
