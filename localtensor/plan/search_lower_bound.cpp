// Implements search_lower_bound.h: a recursion over the positions of all axes, with a memory.
//
// A combination of positions is a number with one byte an axis. The positions of a state follow
// from its layouts dim by dim; the part of each layout in the number is cached.
//
// A call is cheaper if more axes cut the tensor and fewer take part. Hence these restrictions do
// not raise the least price:
//   - an axis at its goal stays: it blocks no other
//   - an axis that can be sliced to its goal is sliced at once
//   - an axis gathered from spare digits, or from a place that no other axis needs, could have
//     stayed: it is not sliced to spare digits again
// So no combination follows itself, and the recursion ends.
//
// Example, axes a and b of 2 ranks that change places. Both in one all_to_all: n = 4, and pieces
// are 4 times as long as in an all_to_all without common digits. It sends 3 times the part. a to
// spare digits, b to its goal, a to its goal: 1/2 each, and 3 calls. a and b to spare digits, then
// to their goals: 3/4 each, and 2 calls; the bound is this price.
#include "shardproof/localtensor/plan/search_lower_bound.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace shardproof {

namespace {

constexpr size_t kFewPlaces = 16;     // for which memory is reserved
constexpr size_t kMaxPosition = 127;  // so that twice a position is a byte
constexpr uint64_t kNotKnown = std::numeric_limits<uint64_t>::max();

// Returns the size of the digits that an axis needs and another one cuts now; 1 if there are none.
// Digits of one number nest; if they begin at the same place, the first parts do. Other overlaps
// prove nothing.
int64_t common_size(const PlacementStates::Digits& need, const PlacementStates::Digits& used) {
  if (need.dim != used.dim || need.dim < 0) return 1;
  const int64_t first = std::max(need.first, used.first), last = std::min(need.last, used.last);
  if (last <= first) return 1;
  const bool nested =
      first % std::min(need.first, used.first) == 0 && std::max(need.last, used.last) % last == 0;
  if (need.first == used.first) return last / first;
  return nested && last % first == 0 ? last / first : 1;
}

}  // namespace

// True if no layout has both digits: the first ones do not divide the product of the sizes before
// the others.
bool digits_exclude(const PlacementStates::Digits& a, const PlacementStates::Digits& b) {
  if (a.dim != b.dim || a.dim < 0) return false;
  return std::max(a.first, b.first) % std::min(a.last, b.last) != 0;
}

bool digits_overlap(const PlacementStates::Digits& a, const PlacementStates::Digits& b) {
  return a.dim == b.dim && a.dim >= 0 && a.first < b.last && b.first < a.last;
}

ShuffleBound::ShuffleBound(const PlacementStates& states, const ShuffleUnits& units)
    : states_(states),
      call_(units.call),
      one_prime_(states.is_shuffle()),
      spares_(
          SpareAgreements::shared(states.digit_sizes(), 2 * states.members(states.all_axes()))) {
  for (const int axis : list_of_axes(states.active())) {
    Axis& facts = axes_.emplace_back();
    facts.places.reserve(kFewPlaces);
    facts.moves.reserve(kFewPlaces + kPlace);
    facts.axis = axis;
    facts.size = states.members(uint64_t{1} << axis);
    facts.goal = states.digits_of(states.goal(), axis);
    if (facts.goal.dim < 0) continue;
    with_goal_ |= 1u << (axes_.size() - 1);
    const auto at = static_cast<size_t>(facts.goal.dim);
    const DimLayouts& dim = states.dims()[at];
    facts.goal_cut = AxisCut(dim.dim(), dim.extent(), facts.size,
                             sizes_before(dim, states.goal().layouts[at], axis, facts.goal));
  }
  for (size_t cut = 0; cut < size_t{1} << axes_.size(); ++cut) {
    int64_t parts = 1;
    for (size_t i = 0; i < axes_.size(); ++i)
      if ((cut >> i & 1) != 0) parts *= axes_[i].size;
    parts_.push_back({units.whole / parts, units.part_bytes / parts, parts});
  }
  pairs_.resize(4 * axes_.size() * axes_.size());
  source_ = states.start();
  source_code_ = code_of(source_);
  start_ = positions_of(source_code_);
  has_start_ = true;
  if (!one_prime_) add_moves_spare();
  add_positions();
}

// Returns the sizes before an axis. They count only by their product if all cuts up to it are even.
std::vector<int64_t> ShuffleBound::sizes_before(const DimLayouts& dim, int layout, int axis,
                                                const PlacementStates::Digits& digits) const {
  const bool only_product = one_prime_ || dim.extent() % digits.last == 0;
  return only_product ? std::vector{digits.first} : dim.sizes_before(layout, axis);
}

// Computes the agreements of moves that leave the start to spare digits, or move to the goal from
// them. An axis that has just moved to spare digits cuts after even gaps, or after the gap that it
// left. If other axes leave their digits later, uneven gaps can stand before it.
void ShuffleBound::add_moves_spare() {
  for (size_t i = 0; i < axes_.size(); ++i) {
    Axis& facts = axes_[i];
    if (has_goal(i)) {
      facts.from_spare = spares_->largest(facts.goal_cut, CutGaps::nested);
      facts.from_long_spare = spares_->largest(facts.goal_cut, CutGaps::any);
    }
    if (start_[i] >= kPlace) {
      Place& place = facts.places[start_[i] - kPlace];
      place.to_spare = spares_->largest(place.cut, CutGaps::nested);
      if (has_goal(i) && place.cut.dim == facts.goal_cut.dim)
        facts.from_spare = std::max(facts.from_spare, place.to_goal);
    }
    if (facts.from_spare < facts.from_long_spare || facts.from_long_spare < facts.from_spare)
      facts.stays_spare = kLongSpare;
  }
}

void ShuffleBound::add_positions() {
  for (size_t i = 0; i < axes_.size(); ++i) {
    for (const uint8_t at : {kSpare, kLongSpare, kGoal}) add_position(i, at, 0);
    for (size_t at = 0; at < axes_[i].places.size(); ++at)
      add_position(i, static_cast<uint8_t>(kPlace + at), axes_[i].places[at].blocks);
    for (size_t at = 0; at < axes_[i].alone.size(); ++at) add_moves(i, static_cast<uint8_t>(at));
  }
}

void ShuffleBound::add_position(size_t axis, uint8_t at, uint8_t blocks) {
  Axis& facts = axes_[axis];
  const size_t count = std::max(facts.alone.size(), at + size_t{1});
  facts.alone.resize(count, 0);
  facts.blocks.resize(count, 0);
  facts.leaves.resize(count, 0);
  facts.arrives.resize(count, 0);
  facts.blocks[at] = blocks;
  if (!is_on_its_way(at)) return;
  facts.alone[at] = least_alone(axis, at);
  facts.leaves[at] = least_leaving(axis, at);
  facts.arrives[at] = least_arriving(axis, at);
}

void ShuffleBound::add_moves(size_t axis, uint8_t at) {
  Axis& facts = axes_[axis];
  if (at >= facts.moves.size()) facts.moves.resize(at + size_t{1});
  facts.moves[at] = {move_of(axis, at, at), move_of(axis, at, kGoal), move_of(axis, at, kSpare),
                     move_of(axis, at, facts.blocks[at] != 0 ? kWhole : kGathered)};
}

uint8_t ShuffleBound::position_of(size_t axis, const PlacementStates::Digits& digits,
                                  std::vector<int64_t> before) {
  Axis& facts = axes_[axis];
  if (digits == facts.goal && before == facts.goal_cut.before) return kGoal;
  for (size_t i = 0; i < facts.places.size(); ++i)
    if (facts.places[i].digits == digits && facts.places[i].cut.before == before)
      return static_cast<uint8_t>(kPlace + i);
  AxisCut cut(digits.dim, states_.dims()[static_cast<size_t>(digits.dim)].extent(), facts.size,
              std::move(before));
  if (digits == facts.goal && is_same_cut(cut, facts.goal_cut)) return kGoal;
  for (size_t i = 0; i < facts.places.size(); ++i)
    if (facts.places[i].digits == digits && is_same_cut(facts.places[i].cut, cut))
      return static_cast<uint8_t>(kPlace + i);
  if (kPlace + facts.places.size() > kMaxPosition) return one_prime_ ? kSpare : kLongSpare;
  Place place;
  place.digits = digits;
  bool is_needed = false;
  for (size_t other = 0; other < axes_.size(); ++other) {
    place.common[other] = common_size(axes_[other].goal, digits);
    if (digits_overlap(axes_[other].goal, digits)) {
      is_needed = true;
      place.overlaps |= static_cast<uint8_t>(1u << other);
    }
    if (other != axis && digits_exclude(axes_[other].goal, digits))
      place.blocks |= static_cast<uint8_t>(1u << other);
  }
  if (one_prime_ && !is_needed) return kSpare;
  if (!one_prime_ && has_goal(axis))
    place.to_goal = std::max(agreement(cut, facts.goal_cut), CutAgreement{1, facts.size});
  place.cut = std::move(cut);
  const auto at = static_cast<uint8_t>(kPlace + facts.places.size());
  facts.places.push_back(std::move(place));
  if (!has_start_) return at;
  add_position(axis, at, facts.places.back().blocks);
  add_moves(axis, at);
  return at;
}

inline ShuffleBound::Call ShuffleBound::Call::operator+(const Call& o) const {
  const auto all = std::bit_cast<uint64_t>(sets) | std::bit_cast<uint64_t>(o.sets);
  Call both = {to | o.to, next | o.next, moves | o.moves, std::bit_cast<Sets>(all)};
  both.now = std::max(now, o.now);
  both.most = std::max(most, o.most);
  both.whole = whole * o.whole;
  return both;
}

// Returns the part of an axis in Call::moves.
uint64_t ShuffleBound::number_of_move(size_t axis, uint8_t at, uint8_t to) {
  uint64_t number = is_whole(at) ? 0 : 1;
  if (at != to) number = 2 * uint64_t{at} + (to == kGoal ? 1 : 0);
  return number << (8 * axis);
}

// Returns the call in which one axis goes from a position to another, or stays.
ShuffleBound::Call ShuffleBound::move_of(size_t axis, uint8_t at, uint8_t to) const {
  const Axis& facts = axes_[axis];
  const auto byte = [&](uint64_t value) { return value << (8 * axis); };
  const auto bit = static_cast<uint8_t>(1u << axis);
  Call call;
  call.to = byte(to);
  call.next = byte(at == kSpare && to == kSpare ? facts.stays_spare : to);
  call.moves = number_of_move(axis, at, to);
  if (!is_whole(at)) call.sets.cut_before = bit;
  if (!is_whole(to)) call.sets.cut = bit;
  call.sets.blocked = facts.blocks[to];
  if (is_on_its_way(to)) {
    call.sets.on_way = bit;
    if (has_goal(axis)) call.most = facts.alone[to];
  }
  if (to == kGathered && !has_goal(axis)) call.whole = facts.size;
  if (to == at) return call;
  call.now = least_moving(axis, at, to);
  call.sets.moved = bit;
  if (to == kGoal) call.sets.goal = bit;
  if (at < kPlace) return call;
  const auto dim = static_cast<uint8_t>(1u << place(axis, at).digits.dim);
  if (at == start_[axis])
    call.sets.left_start = dim;
  else if (to != kGoal)
    call.sets.left_places = dim;
  return call;
}

ShuffleBound::Call ShuffleBound::call_of(const Positions& from, const Positions& to) const {
  Call call;
  for (size_t i = 0; i < axes_.size(); ++i)
    call = call + (from[i] == to[i] ? axes_[i].moves[from[i]].stay : move_of(i, from[i], to[i]));
  return call;
}

ExactCost ShuffleBound::least(const PlacementState& state, Int128 limit) {
  return solve(code_of(state), limit).cost;
}

ExactCost ShuffleBound::quick_least(const PlacementState& state) {
  const Positions at = positions_of(code_of(state));
  return {least_rest_of_all(call_of(at, at)), 0};
}

// Returns the axes that other axes block: the other axes stay, for now, on some digits of their
// goals.
uint32_t ShuffleBound::blocked_axes(const Positions& at) const {
  uint32_t blocked = 0;
  for (size_t i = 0; i < axes_.size(); ++i) blocked |= axes_[i].blocks[at[i]];
  return blocked;
}

// Returns the axes that can leave their place for spare digits in a call that is_tried. No such
// call is tried if no axis can leave the start on the same dim.
uint32_t ShuffleBound::leaving_axes(const Positions& from) const {
  uint32_t in_start = 0, leaving = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (from[i] >= kPlace && from[i] == start_[i])
      in_start |= axes_[i].moves[from[i]].spare.sets.left_start;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (from[i] < kPlace) continue;
    const uint32_t left = axes_[i].moves[from[i]].spare.sets.left_places;
    if (one_prime_ || (left & ~in_start) == 0) leaving |= 1u << i;
  }
  return leaving;
}

// True if the call with one more move, and all later calls, cost more than the best one. False if
// this does not follow without adding up the moves.
inline bool ShuffleBound::is_above(Int128 best, const Call& call, const Call& move) const {
  Int128 least = call_ + std::max(call.now, move.now);
  if ((call.sets.on_way | move.sets.on_way) != 0) least += std::max(call.most, move.most) + call_;
  return best < least;
}

// True if no axis without a goal is on its way or stays whole.
inline bool ShuffleBound::has_simple_rest(const Call& call) const {
  return (call.sets.on_way & ~with_goal_) == 0 && call.whole == 1;
}

inline bool ShuffleBound::is_tried(const Sets& sets) const {
  return one_prime_ || (sets.left_places & ~sets.left_start) == 0;
}

// Returns the call in which all axes but the `open` ones stay.
ShuffleBound::Call ShuffleBound::stay_of(const Positions& from, uint32_t open) const {
  Call call;
  for (size_t i = 0; i < axes_.size(); ++i)
    if ((open >> i & 1) == 0) call = call + axes_[i].moves[from[i]].stay;
  return call;
}

// Tries the positions to which an all_to_all can move the `open` axes. An axis that moves from
// spare digits to other spare digits, or leaves its goal, costs no less than one that stays.
void ShuffleBound::try_moves(const Positions& from, uint32_t leaving, const Call& call,
                             uint32_t open, ExactCost& best) {
  if (!has_simple_rest(call) && best.primary < call_ + call.now + least_rest(call)) return;
  if (open == 0) {
    if (!is_tried(call.sets)) return;
    Choice& rest = choice_after(call);
    const Int128 least = least_after(call, rest);
    if (best.primary < call_ + call.now + least) return;
    const ExactCost price = price_of_call(StepKind::all_to_all, from, call);
    if (best.primary < price.primary + least) return;
    solve(call.next, best.primary - price.primary, rest);
    if (rest.known) best = std::min(best, price + rest.cost);
    return;
  }
  const auto axis = static_cast<size_t>(std::countr_zero(open));
  const auto go = [&](const Call& move) {
    if (is_above(best.primary, call, move)) return;
    try_moves(from, leaving, call + move, open & (open - 1), best);
  };
  const Moves& ways = axes_[axis].moves[from[axis]];
  if (from[axis] < kPlace) go(ways.stay);
  if ((leaving >> axis & 1) != 0) go(ways.spare);
  if (has_goal(axis)) go(ways.goal);
}

ExactCost ShuffleBound::least_over(const PlacementState& state, StepKind kind, uint64_t axes,
                                   Int128 limit) {
  const uint64_t code = code_of_source(state);
  const Positions from = positions_of(code);
  if (kind == StepKind::all_gather) {
    Positions at = from;
    for (size_t i = 0; i < axes_.size(); ++i)
      if ((axes >> axes_[i].axis & 1) != 0) at[i] = kWhole;
    const ExactCost call = price_of_call(kind, from, call_of(from, at));
    return call + solve(code_of(at), limit - call.primary).cost;
  }
  Choice& over = over_[axes << 48 | code];
  if (over.known || over.cost.primary > limit) return over.cost;
  ExactCost best{limit + 1, 0};
  uint32_t open = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    if ((axes >> axes_[i].axis & 1) != 0 && from[i] != kGoal) open |= 1u << i;
  try_moves(from, leaving_axes(from), stay_of(from, open), open, best);
  over.cost = best;
  over.known = best.primary <= limit;
  return best;
}

bool ShuffleBound::tries(const PlacementState& from, const PlacementState& to, uint64_t axes) {
  if (one_prime_) return true;
  const Positions before = positions_of(code_of_source(from)), after = positions_of(code_of(to));
  uint32_t left_start = 0, left_places = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if ((axes >> axes_[i].axis & 1) == 0 || before[i] < kPlace || before[i] == after[i]) continue;
    const uint32_t dim = 1u << place(i, before[i]).digits.dim;
    if (before[i] == start_[i])
      left_start |= dim;
    else if (after[i] != kGoal)
      left_places |= dim;
  }
  return (left_places & ~left_start) == 0;
}

uint64_t ShuffleBound::only_to_goal(const PlacementState& from, uint64_t axes) {
  if (one_prime_) return 0;
  const Positions at = positions_of(code_of_source(from));
  uint32_t left_start = 0;
  uint64_t to_goal = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    if ((axes >> axes_[i].axis & 1) != 0 && at[i] >= kPlace && at[i] == start_[i])
      left_start |= 1u << place(i, at[i]).digits.dim;
  for (size_t i = 0; i < axes_.size(); ++i)
    if ((axes >> axes_[i].axis & 1) != 0 && at[i] >= kPlace && at[i] != start_[i] &&
        (left_start >> place(i, at[i]).digits.dim & 1) == 0)
      to_goal |= uint64_t{1} << axes_[i].axis;
  return to_goal;
}

ExactCost ShuffleBound::least_call(const PlacementState& from, const PlacementState& to,
                                   uint64_t axes) {
  const Positions before = positions_of(code_of_source(from));
  Positions after = positions_of(code_of(to));
  uint64_t moves = 0;
  size_t cut_before = 0, cut = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if ((axes >> axes_[i].axis & 1) == 0) after[i] = before[i];
    moves |= number_of_move(i, before[i], after[i]);
    if (!is_whole(before[i])) cut_before |= size_t{1} << i;
    if (!is_whole(after[i])) cut |= size_t{1} << i;
  }
  const Int128 known = prices_[moves];
  if (known != 0) return {known, 2 * (parts_[cut_before].bytes + parts_[cut].bytes)};
  return price_of_call(StepKind::all_to_all, before, call_of(before, after));
}

uint64_t ShuffleBound::code_of_layout(const DimLayouts& dim, int layout) {
  uint64_t code = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const int axis = axes_[i].axis;
    if ((dim.axes(layout) >> axis & 1) == 0) continue;
    const int64_t first = dim.first_place(layout, axis);  // 0: not a digit
    const PlacementStates::Digits digits = {dim.dim(), first, first * axes_[i].size};
    uint8_t at = one_prime_ ? kSpare : kLongSpare;
    if (first > 0) at = position_of(i, digits, sizes_before(dim, layout, axis, digits));
    code |= static_cast<uint64_t>(at) << (8 * i);
  }
  return code;
}

uint64_t ShuffleBound::code_of(const PlacementState& state) {
  uint64_t code = 0;
  const std::vector<DimLayouts>& dims = states_.dims();
  const size_t count = dims.size();
  for (size_t dim = 0; dim < count; ++dim) {
    if (state.layouts[dim] == 0) continue;  // nothing cuts the dim
    const size_t at = static_cast<size_t>(state.layouts[dim]) * count + dim;
    if (at >= of_layouts_.size()) of_layouts_.resize(2 * at + 64, kNotKnown);
    if (of_layouts_[at] == kNotKnown)
      of_layouts_[at] = code_of_layout(dims[dim], state.layouts[dim]);
    code |= of_layouts_[at];
  }
  return code;
}

uint64_t ShuffleBound::code_of_source(const PlacementState& state) {
  if (!(state == source_)) {
    source_ = state;
    source_code_ = code_of(state);
  }
  return source_code_;
}

uint64_t ShuffleBound::code_of(const Positions& at) const {
  uint64_t code = 0;
  for (size_t i = 0; i < axes_.size(); ++i) code |= static_cast<uint64_t>(at[i]) << (8 * i);
  return code;
}

const ShuffleBound::Part& ShuffleBound::part_of(const Positions& at) const {
  size_t cut = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (!is_whole(at[i])) cut |= size_t{1} << i;
  return parts_[cut];
}

bool ShuffleBound::is_done(const Positions& at) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (has_goal(i) ? at[i] != kGoal : !is_whole(at[i])) return false;
  }
  return true;
}

// Slices the axes from `axis` on. If `at_once`, an axis whose goal is free moves there.
template <typename Each>
void ShuffleBound::for_each_slice(const Positions& from, Positions at, size_t axis, bool at_once,
                                  const Each& each) {
  if (axis == axes_.size()) return each(at);
  if (is_whole(from[axis]) && has_goal(axis) && (blocked_axes(from) >> axis & 1) == 0) {
    at[axis] = kGoal;
    for_each_slice(from, at, axis + 1, at_once, each);
    if (at_once) return;
    at[axis] = from[axis];
  }
  for_each_slice(from, at, axis + 1, at_once, each);
  if (from[axis] != kWhole) return;
  at[axis] = kSpare;
  for_each_slice(from, at, axis + 1, at_once, each);
}

// Returns the entry of a table for the combination after a call.
ShuffleBound::Choice& ShuffleBound::choice_after(const Call& call) {
  const bool slices = call.sets.cut + size_t{1} != parts_.size();
  return slices ? ways_[call.next] : calls_[call.next];
}

// Returns a lower bound of the price after a call: of its entry, and least_rest_of_all.
Int128 ShuffleBound::least_after(const Call& call, Choice& after) {
  Int128 rest = after.least_rest;
  if (rest == 0 || call.to != call.next) rest = least_rest_of_all(call);
  if (call.to == call.next) after.least_rest = rest;
  return std::max(rest, after.cost.primary);
}

const ShuffleBound::Choice& ShuffleBound::solve(uint64_t code, Int128 limit) {
  const Positions from = positions_of(code);
  bool slices = false;
  for (size_t i = 0; i < axes_.size(); ++i) slices = slices || is_whole(from[i]);
  return solve(code, limit, slices ? ways_[code] : calls_[code]);
}

// Computes the choice of a combination in its table.
const ShuffleBound::Choice& ShuffleBound::solve(uint64_t code, Int128 limit, Choice& way) {
  if (way.known || way.cost.primary > limit) return way;
  const Positions from = positions_of(code);
  bool slices = false;
  for (size_t i = 0; i < axes_.size(); ++i) slices = slices || is_whole(from[i]);
  if (!slices) return solve_call(code, limit, way);
  Choice best;
  best.cost.primary = limit + 1;
  for_each_slice(from, from, 0, true, [&](const Positions& at) {
    const uint64_t sliced = code_of(at);
    Choice& next = calls_[sliced];
    const Int128 most = best.cost.primary;
    if (next.cost.primary > most || most < least_rest(call_of(at, at))) return;
    solve_call(sliced, most, next);
    if (!next.known) return;
    const int64_t peak = at == from ? 0 : part_of(from).bytes + part_of(at).bytes;
    const ExactCost cost = ExactCost{0, peak} + next.cost;
    if (!(cost < best.cost)) return;
    best = next;
    best.cost = cost;
  });
  best.least_rest = way.least_rest;
  return way = best;
}

std::vector<ShuffleBound::Choice> ShuffleBound::options(uint64_t code, Int128 limit) {
  std::vector<Choice> found;
  const Int128 most = std::min(solve(code).cost.primary / 4 * 7, limit);
  const Positions from = positions_of(code);
  for_each_slice(from, from, 0, false, [&](const Positions& at) {
    Choice limit = {{most, 0}, true, StepKind::local, code_of(at), 0};
    if (is_done(at)) found.push_back({{}, true, StepKind::local, limit.sliced, 0});
    options_ = &found;
    try_calls(at, limit);
    options_ = nullptr;
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const Choice& a, const Choice& b) { return a.cost < b.cost; });
  return found;
}

const ShuffleBound::Choice& ShuffleBound::solve_call(uint64_t code, Int128 limit, Choice& call) {
  if (call.known || call.cost.primary > limit) return call;
  const Positions from = positions_of(code);
  Choice best;
  best.sliced = code;
  if (is_done(from)) {
    best.known = true;
    return call = best;
  }
  best.cost.primary = limit + 1;
  try_calls(from, best);
  best.least_rest = call.least_rest;
  return call = best;
}

// Tries the calls from a combination. Only axes that can move are tried one after another.
void ShuffleBound::try_calls(const Positions& from, Choice& best) {
  const uint32_t leaving = leaving_axes(from);
  uint32_t to_goal = 0, on_way = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (!is_on_its_way(from[i])) continue;
    on_way |= 1u << i;
    if (has_goal(i)) to_goal |= 1u << i;
  }
  const uint32_t open = leaving | to_goal;
  if (open != 0) try_all_to_alls(from, leaving, stay_of(from, open), open, best);
  Int128 least = best.cost.primary + 1;  // of an all_gather
  for (uint32_t left = on_way; left != 0; left &= left - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(left));
    least = std::min(least, axes_[i].moves[from[i]].gathered.now + call_);
  }
  if (!(best.cost.primary < least)) try_gathers(from, stay_of(from, on_way), on_way, best);
}

void ShuffleBound::try_gathers(const Positions& from, const Call& call, uint32_t open,
                               Choice& best) {
  if (open == 0) return offer(StepKind::all_gather, from, call, best);
  const Int128 sent = parts_[call.sets.cut | open].sent - parts_[call.sets.cut_before | open].sent;
  if (best.cost.primary < call_ + sent + least_rest(call)) return;
  const auto axis = static_cast<size_t>(std::countr_zero(open));
  const Moves& ways = axes_[axis].moves[from[axis]];
  try_gathers(from, call + ways.stay, open & (open - 1), best);
  if (!(best.cost.primary < call_ + ways.gathered.now))
    try_gathers(from, call + ways.gathered, open & (open - 1), best);
}

// Requires open axes.
void ShuffleBound::try_all_to_alls(const Positions& from, uint32_t leaving, const Call& call,
                                   uint32_t open, Choice& best) {
  if (!has_simple_rest(call) && best.cost.primary < call_ + call.now + least_rest(call)) return;
  const auto axis = static_cast<size_t>(std::countr_zero(open));
  const uint32_t others = open & (open - 1);
  const Moves& ways = axes_[axis].moves[from[axis]];
  const auto go = [&](const Call& move) {
    const Sets &set = call.sets, &more = move.sets;
    if (((set.goal | more.goal) & (set.blocked | more.blocked)) != 0) return;
    if (is_above(best.cost.primary, call, move)) return;
    if (others != 0) return try_all_to_alls(from, leaving, call + move, others, best);
    Sets left = set;
    left.left_places |= more.left_places;
    left.left_start |= more.left_start;
    if (is_tried(left)) offer(StepKind::all_to_all, from, call + move, best);
  };
  if (has_goal(axis)) go(ways.goal);
  go(ways.stay);
  if ((leaving >> axis & 1) != 0) go(ways.spare);
}

void ShuffleBound::offer(StepKind kind, const Positions& from, const Call& call, Choice& best) {
  if (call.sets.moved == 0) return;
  Choice& way = choice_after(call);
  const Int128 least = least_after(call, way);
  if (best.cost.primary < call_ + call.now + least) return;
  const ExactCost price = price_of_call(kind, from, call);
  if (best.cost.primary < price.primary + least) return;
  std::vector<Choice>* options = std::exchange(options_, nullptr);
  solve(call.next, best.cost.primary - price.primary, way);
  options_ = options;
  if (!way.known) return;
  const ExactCost cost = price + way.cost;
  if (options_ != nullptr) {
    if (cost.primary <= best.cost.primary)
      options_->push_back({cost, true, kind, best.sliced, call.next});
    return;
  }
  if (cost < best.cost) best = {cost, true, kind, best.sliced, call.next};
}

ExactCost ShuffleBound::price_of_call(StepKind kind, const Positions& from, const Call& call) {
  const Part &before = parts_[call.sets.cut_before], &after = parts_[call.sets.cut];
  if (kind == StepKind::all_gather)
    return {after.sent - before.sent + call_, before.bytes + 2 * after.bytes};
  Int128& price = prices_[call.moves];
  if (price == 0)
    price = std::max(least_sent(from, positions_of(call.to), before.sent), call.now) + call_;
  return {price, 2 * (before.bytes + after.bytes)};
}

}  // namespace shardproof
