// The groups of a step. StepMembers: the members of a group, which are the ranks that differ in
// their coordinates on the step's axes. PaddedCounts: the elements to which the call of a step pads
// each message, by group. NCCL requires equal counts inside a group, so each group pads to its own
// largest message.
//
// Example: [3, 4] on a=2, b=2, from "a:S(1) b:S(0)" to "b:S(0)", an all_gather over a. The parts of
// the group at b=0 are [2, 2], those at b=1 are [1, 2]: counts 4 and 2.
#pragma once

#include <vector>

#include "shardproof/localtensor/plan/plan.h"

namespace shardproof {

class StepMembers {
 public:
  explicit StepMembers(const PlanStep& step) : axes_(step.axes) {
    for (int axis : axes_) sizes_.push_back(step.from.mesh().axis_size(axis));
    count_ = element_count(sizes_);
  }
  int64_t count() const { return count_; }
  // Returns the coordinate of member `index`, in group order, of the group of `coordinate`.
  Dims of(Dims coordinate, int64_t index) const {
    const Dims at = unravel(index, sizes_);
    for (int k = 0; k < at.size(); ++k) coordinate[axes_[static_cast<size_t>(k)]] = at[k];
    return coordinate;
  }

 private:
  std::vector<int> axes_;
  Dims sizes_;
  int64_t count_ = 1;
};

class PaddedCounts {
 public:
  // Requires a step with a call other than exchange. Takes constant time for even cuts, else time
  // in proportion to the ranks along the axes that cut one dim (all_to_all: to pairs of them).
  explicit PaddedCounts(const PlanStep& step);
  // Returns the axes whose coordinates decide the count. None of them is an axis of the step; empty
  // if all groups have one count.
  const std::vector<int>& axes() const { return axes_; }
  // Returns the count of the group with a member at this coordinate: the elements of one message in
  // each piece of the step.
  int64_t at(const Dims& coordinate) const;

  // The largest extent of a message in one dim, by the coordinates of `axes` in row-major order.
  struct Extents {
    std::vector<int> axes;
    Dims sizes;
    std::vector<int64_t> values;
  };

 private:
  int64_t pieces_;
  std::vector<Extents> dims_;
  std::vector<int> axes_;
};

}  // namespace shardproof
