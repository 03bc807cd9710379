// Measured rounding: the distance that an honest run of a program may have from exact arithmetic,
// for each element, measured by running it again. Recorded runs store it, and two runs of one
// program are compared by it (scenarios/record/run_comparison.h). Source: Monte Carlo arithmetic
// (Parker, UCLA CSD-970002, 1997).
#pragma once

#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/engine/job/recorded_value.h"

namespace shardproof {

// Returns three orders of addition over ranks other than `own`, one for each other direction of
// rounding. Two honest runs may add in two orders. Narrow floats are always rounded to nearest, so
// only another order changes their sums.
std::vector<ReductionSchedule> other_orders(const ReductionSchedule& own);

// Sets `measured` and `rounding` of values that a run of this job made.
//
// The job runs again on simulated ranks. One run with all floats in f64 is the reference. Four runs
// are in its own dtypes: one unchanged, and three that round up, down and to zero. Each of the
// three adds over ranks in another order. The rounding of an element is the largest distance
// between the reference and these four runs. It is at least one unit of the element, and at least
// the median distance of the value's elements. The given value itself is not used, because it may
// be wrong. The rounding is infinite for integers and bools that differ. It is infinite for
// elements that are a number in one run and an infinity or NaN in another, too. A value is exact if
// all runs agree on it in every bit.
//
// If the program cannot run in f64 (an index beyond its range, ranks that run C++ functions), the
// unchanged run becomes the reference. Values that fewer than two of these runs made are not
// measured, nor are values without contents (inside a line).
void measure_rounding(const Job& job, const Registries& registries,
                      std::vector<RecordedValue>& seen);

}  // namespace shardproof
