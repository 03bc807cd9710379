// Implements the part of search_lower_bound.h that bounds the calls after a call. The recursion
// leaves out a call if its price and this bound exceed the best one, so closer bounds save time and
// change no price.
//
//   least_rest         one call, in which the axis that must send most moves to its goal; and an
//                      all_gather of the axes that the goal does not cut. Both have their own call.
//   least_rest_of_all  also two calls if an axis blocks another one
//
// Axes that are gathered multiply the parts that the others send. If axes of m and n ranks are
// gathered, the calls send at least m * n - 1 parts together, in whatever order. An axis without a
// goal that is whole stays so, and all later parts are longer by its size.
//
// Example: a is at digits that b needs; both have 2 ranks. There are three ways: a leaves in one
// call and b moves in another, 1/2 each; both move at once, padded to 3/4 * 2; or both are
// gathered, 3 parts. So at least 1 part and two calls, or 3/2 parts and one call.
#include <algorithm>
#include <bit>

#include "shardproof/localtensor/plan/search_lower_bound.h"

namespace shardproof {

// Returns the least that is sent by a call in which the axis moves, if all axes cut the tensor.
Int128 ShuffleBound::least_moving(size_t axis, uint8_t at, uint8_t to) const {
  const Int128 part = parts_.back().sent;
  const int64_t n = axes_[axis].size;
  if (is_whole(at)) return 0;
  if (is_whole(to)) return part * (n - 1);
  if (one_prime_) return part / n * (n - 1);
  if (at == kGoal) return 0;
  if (to == kGoal)
    return part - (at >= kPlace ? place(axis, at).to_goal : from_spare(axis, at)).of(part);
  return at >= kPlace ? part - place(axis, at).to_spare.of(part) : 0;
}

// Returns the least that is sent by the call in which the axis leaves.
Int128 ShuffleBound::least_leaving(size_t axis, uint8_t at) const {
  const Int128 spare = least_moving(axis, at, kSpare);
  return has_goal(axis) ? std::min(spare, least_moving(axis, at, kGoal)) : spare;
}

// Returns the least that is sent by the call in which the axis reaches its goal.
Int128 ShuffleBound::least_arriving(size_t axis, uint8_t at) const {
  if (!has_goal(axis)) return 0;
  return std::min(least_moving(axis, at, kGoal), least_moving(axis, kLongSpare, kGoal));
}

// If axes with and without goals are on their way, an all_to_all and an all_gather follow, or an
// all_gather of all of them.
Int128 ShuffleBound::least_rest(const Call& call) const {
  if (call.sets.on_way == 0) return 0;
  const Int128 part = parts_.back().sent * call.whole;
  const Int128 sent = call.most * call.whole + part * (call.gathered - 1) + call_;
  if (call.going == 1 || call.gathered == 1) return sent;
  return std::min(sent + call_, part * (call.gathered * call.going - 1) + call_);
}

// Returns the least price of the later calls if axis `j` stays on digits that axis `i` needs. There
// are three cases: j leaves in a call before i moves; both move in one all_to_all, which pads its
// pieces; or i, j or both are gathered.
Int128 ShuffleBound::least_blocked(const Call& call, size_t i, size_t j) {
  const auto at = static_cast<uint8_t>(call.next >> (8 * j));
  const Int128 part = parts_.back().sent;
  const Int128 leaves = axes_[j].leaves[at];
  const Int128 arrives = axes_[i].arrives[static_cast<uint8_t>(call.next >> (8 * i))];
  const int64_t first = axes_[i].size, second = axes_[j].size, n = first * second;
  Int128 padded = part / n * (n - 1);
  if (one_prime_) {
    padded *= place(j, at).common[i];
  } else {
    Positions left{};
    left[j] = at;
    const CutAgreement joint = joint_of(left, 1u << i);
    padded = padded / joint.whole * joint.part * n;
  }
  const auto gathers = [&](int64_t sizes) { return part * (sizes * call.gathered - 1); };
  const Int128 whole = call.whole, last = call.gathered > 1 ? call_ : 0;
  const auto least = [&](Int128 together, Int128 apart, Int128 whole_first) {
    return std::min({(together + gathers(1)) * whole + last,
                     (apart + gathers(1)) * whole + last + call_, whole_first * whole + call_});
  };
  if (!has_goal(j))
    return call_ + std::min(least(padded, leaves + arrives, arrives * second + gathers(1)),
                            gathers(first) * whole);
  return call_ + std::min(least(padded, leaves + arrives,
                                std::min(gathers(second) + arrives, gathers(first) + leaves)),
                          gathers(n) * whole);
}

Int128 ShuffleBound::least_rest_of_all(const Call& call) {
  Int128 least = least_rest(call);
  for (uint32_t blocked = call.sets.blocked & call.sets.on_way; blocked != 0;
       blocked &= blocked - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(blocked));
    for (size_t j = 0; has_goal(i) && j < axes_.size(); ++j)
      if (const auto at = static_cast<uint8_t>(call.next >> (8 * j));
          at >= kPlace && (place(j, at).pads >> i & 1) != 0)
        least = std::max(least, least_blocked(call, i, j));
  }
  return least;
}

// Returns the least that is sent if the axis leaves its place, or spare digits on its way, and all
// axes cut the tensor.
Int128 ShuffleBound::least_alone(size_t axis, uint8_t at) const {
  const Int128 part = parts_.back().sent;
  const int64_t n = axes_[axis].size;
  if (!has_goal(axis)) return part * (n - 1);
  if (one_prime_) return part / n * (n - 1);
  CutAgreement most = from_spare(axis, at == kSpare ? at : uint8_t{kLongSpare});
  if (at == start_[axis]) most = place(axis, at).to_spare;
  if (at >= kPlace) most = std::max(most, place(axis, at).to_goal);
  return part - most.of(part);
}

}  // namespace shardproof
