// The error program: a program beside whose every value goes another, the errors of its elements.
// A rank program has no truth to be compared with; what it computes can still be followed step by
// step, each rank by itself, so that of two runs of it somebody can say whether they lie as near to
// each other as honest ones do.
#pragma once

#include <map>
#include <optional>

#include "shardproof/engine/job.h"

namespace shardproof {

struct ErrorProgram {
  SpmdProgram program;
  OpRegistry ops;               // those of the program, and those that follow errors
  std::vector<ValueId> errors;  // of each value of the first program
};

// Of a rank program: nullopt where steps of plans would have to be followed.
std::optional<ErrorProgram> with_errors(const SpmdProgram& program, const OpRegistry& ops,
                                        MatmulPrecision matmul);

// Runs it in this process and gives, by value, each rank's errors: f64, of the value's shape. Empty
// where nobody can say: see above, or the run did not come to its end.
std::map<ValueId, LocalTensor> errors_of_values(const SpmdProgram& program, const Job& job,
                                                const Registries& registries,
                                                const std::vector<ValueId>& wanted);

}  // namespace shardproof
