// Measured rounding: how far an honest run of a program may lie from exact arithmetic, element by
// element, found by running it again. Recorded runs keep it, and two runs of one program are
// compared by it (scenarios/record/run_comparison.h). The idea is that of Monte Carlo arithmetic
// (Parker, UCLA CSD-970002, 1997).
#pragma once

#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/engine/job/recorded_value.h"

namespace shardproof {

// Sets `measured` and `rounding` of values that a run of this job made.
//
// The job runs again on simulated ranks: once with all floats in f64, which is the reference, and
// four times in its own dtypes: as it is, and rounding up, down and to zero, each of these with
// another order of addition over ranks. The rounding of an element is the largest distance between
// the reference and these four runs; at least one unit of the element, and at least the median of
// the distances of the value's elements. The given value itself counts for nothing, because it may
// be wrong.
// It is infinite where one of these runs has a number and another an infinity or a NaN, and for an
// integer or bool that they do not agree on. A value on which all of them agree to the bit is
// exact.
//
// If the program cannot run in f64 (an index beyond its range, ranks that run C++ functions),
// the run in its own dtypes as it is becomes the reference. Values that fewer than two of these
// runs made, and values without contents (inside a line), are not measured.
void measure_rounding(const Job& job, const Registries& registries,
                      std::vector<RecordedValue>& seen);

}  // namespace shardproof
