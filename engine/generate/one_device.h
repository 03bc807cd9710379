// One device runs a program: in the program's own dtypes, and in f64 to measure what one device
// loses to rounding on each line. It runs ops one by one and shares no code with the judge, since
// generated programs test the judge.
#pragma once

#include <map>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

// The global program of a job, or the truth of a rank program. Throws Error(bad_input).
GlobalProgram lower_one_device(const Job& job, const OpRegistry& ops);
std::vector<Tensor> input_tensors(const Job& job);

// The value of each id. Throws Error with line and column for data-dependent trouble.
std::vector<Tensor> run_one_device(const GlobalProgram& program, const OpRegistry& ops,
                                   const std::vector<Tensor>& inputs);

// One compared value of a program on one device.
struct LineLoss {
  double largest = 0;  // absolute value of its largest element
  double loss = 0;     // largest |own dtypes - f64| over its elements; infinity if only one of
                       // both is finite
  bool is_finite = false;
};

// Losses by value id, of the compared values: named values of a global program, outputs and checks
// of a rank program. Each line starts from the values that one device holds in the program's own
// dtypes at that line, so losses do not add up over lines. Integers and bools are exact and have no
// entry.
std::map<ValueId, LineLoss> measure_losses(const Job& job, const OpRegistry& ops);

}  // namespace shardproof
