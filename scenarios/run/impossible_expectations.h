// Expectations that no run of a program can meet are mistakes of the file, not of the program.
#pragma once

#include "shardproof/engine/job/job.h"
#include "shardproof/scenarios/model/expect.h"

namespace shardproof {

// Throws Error(bad_input) at the place of the first expectation that the values of the outcome
// cannot meet. Examples are dims that a value has not, elements of another shape, complex elements
// of a real value, and times that the machine cannot predict. Shapes and elements are not checked
// if the outcome has findings, because a wrong program may give wrong shapes.
void refuse_impossible_expectations(const Expect& expect, const Outcome& outcome);

// Throws Error(bad_input) if a time is expected, the machine has no rates, and the program holds an
// op that computes. Needs no run. An op that returns views is not counted: only a run finds out if
// it copies.
void refuse_time_without_rates(const Expect& expect, const Job& job, const SpmdProgram& program,
                               const OpRegistry& ops);

}  // namespace shardproof
