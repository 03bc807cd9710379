// Judges values that f64 cannot judge, because one device computes something else there: it leaves
// the range of a dtype on the way, or has another flag. A found-inf flag is set in f16 and never in
// f64, so the run in f64 takes the other branch.
//
// Example: `bad = any(isinf(g * 2))` with g of 60,000 in f16. One device then computes `scale =
// where(bad, scale / 2, scale)`, the ranks `scale * 2`. In f64 both are `scale`.
#pragma once

#include <vector>

#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/judging/judged_program.h"

namespace shardproof {

// A value that differs in the own dtypes, while f64 computes something else.
struct OtherInF64 {
  JudgedValue value;
  bool leaves_range = false;  // one device leaves the range of a dtype on the way to it
};

// `open` are values that differ in the own dtypes and are right in f64, or differ in another way
// there. Returns those for which one of these holds on the way to the value:
//   - one device leaves the range of a dtype that f64 does not leave;
//   - an integer or bool of one device is another one in f64, and three runs that round in other
//     directions and add in other orders do not explain the difference.
// The judgement is `wrong` if these runs do not explain it, and if the ranks leave the range of a
// dtype too; another run must confirm that. Else the value is not decided: ranks that compute more
// precisely than one device need not leave the range.
// The runs explain a difference if they change an integer, or a float by a 64th of the difference.
// `own` is the program on simulated ranks. Runs it five times, and `lifted` once.
std::vector<OtherInF64> differences_of_branches(const std::vector<JudgedValue>& open,
                                                const JudgedProgram& own,
                                                const JudgedProgram& lifted,
                                                const Registries& registries);

}  // namespace shardproof
