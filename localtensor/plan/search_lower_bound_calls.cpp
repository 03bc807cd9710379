// Implements the part of search_lower_bound.h that bounds what an all_to_all sends, and the calls
// after a call.
//
// Price of an all_to_all of several axes (least_sent). The elements on which an axis agrees solve
// an equation of two indices. One index is of the dim that the axis leaves, one of the dim that it
// moves to. This is an edge between two dims. The indices of different dims are independent. If an
// edge leads to a dim that no earlier edge touches, it holds for at most the share of the largest
// part there. This does not depend on the earlier edges. So the fractions of edges that form no
// cycle multiply; other edges are left out. The first edge of a tree counts exactly. Axes between
// the same two dims are one edge, with the largest part of one coordinate on each of them. A move
// along a dim is an edge to a node of its own, because a dim can have only one of them.
//
// If one end of an edge is a spare position, its dim is not known:
//   - If it is a dim of another tree, the edge counts on its known dim.
//   - If it is a dim of the same tree, the edge closes a cycle through an edge at its known dim.
//     Both count there together.
//   - If it is the known dim, the edge is a move along it.
// The largest of these fractions holds in each case (spare_of). In each tree one such edge counts.
// Several can close a cycle through their trees, which leaves out one of them, the one with the
// larger fraction. In the worst case this happens to every second one, by size (most_common).
//
// Example: a moves from dim 0 to 1, b from 0 to 2, c from 1 to 2. The edges of a and b form a tree;
// the edge of c closes a cycle. For axes of 2 ranks the call sends at least 1 - 1/2 * 1/2 of a
// part. Another: a moves from dim 0 to 1, c from spare digits to dim 1. If c leaves dim 0, both
// edges join the same dims: 1/4 of the elements of dim 1 have one coordinate of a and one of c. If
// c comes from another dim, the share is 1/2 * 1/2.
//
// If axes move to goal digits that others leave in the same call, all pieces are as long as the
// largest one (least_padded). On a dim with such digits, take the largest part with one coordinate
// before and after on each axis. Divided among the other axes, it is a lower bound of the largest
// piece.
//
// Price of the calls after a call (least_rest, least_rest_of_all). The recursion leaves out a call
// if its price and this bound exceed the best one, so closer bounds save time and change no price.
//
//   least_rest         one call, in which the axis that must send most moves to its goal; and an
//                      all_gather of the axes that the goal does not cut. Both have their own call.
//   least_rest_of_all  also two calls if an axis blocks another one
//
// Axes that are gathered multiply the parts that the others send. If axes of m and n ranks are
// gathered, the calls send at least m * n - 1 parts together, in any order. An axis without a goal
// that is whole stays so, and all later parts are longer by its size.
//
// Example: a is at digits that b needs; both have 2 ranks. Either a leaves in one call and b moves
// in another, 1/2 each. Or both move at once, padded to 3/4 * 2. Or both are gathered, 3 parts. So
// at least 1 part and two calls are needed, or 3/2 parts and one call.
#include <algorithm>
#include <bit>
#include <numeric>

#include "shardproof/localtensor/plan/search_lower_bound.h"

namespace shardproof {

namespace {

// Dims as nodes of a graph without cycles. One more node stands for moves along a dim.
class Forest {
 public:
  static constexpr int kAlongADim = kMaxDims;
  Forest() { std::iota(tree_.begin(), tree_.end(), int8_t{0}); }
  // Adds an edge. Returns false, and adds none, if it closes a cycle.
  bool join(int a, int b) {
    const int8_t from = tree_[static_cast<size_t>(a)], to = tree_[static_cast<size_t>(b)];
    if (from == to) return false;
    std::replace(tree_.begin(), tree_.end(), from, to);
    return true;
  }
  int8_t tree(int dim) const { return tree_[static_cast<size_t>(dim)]; }

 private:
  std::array<int8_t, kMaxDims + 1> tree_{};
};

// Parts of a number of joint_of: the axis leaves a place; it reaches its goal.
uint64_t left_at(size_t axis, uint8_t at) { return 2 * uint64_t{at} << (8 * axis); }
uint64_t reached_by(size_t axis) { return uint64_t{1} << (8 * axis); }

bool goes_to_goal(const ShuffleBound::Positions& from, const ShuffleBound::Positions& to,
                  size_t axis) {
  return from[axis] >= ShuffleBound::kPlace && to[axis] == ShuffleBound::kGoal;
}

}  // namespace

// Returns the least amount that an all_to_all sends; see the top of this file.
Int128 ShuffleBound::least_sent(const Positions& from, const Positions& to, Int128 part) {
  if (!one_prime_) {
    const Int128 padded = least_padded(from, to, part);
    return padded > 0 ? padded : part - most_common(from, to, part);
  }
  int64_t n = 1, longer = 1;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (to[i] == from[i]) continue;
    n *= axes_[i].size;
    for (size_t other = 0; to[i] == kGoal && other < axes_.size(); ++other)
      if (from[other] >= kPlace && to[other] != from[other])
        longer *= place(other, from[other]).common[i];
  }
  return part / n * (n - 1) * longer;
}

// Returns the least that is sent if pieces are padded because digits overlap; 0 if none overlap.
Int128 ShuffleBound::least_padded(const Positions& from, const Positions& to, Int128 part) {
  uint32_t dims = 0, overlapped = 0;
  int64_t n = 1;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (to[i] == from[i]) continue;
    n *= axes_[i].size;
    if (from[i] >= kPlace) overlapped |= place(i, from[i]).overlaps;
  }
  for (; overlapped != 0; overlapped &= overlapped - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(overlapped));
    if (to[i] == kGoal && to[i] != from[i]) dims |= 1u << axes_[i].goal.dim;
  }
  if (dims == 0) return 0;
  Int128 sent = part / n * (n - 1);
  for (; dims != 0; dims &= dims - 1) {
    const int dim = std::countr_zero(dims);
    uint64_t number = 0;
    int64_t ranks = 1;
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (to[i] == from[i]) continue;
      const bool leaves = from[i] >= kPlace && place(i, from[i]).digits.dim == dim;
      const bool goes = to[i] == kGoal && axes_[i].goal.dim == dim;
      if (leaves) number |= left_at(i, from[i]);
      if (goes) number |= reached_by(i);
      if (leaves) ranks *= axes_[i].size;
      if (goes) ranks *= axes_[i].size;
    }
    const CutAgreement joint = joint_of(number);
    sent = sent / joint.whole * joint.part * ranks;
  }
  return sent;
}

// Returns the largest fraction of a dim that has one coordinate on each of the named axes. These
// leave a place on the dim, or reach their goal there.
CutAgreement ShuffleBound::joint_of(uint64_t number) {
  std::optional<CutAgreement>& joint = joints_[number];
  if (joint) return *joint;
  ShortList<const AxisCut*, size_t{2} * PlacementStates::kMaxShuffled> cuts;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const auto at = static_cast<uint8_t>(number >> (8 * i));
    if (at >= 2 * kPlace) cuts.push_back(&place(i, at / 2).cut);
    if (at % 2 != 0) cuts.push_back(&axes_[i].goal_cut);
  }
  joint = joint_part(cuts);
  return *joint;
}

// Returns the axes that move between known dims; one tie for each two dims, and for each axis that
// moves along its dim.
ShuffleBound::Ties ShuffleBound::ties_of(const Positions& from, const Positions& to) const {
  Ties ties;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (!goes_to_goal(from, to, i)) continue;
    const int left = place(i, from[i]).digits.dim, goal = axes_[i].goal.dim;
    Tie tie{std::min(left, goal), std::max(left, goal), 1u << i, place(i, from[i]).to_goal};
    if (left == goal) tie.b = Forest::kAlongADim;
    const auto known = std::find_if(ties.begin(), ties.end(), [&](const Tie& other) {
      return left != goal && other.a == tie.a && other.b == tie.b;
    });
    if (known == ties.end())
      ties.push_back(tie);
    else
      known->axes |= tie.axes;
  }
  return ties;
}

// Returns joint_of the axes where they leave the dim or reach it.
CutAgreement ShuffleBound::joint_at(const Positions& from, uint32_t axes, int dim) {
  uint64_t number = 0;
  for (; axes != 0; axes &= axes - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(axes));
    const bool left = from[i] >= kPlace && place(i, from[i]).digits.dim == dim;
    number |= left ? left_at(i, from[i]) : reached_by(i);
  }
  return joint_of(number);
}

// The axis leaves the dim to a spare position, or reaches it from one. Returns its largest
// agreement, relative to the agreement of the edges at the dim.
CutAgreement ShuffleBound::spare_of(const Positions& from, size_t axis, int dim, const Ties& ties) {
  CutAgreement most =
      from[axis] >= kPlace ? place(axis, from[axis]).to_spare : from_spare(axis, from[axis]);
  for (const Tie& tie : ties) {
    if (tie.a != dim && tie.b != dim) continue;
    const CutAgreement joint = joint_at(from, tie.axes | 1u << axis, dim);
    most =
        std::max(most, CutAgreement{joint.part * tie.common.whole, joint.whole * tie.common.part});
  }
  return most;
}

// Returns the exact agreement of the axes of an edge.
CutAgreement ShuffleBound::exact_of(const Positions& from, const Tie& tie) {
  uint64_t number = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    if ((tie.axes >> i & 1) != 0) number |= static_cast<uint64_t>(from[i]) << (8 * i);
  std::optional<CutAgreement>& known = exact_[number];
  if (known) return *known;
  ShortList<const AxisCut*, PlacementStates::kMaxShuffled> before, after;
  for (size_t i = 0; i < axes_.size(); ++i)
    if ((tie.axes >> i & 1) != 0) {
      const AxisCut *left = &place(i, from[i]).cut, *goal = &axes_[i].goal_cut;
      if (left->dim != tie.a) std::swap(left, goal);
      before.push_back(left);
      after.push_back(goal);
    }
  known = agreement_of_all(before, after);
  return *known;
}

// Returns the most of a part on which the edges of a tree agree, none of which has a spare end. One
// edge counts exactly, and each further one with its largest part on the dim away from that edge.
Int128 ShuffleBound::common_of_tree(const Positions& from, const Ties& ties, Int128 part) {
  const auto dims_of = [](const Tie& tie) {
    return 1u << tie.a | (tie.b == Forest::kAlongADim ? 0 : 1u << tie.b);
  };
  uint32_t along = 0;
  for (const Tie& tie : ties) {
    if (tie.b != Forest::kAlongADim) continue;
    part = tie.common.of(part);
    along |= dims_of(tie);
  }
  Int128 least = part;
  for (const Tie& root : ties) {
    if (along != 0 && root.b != Forest::kAlongADim) continue;
    uint32_t reached = along | dims_of(root);
    Int128 common = along != 0 ? part : exact_of(from, root).of(part);
    const auto grow = [&](const Tie& tie) {
      const uint32_t fresh = dims_of(tie) & ~reached;
      if (!std::has_single_bit(fresh) || fresh == dims_of(tie)) return false;
      common = joint_at(from, tie.axes, std::countr_zero(fresh)).of(common);
      reached |= fresh;
      return true;
    };
    while (std::any_of(ties.begin(), ties.end(), grow)) {
    }
    least = std::min(least, common);
  }
  return least;
}

// Returns the most of a part that ranks hold both before and after an all_to_all.
Int128 ShuffleBound::most_common(const Positions& from, const Positions& to, Int128 part) {
  const Int128 whole = part;
  Ties ties;
  Forest forest;
  for (Tie& tie : ties_of(from, to)) {
    if (!forest.join(tie.a, tie.b)) continue;
    if (tie.b != Forest::kAlongADim)
      tie.common = std::max(joint_at(from, tie.axes, tie.a), joint_at(from, tie.axes, tie.b));
    ties.push_back(tie);
  }
  std::array<CutAgreement, kMaxDims + 1> spare{};  // by tree
  std::array<bool, kMaxDims + 1> has_spare{};
  uint32_t trees = 0;  // with edges
  for (const Tie& tie : ties) trees |= 1u << forest.tree(tie.a);
  for (size_t i = 0; i < axes_.size(); ++i) {
    const bool leaves = from[i] >= kPlace;
    const bool is_goal = has_goal(i) && (from[i] == kGoal || to[i] == kGoal);
    if (to[i] == from[i] || goes_to_goal(from, to, i) || !(leaves || is_goal)) continue;
    const int dim = leaves ? place(i, from[i]).digits.dim : axes_[i].goal.dim;
    if (forest.tree(dim) == forest.tree(Forest::kAlongADim)) continue;
    const auto tree = static_cast<size_t>(forest.tree(dim));
    spare[tree] = std::min(spare[tree], spare_of(from, i, dim, ties));
    has_spare[tree] = true;
    trees |= 1u << tree;
  }
  ShortList<CutAgreement, kMaxDims + 1> spares;
  for (; trees != 0; trees &= trees - 1) {
    const auto tree = static_cast<size_t>(std::countr_zero(trees));
    if (has_spare[tree]) spares.push_back(spare[tree]);
    Ties its;
    for (const Tie& tie : ties)
      if (static_cast<size_t>(forest.tree(tie.a)) == tree) its.push_back(tie);
    if (its.empty()) continue;
    if (!has_spare[tree]) part = common_of_tree(from, its, part);
    for (const Tie& tie : its)
      if (has_spare[tree]) part = tie.common.of(part);
  }
  std::sort(spares.begin(), spares.end());
  for (size_t i = 0; i < spares.size(); i += 2) part = spares[i].of(part);
  ShortList<size_t, PlacementStates::kMaxShuffled> unknown;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (has_unknown_end(from, to, i)) unknown.push_back(i);
  for (size_t i = 0; i < unknown.size(); ++i)
    for (size_t j = i + 1; j < unknown.size(); ++j) {
      const size_t a = unknown[i], b = unknown[j];
      part = std::min(part, agreement_of_two(a, from[a], b, from[b]).of(whole));
    }
  return part;
}

// True if one end of a move is a spare position, and the other one the start or the goal.
bool ShuffleBound::has_unknown_end(const Positions& from, const Positions& to, size_t axis) const {
  if (is_spare(from[axis])) return to[axis] == kGoal;
  return from[axis] >= kPlace && from[axis] == start_[axis] && to[axis] != start_[axis] &&
         to[axis] != kGoal;
}

// Returns the most on which two axes agree that leave the start, or reach the goal, and whose other
// ends are spare positions.
CutAgreement ShuffleBound::agreement_of_two(size_t a, uint8_t from_a, size_t b, uint8_t from_b) {
  const bool starts_a = from_a >= kPlace, starts_b = from_b >= kPlace;
  std::optional<CutAgreement>& known =
      pairs_[(a * axes_.size() + b) * 4 + (starts_a ? 2U : 0U) + (starts_b ? 1U : 0U)];
  if (!known)
    known = spares_->largest_of_two(starts_a ? place(a, from_a).cut : axes_[a].goal_cut,
                                    starts_b ? place(b, from_b).cut : axes_[b].goal_cut);
  return *known;
}

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
  const int64_t gathered = parts_[call.sets.on_way & ~with_goal_].ranks;
  if (gathered == 1 && call.whole == 1) return call.most + call_;
  const int64_t going = parts_[call.sets.on_way & with_goal_].ranks;
  const Int128 part = parts_.back().sent * call.whole;
  const Int128 sent = call.most * call.whole + part * (gathered - 1) + call_;
  if (going == 1 || gathered == 1) return sent;
  return std::min(sent + call_, part * (gathered * going - 1) + call_);
}

// Returns the least price of the later calls if axis `j` stays on digits that axis `i` needs.
// Either j leaves in a call before i moves. Or both move in one all_to_all, which pads its pieces.
// Or i, j or both are gathered.
Int128 ShuffleBound::least_blocked(const Call& call, size_t i, size_t j) {
  const auto at = static_cast<uint8_t>(call.next >> (8 * j));
  const Int128 part = parts_.back().sent;
  const Int128 leaves = axes_[j].leaves[at];
  const Int128 arrives = axes_[i].arrives[static_cast<uint8_t>(call.next >> (8 * i))];
  const int64_t gathered = parts_[call.sets.on_way & ~with_goal_].ranks;
  const int64_t first = axes_[i].size, second = axes_[j].size, n = first * second;
  Int128 padded = part / n * (n - 1);
  if (one_prime_) {
    padded *= place(j, at).common[i];
  } else {
    const CutAgreement joint = joint_of(left_at(j, at) | reached_by(i));
    padded = padded / joint.whole * joint.part * n;
  }
  const auto gathers = [&](int64_t sizes) { return part * (sizes * gathered - 1); };
  const Int128 whole = call.whole, last = gathered > 1 ? call_ : 0;
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
          i != j && at >= kPlace && (place(j, at).overlaps >> i & 1) != 0)
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
