// The members of a step's group: the ranks that differ in their coordinates on the step's axes.
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

}  // namespace shardproof
