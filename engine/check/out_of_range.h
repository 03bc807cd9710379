// Judges values that f64 cannot judge, because one device leaves the range of a dtype on the way. A
// found-inf flag is set in f16 and never in f64, so the run in f64 takes the other branch.
//
// Example: `bad = any(isinf(g * 2))` with g of 60,000 in f16. One device then computes `scale =
// where(bad, scale / 2, scale)`, the ranks `scale * 2`. In f64 both are `scale`.
#pragma once

#include <vector>

#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/judging/judged_program.h"

namespace shardproof {

// `open` are values that differ in the own dtypes and are right in f64, or differ in another way
// there. Returns those on whose way one device leaves the range of a dtype that f64 does not leave.
// Their judgement is `wrong` if these conditions hold:
//   - three runs that round in other directions and add in other orders do not explain the
//     difference: they do not change an integer, or a float by a 64th of it;
//   - the ranks leave the range of a dtype too. Ranks that compute more precisely than one device
//     need not;
//   - they do so in as many places at least. Example: of two passes, one device alone leaves the
//     range in the first one, and both in the second one.
// Another run must confirm that. All others are not decided.
// `own` is the program on simulated ranks. Runs it five times, and `lifted` once.
std::vector<JudgedValue> differences_out_of_range(const std::vector<JudgedValue>& open,
                                                  const JudgedProgram& own,
                                                  const JudgedProgram& lifted,
                                                  const Registries& registries);

}  // namespace shardproof
