// Bounds of outputs of which worst cases say nothing any more, measured in f64: how far the truth
// and the ranks move when every element of the inputs is moved by some 2^-45 of itself, and every
// operation rounds in another direction. Two honest runs lie well within a multiple of it, whatever
// the program makes of its roundings; what leaves it is no rounding. The idea is that of Monte
// Carlo arithmetic (Parker, UCLA CSD-970002, 1997) and of the thresholds of TTrace.
#pragma once

#include <map>
#include <string>

#include "shardproof/engine/job.h"
#include "shardproof/engine/sides.h"

namespace shardproof {

// A worst case that allows more than this share of a value is too wide in f64, and finer than most
// bugs.
inline constexpr double kWideInF64 = 1e-6;

// While it lives, floats of this thread are rounded up, down, to zero, or to nearest, by `time`.
class OtherRounding {
 public:
  explicit OtherRounding(int time);
  ~OtherRounding();
  OtherRounding(const OtherRounding&) = delete;
  OtherRounding& operator=(const OtherRounding&) = delete;

 private:
  int before_;
};

// The job with its floats moved, each time in another way, on the host.
Job with_moved_inputs(const Job& job, int time);

// By value of the truth: the greatest movement of truth or ranks, over all elements and times;
// infinity where one is a number only sometimes. What nothing moves is left out: of it this says
// nothing.
using Movements = std::map<ValueId, double>;
void add_movements(const std::map<ValueId, Sides>& still, const std::map<ValueId, Sides>& moved,
                   Movements& movements);

// What a finding says of it.
std::string words_of_movement(double movement);

// No wider than the worst case, and no finer than kWideInF64 of the largest element.
Bound measured_bound(const Bound& worst, const Tensor& truth, double movement);

}  // namespace shardproof
