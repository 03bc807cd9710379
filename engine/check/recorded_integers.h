// RecordedIntegers: whole numbers that rank programs and their truth computed from floats in the
// run in the program's own dtypes. Where the run with all floats in f64 fails, it is made again
// with these in the place of its own: an index that is 256 in bf16 and 257 in f64 is 256 again.
// Internal to the engine.
#pragma once

#include <map>
#include <vector>

#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/program/ir/global_program.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

struct RecordedIntegers {
  std::map<ValueId, LocalTensor>
      of_ranks;                        // by value of the rank program, on the ranks that made it
  std::map<ValueId, Tensor> of_truth;  // by value of the truth
};

// By value: whether an op computes this whole number (no bool) from floats. The same for a program
// and its form with all floats in f64.
std::vector<bool> integers_from_floats(const SpmdProgram& program);
std::vector<bool> integers_from_floats(const GlobalProgram& program);

// Adds a copy of what some ranks have made.
void record_integers(ValueId id, const LocalTensor& made, RecordedIntegers& recorded);
// Gives a value that some ranks have just made the recorded contents. Views and values that were
// not recorded stay as they are.
void replace_integers(ValueId id, const LocalTensor& made, const RecordedIntegers& recorded);

}  // namespace shardproof
