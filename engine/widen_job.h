// The same job in wider floats. Where a program is long, worst-case bounds of narrow floats grow
// until they allow what no honest run would give; in f64 the same bounds are some hundred million
// times tighter. A program whose shards disagree with one device there disagrees by more than
// rounding.
#pragma once

#include <map>
#include <set>

#include "shardproof/engine/job.h"
#include "shardproof/engine/sides.h"

namespace shardproof {

// Whether values were compared within bounds too wide to tell right from wrong, and nothing but
// values was found wrong. Never of rank functions in C++, which choose their dtypes themselves.
bool needs_wider_floats(const Job& job, const Outcome& outcome);

// On simulated ranks, without times, with nothing kept.
Job on_simulated_ranks(const Job& job);
// The same, with inputs in f64 and c128; what lines make is widened when they are lowered
// (widen_program.h).
Job with_wider_floats(const Job& job);

// Values of the truth that are wrong in f64, where narrow floats deny it (sides.h).
std::set<ValueId> denied_values(const std::map<ValueId, Sides>& wide,
                                const std::map<ValueId, Sides>& narrow);

// Wrong values of the wider run become findings, in place of those that the run itself found no
// earlier.
void tell_what_wider_floats_show(const Job& job, const Outcome& wider, Outcome& outcome);

}  // namespace shardproof
