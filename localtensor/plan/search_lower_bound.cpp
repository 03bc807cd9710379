// Implements search_lower_bound.h: a recursion over the positions of all axes, with a memory.
//
// A combination of positions is a number with one byte an axis. The positions of a state follow
// from its layouts dim by dim; what each layout adds to the number is cached.
//
// Price of an all_to_all of several axes (least_sent). The elements on which an axis agrees are a
// condition that ties an index of the dim it leaves to one of the dim it goes to: an edge between
// two dims. The indices of different dims are independent. If an edge leads to a dim that no edge
// before it touches, it holds for at most the largest part of one coordinate there, whatever holds
// already. So the fractions of edges that form no cycle multiply; other edges are left out. A move
// along a dim is an edge to a node of its own, since a dim can have only one of them. If the
// position aside is the other end of an edge, that dim is not known: one such axis counts, on a dim
// that no other edge touches.
//
// Example: a moves from dim 0 to 1, b from 0 to 2, c from 1 to 2. The edges of a and b form a tree,
// that of c closes a cycle: the call sends at least 1 - 1/2 * 1/2 of a part, for axes of 2 ranks.
#include "shardproof/localtensor/plan/search_lower_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace shardproof {

namespace {

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

// Dims as nodes of a graph without cycles. One more node stands for moves along a dim.
class Forest {
 public:
  static constexpr int kAlongADim = kMaxDims;
  Forest() { std::iota(tree_.begin(), tree_.end(), int8_t{0}); }
  // Adds an edge. Returns false, and adds none, if it closes a cycle.
  bool join(int a, int b) {
    touched_ |= 1u << a | 1u << b;
    const int8_t from = tree_[static_cast<size_t>(a)], to = tree_[static_cast<size_t>(b)];
    if (from == to) return false;
    std::replace(tree_.begin(), tree_.end(), from, to);
    return true;
  }
  bool touches(int dim) const { return (touched_ >> dim & 1) != 0; }

 private:
  std::array<int8_t, kMaxDims + 1> tree_{};
  uint32_t touched_ = 0;
};

}  // namespace

ShuffleBound::ShuffleBound(const PlacementStates& states, const ShuffleUnits& units)
    : states_(states), call_(units.call), one_prime_(states.is_shuffle()) {
  for (const int axis : list_of_axes(states.active())) {
    Axis& facts = axes_.emplace_back();
    facts.axis = axis;
    facts.size = states.members(uint64_t{1} << axis);
    facts.home = states.digits_of(states.goal(), axis);
    facts.goal = cut_of(states.goal(), axis, facts.home);
  }
  for (size_t cut = 0; cut < size_t{1} << axes_.size(); ++cut) {
    int64_t parts = 1;
    for (size_t i = 0; i < axes_.size(); ++i)
      if ((cut >> i & 1) != 0) parts *= axes_[i].size;
    parts_.push_back({units.whole / parts, units.part_bytes / parts});
  }
  in_dims_.resize(states.dims().size());
  start_ = positions_of(code_of(states.start()));
  if (!one_prime_) add_moves_aside();
}

AxisCut ShuffleBound::cut_of(const PlacementState& state, int axis,
                             const PlacementStates::Digits& digits) const {
  if (digits.dim < 0) return {};
  const auto at = static_cast<size_t>(digits.dim);
  return cut_of(states_.dims()[at], state.layouts[at], axis, digits);
}

// Sizes before an axis count only by their product if all cuts up to it are even.
AxisCut ShuffleBound::cut_of(const DimLayouts& dim, int layout, int axis,
                             const PlacementStates::Digits& digits) const {
  AxisCut cut{dim.dim(), dim.extent(), digits.last / digits.first, {digits.first}};
  if (!one_prime_ && dim.extent() % digits.last != 0) cut.before = dim.sizes_before(layout, axis);
  return cut;
}

// Computes the agreements of moves that leave the start to a place aside, or go home from one.
void ShuffleBound::add_moves_aside() {
  const std::vector<int64_t> sizes = states_.digit_sizes();
  const int64_t most = 2 * states_.members(states_.all_axes());
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (has_home(i)) axes_[i].from_aside = largest_agreement(axes_[i].goal, sizes, most);
    if (start_[i] < kPlace) continue;
    Place& place = axes_[i].places[start_[i] - kPlace];
    place.aside = largest_agreement(place.cut, sizes, most);
  }
}

uint8_t ShuffleBound::position_of(size_t axis, const PlacementStates::Digits& digits,
                                  const AxisCut& cut) {
  Axis& facts = axes_[axis];
  if (digits == facts.home && owns_alike(cut, facts.goal)) return kHome;
  for (size_t i = 0; i < facts.places.size(); ++i)
    if (facts.places[i].digits == digits && owns_alike(facts.places[i].cut, cut))
      return static_cast<uint8_t>(kPlace + i);
  if (kPlace + facts.places.size() > std::numeric_limits<uint8_t>::max()) return kAside;
  Place place;
  place.digits = digits;
  place.cut = cut;
  bool blocks = false;
  for (size_t other = 0; other < axes_.size(); ++other) {
    place.common[other] = common_size(axes_[other].home, digits);
    blocks = blocks || place.common[other] > 1;
  }
  if (one_prime_ && !blocks) return kAside;
  if (!one_prime_ && has_home(axis)) {
    place.home = std::max(agreement(cut, facts.goal), CutAgreement{1, facts.size});
    place.largest = std::max(largest_part(cut), largest_part(facts.goal));
  }
  facts.places.push_back(std::move(place));
  return static_cast<uint8_t>(kPlace + facts.places.size() - 1);
}

ExactCost ShuffleBound::least(const PlacementState& state) { return solve(code_of(state)).cost; }

ExactCost ShuffleBound::least_of_one_axis(const PlacementState& state) {
  const Positions at = positions_of(code_of(state));
  if (!needs_call(at)) return {};
  Int128 most = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (is_cut_aside(at[i])) most = std::max(most, least_alone(i, at[i]));
  return {most + call_, 0};
}

// Returns the least that is sent if the axis leaves its place, or a place aside on its way, and all
// axes cut the tensor.
Int128 ShuffleBound::least_alone(size_t axis, uint8_t at) const {
  const Int128 part = parts_.back().sent;
  const int64_t n = axes_[axis].size;
  if (!has_home(axis)) return part * (n - 1);
  if (one_prime_) return part / n * (n - 1);
  CutAgreement most = axes_[axis].from_aside;
  if (at == start_[axis]) most = place(axis, at).aside;
  if (at != kAside) most = std::max(most, place(axis, at).home);
  return part - most.of(part);
}

// Tries the positions to which an all_to_all over `axes` can bring them. An axis that moves from
// aside to aside, or leaves home, costs no less than one that stays.
void ShuffleBound::try_moves(const Positions& from, Positions at, size_t axis, uint64_t axes,
                             ExactCost& best) {
  if (axis == axes_.size()) {
    if (!one_prime_ && !is_tried(from, at)) return;
    best = std::min(best, price_of_call(StepKind::all_to_all, from, at) + solve(code_of(at)).cost);
    return;
  }
  const bool moves = (axes >> axes_[axis].axis & 1) != 0 && from[axis] != kHome;
  if (!moves || from[axis] < kPlace) try_moves(from, at, axis + 1, axes, best);
  if (!moves) return;
  if (from[axis] >= kPlace) {
    at[axis] = kAside;
    try_moves(from, at, axis + 1, axes, best);
  }
  if (!has_home(axis)) return;
  at[axis] = kHome;
  try_moves(from, at, axis + 1, axes, best);
}

ExactCost ShuffleBound::least_over(const PlacementState& state, StepKind kind, uint64_t axes) {
  const uint64_t code = code_of(state);
  if (kind == StepKind::all_gather) {
    const Positions from = positions_of(code);
    Positions at = from;
    for (size_t i = 0; i < axes_.size(); ++i)
      if ((axes >> axes_[i].axis & 1) != 0) at[i] = kWhole;
    return price_of_call(kind, from, at) + solve(code_of(at)).cost;
  }
  const auto [known, fresh] = over_.try_emplace(axes << 48 | code);
  if (!fresh) return known->second;
  known->second.primary = std::numeric_limits<Int128>::max() / 4;
  const Positions from = positions_of(code);
  try_moves(from, from, 0, axes, known->second);
  return known->second;
}

bool ShuffleBound::is_tried(const Positions& from, const Positions& to) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (from[i] < kPlace || to[i] == from[i] || to[i] == kHome || from[i] == start_[i]) continue;
    bool leaves = false;
    for (size_t other = 0; other < axes_.size(); ++other)
      leaves = leaves ||
               (to[other] != from[other] && from[other] == start_[other] && from[other] >= kPlace &&
                place(other, from[other]).digits.dim == place(i, from[i]).digits.dim);
    if (!leaves) return false;
  }
  return true;
}

bool ShuffleBound::tries(const PlacementState& from, const PlacementState& to, uint64_t axes) {
  if (one_prime_) return true;
  const Positions before = positions_of(code_of(from));
  Positions after = positions_of(code_of(to));
  for (size_t i = 0; i < axes_.size(); ++i)
    if ((axes >> axes_[i].axis & 1) == 0) after[i] = before[i];
  return is_tried(before, after);
}

ExactCost ShuffleBound::least_call(const PlacementState& from, const PlacementState& to,
                                   uint64_t axes) {
  const Positions before = positions_of(code_of(from));
  Positions after = positions_of(code_of(to));
  for (size_t i = 0; i < axes_.size(); ++i)
    if ((axes >> axes_[i].axis & 1) == 0) after[i] = before[i];
  return price_of_call(StepKind::all_to_all, before, after);
}

uint64_t ShuffleBound::code_of_layout(const DimLayouts& dim, int layout) {
  uint64_t code = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const int axis = axes_[i].axis;
    if ((dim.axes(layout) >> axis & 1) == 0) continue;
    const int64_t first = dim.first_place(layout, axis);  // 0: not a digit
    const PlacementStates::Digits digits = {dim.dim(), first, first * axes_[i].size};
    uint8_t at = kAside;
    if (first > 0) at = position_of(i, digits, cut_of(dim, layout, axis, digits));
    code |= static_cast<uint64_t>(at) << (8 * i);
  }
  return code;
}

uint64_t ShuffleBound::code_of(const PlacementState& state) {
  uint64_t code = 0;
  for (const DimLayouts& dim : states_.dims()) {
    const auto at = static_cast<size_t>(dim.dim());
    const auto layout = static_cast<size_t>(state.layouts[at]);
    if (layout >= in_dims_[at].size()) in_dims_[at].resize(layout + 1, kNotKnown);
    uint64_t& known = in_dims_[at][layout];
    if (known == kNotKnown) known = code_of_layout(dim, state.layouts[at]);
    code |= known;
  }
  return code;
}

uint64_t ShuffleBound::code_of(const Positions& at) const {
  uint64_t code = 0;
  for (size_t i = 0; i < axes_.size(); ++i) code |= static_cast<uint64_t>(at[i]) << (8 * i);
  return code;
}

ShuffleBound::Positions ShuffleBound::positions_of(uint64_t code) const {
  Positions at{};
  for (size_t i = 0; i < axes_.size(); ++i) at[i] = static_cast<uint8_t>(code >> (8 * i));
  return at;
}

const ShuffleBound::Part& ShuffleBound::part_of(const Positions& at) const {
  size_t cut = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (!is_whole(at[i])) cut |= size_t{1} << i;
  return parts_[cut];
}

// True if an axis stays first on the digits that `axis` needs.
bool ShuffleBound::is_blocked(size_t axis, const Positions& at) const {
  for (size_t other = 0; other < axes_.size(); ++other)
    if (other != axis && at[other] >= kPlace && place(other, at[other]).common[axis] > 1)
      return true;
  return false;
}

bool ShuffleBound::is_done(const Positions& at) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (has_home(i) ? at[i] != kHome : !is_whole(at[i])) return false;
  }
  return true;
}

const ShuffleBound::Choice& ShuffleBound::solve(uint64_t code) {
  const Positions from = positions_of(code);
  bool slices = false;
  for (size_t i = 0; i < axes_.size(); ++i) slices = slices || is_whole(from[i]);
  if (!slices) return solve_call(code);
  Choice& way = ways_[code];
  if (!way.known) try_slices(from, from, 0, way);
  return way;
}

// Slices the axes from `axis` on. An axis whose home is free goes there.
void ShuffleBound::try_slices(const Positions& from, Positions at, size_t axis, Choice& best) {
  if (axis == axes_.size()) {
    const Choice& next = solve_call(code_of(at));
    const int64_t peak = at == from ? 0 : part_of(from).bytes + part_of(at).bytes;
    const ExactCost cost = ExactCost{0, peak} + next.cost;
    if (best.known && !(cost < best.cost)) return;
    best = next;
    best.cost = cost;
    return;
  }
  if (is_whole(from[axis]) && has_home(axis) && !is_blocked(axis, from)) {
    at[axis] = kHome;
    return try_slices(from, at, axis + 1, best);
  }
  try_slices(from, at, axis + 1, best);
  if (from[axis] != kWhole) return;
  at[axis] = kAside;
  try_slices(from, at, axis + 1, best);
}

const ShuffleBound::Choice& ShuffleBound::solve_call(uint64_t code) {
  Choice& call = calls_[code];
  if (call.known) return call;
  call.known = true;
  call.sliced = code;
  const Positions from = positions_of(code);
  if (is_done(from)) return call;
  call.cost.primary = std::numeric_limits<Int128>::max() / 4;
  try_all_to_alls(from, from, 0, call);
  try_gathers(from, from, 0, call);
  return call;
}

void ShuffleBound::try_gathers(const Positions& from, Positions at, size_t axis, Choice& best) {
  if (axis == axes_.size()) return offer(StepKind::all_gather, from, at, best);
  try_gathers(from, at, axis + 1, best);
  if (!is_cut_aside(from[axis])) return;
  at[axis] = from[axis] >= kPlace ? kWhole : kGathered;
  try_gathers(from, at, axis + 1, best);
}

void ShuffleBound::try_all_to_alls(const Positions& from, Positions at, size_t axis, Choice& best) {
  if (axis == axes_.size()) {
    for (size_t i = 0; i < axes_.size(); ++i)
      if (at[i] != from[i] && at[i] == kHome && is_blocked(i, at)) return;
    if (!one_prime_ && !is_tried(from, at)) return;
    return offer(StepKind::all_to_all, from, at, best);
  }
  if (is_cut_aside(from[axis]) && has_home(axis)) {
    at[axis] = kHome;
    try_all_to_alls(from, at, axis + 1, best);
    at[axis] = from[axis];
  }
  try_all_to_alls(from, at, axis + 1, best);
  if (from[axis] < kPlace) return;
  at[axis] = kAside;
  try_all_to_alls(from, at, axis + 1, best);
}

bool ShuffleBound::needs_call(const Positions& at) const {
  for (size_t i = 0; i < axes_.size(); ++i)
    if (is_cut_aside(at[i])) return true;
  return false;
}

void ShuffleBound::offer(StepKind kind, const Positions& from, const Positions& to, Choice& best) {
  if (from == to) return;
  const ExactCost call = price_of_call(kind, from, to);
  if (best.cost.primary < call.primary + (needs_call(to) ? call_ : 0)) return;
  const uint64_t next = code_of(to);
  const ExactCost cost = call + solve(next).cost;
  if (cost < best.cost) best = {cost, true, kind, best.sliced, next};
}

ExactCost ShuffleBound::price_of_call(StepKind kind, const Positions& from,
                                      const Positions& to) const {
  const Part &before = part_of(from), &after = part_of(to);
  if (kind == StepKind::all_gather)
    return {after.sent - before.sent + call_, before.bytes + 2 * after.bytes};
  return {least_sent(from, to, before.sent) + call_, 2 * (before.bytes + after.bytes)};
}

// Returns the least that an all_to_all sends; see the top of this file.
Int128 ShuffleBound::least_sent(const Positions& from, const Positions& to, Int128 part) const {
  int64_t n = 1, longer = 1;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (to[i] == from[i]) continue;
    n *= axes_[i].size;
    for (size_t other = 0; to[i] == kHome && other < axes_.size(); ++other)
      if (from[other] >= kPlace && to[other] != from[other])
        longer *= place(other, from[other]).common[i];
  }
  if (one_prime_ || longer > 1) return part / n * (n - 1) * longer;
  return part - most_common(from, to, part);
}

// Returns the most of a part that ranks hold both before and after an all_to_all.
Int128 ShuffleBound::most_common(const Positions& from, const Positions& to, Int128 part) const {
  int moved = 0;
  for (size_t i = 0; i < axes_.size(); ++i) moved += to[i] != from[i];
  Forest forest;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (!goes_home(from, to, i)) continue;
    const Place& left = place(i, from[i]);
    const int dim = left.digits.dim, home = axes_[i].home.dim;
    if (forest.join(dim, dim == home ? Forest::kAlongADim : home))
      part = (moved == 1 || dim == home ? left.home : left.largest).of(part);
  }
  CutAgreement aside;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (to[i] == from[i] || goes_home(from, to, i)) continue;
    const bool leaves = from[i] >= kPlace;
    if (forest.touches(leaves ? place(i, from[i]).digits.dim : axes_[i].home.dim)) continue;
    aside = std::min(aside, leaves ? place(i, from[i]).aside : axes_[i].from_aside);
  }
  return aside.of(part);
}

}  // namespace shardproof
