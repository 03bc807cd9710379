// Runs a generated program on one device: in its own dtypes, and in f64 to measure what one device
// loses to rounding on each line. It shares no code with the judge, because generated programs test
// the judge.
#pragma once

#include <map>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

// Returns the lowered global program of a job, or the truth of a rank program. Throws
// Error(bad_input).
GlobalProgram lower_one_device(const Job& job, const OpRegistry& ops);
std::vector<Tensor> input_tensors(const Job& job);

// Returns the value of each id. Throws Error with line and column for errors that depend on data.
std::vector<Tensor> run_one_device(const GlobalProgram& program, const OpRegistry& ops,
                                   const std::vector<Tensor>& inputs);

// One compared value of a program on one device.
struct LineLoss {
  double largest = 0;  // absolute value of its largest element
  double loss = 0;     // largest |own dtypes - f64| over its elements, in any rounding direction of
                       // f64; infinity if only one of both is finite
  bool is_finite = false;
};

// Returns the losses of the compared values by id: named values of a global program, outputs and
// checks of a rank program. Each line starts from the values that one device has in the program's
// own dtypes, so losses do not add up over lines. Integers and bools are exact and have no entry.
std::map<ValueId, LineLoss> measure_losses(const Job& job, const OpRegistry& ops);

}  // namespace shardproof
