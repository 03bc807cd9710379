// The same job in wider floats. Where a program is long, worst-case bounds of narrow floats grow
// until they allow what no honest run would give; in f64 the same bounds are some hundred million
// times tighter. A program whose shards disagree with one device there disagrees by more than
// rounding.
#pragma once

#include "shardproof/engine/job.h"

namespace shardproof {

// Whether values were compared within bounds too wide to tell right from wrong, and nothing but
// values was found wrong. Never of rank functions in C++, which choose their dtypes themselves.
bool needs_wider_floats(const Job& job, const Outcome& outcome);

// Inputs and defaults in f64 and c128, on simulated ranks, without times.
Job with_wider_floats(const Job& job);

// Wrong values of the wider run become findings, in place of those that the run itself found no
// earlier.
void tell_what_wider_floats_show(const Outcome& wider, Outcome& outcome);

}  // namespace shardproof
