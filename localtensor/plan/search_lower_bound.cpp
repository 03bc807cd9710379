// Implements search_lower_bound.h: a recursion over the positions of all axes, with a memory.
//
// A combination of positions is numbered in base 5, one digit an axis. The positions of a state
// follow from its layouts dim by dim; the sum of what each dim adds to the number is cached.
#include "shardproof/localtensor/plan/search_lower_bound.h"

#include <algorithm>
#include <limits>

namespace shardproof {

namespace {

constexpr int kPositions = 5;
constexpr int kNotKnown = std::numeric_limits<int>::min();

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

ShuffleBound::ShuffleBound(const PlacementStates& states, const ShuffleUnits& units)
    : states_(states), units_(units), axes_(list_of_axes(states.active())) {
  int weight = 1;
  for (const int axis : axes_) {
    sizes_.push_back(states.members(uint64_t{1} << axis));
    first_.push_back(states.digits_of(states.start(), axis));
    home_.push_back(states.digits_of(states.goal(), axis));
    weights_.push_back(weight);
    all_whole_ += weight * kWhole;
    weight *= kPositions;
  }
  blocks_.resize(axes_.size());
  for (size_t a = 0; a < axes_.size(); ++a)
    for (size_t b = 0; b < axes_.size(); ++b) {
      const bool at_home = home_[b] == first_[b];
      common_.push_back(at_home ? 1 : common_size(home_[a], first_[b]));
      if (common_.back() > 1) blocks_[b] = true;
    }
  if (!states.is_shuffle()) add_agreements();
  in_dims_.resize(states.dims().size());
  ways_.resize(static_cast<size_t>(weight));
  calls_.resize(static_cast<size_t>(weight));
}

AxisCut ShuffleBound::cut_of(const PlacementState& state, size_t axis) const {
  const PlacementStates::Digits digits = states_.digits_of(state, axes_[axis]);
  if (digits.dim < 0) return {};
  const auto at = static_cast<size_t>(digits.dim);
  const DimLayouts& dim = states_.dims()[at];
  return {digits.dim, dim.extent(), sizes_[axis], dim.sizes_before(state.layouts[at], axes_[axis])};
}

void ShuffleBound::add_agreements() {
  std::vector<int64_t> sizes = states_.digit_sizes();
  const int64_t most = 2 * states_.members(states_.all_axes());
  for (size_t i = 0; i < axes_.size(); ++i) {
    const AxisCut first = cut_of(states_.start(), i), home = cut_of(states_.goal(), i);
    std::array<CutAgreement, 3>& of_axis = agreements_.emplace_back();
    if (first.dim >= 0) of_axis[0] = largest_agreement(first, sizes, most);
    if (first.dim >= 0 && home.dim >= 0) of_axis[1] = agreement(first, home);
    if (home.dim >= 0) of_axis[2] = largest_agreement(home, sizes, most);
  }
}

ExactCost ShuffleBound::least(const PlacementState& state) { return solve(code_of(state)).cost; }

// Tries the positions to which an all_to_all over `axes` can bring them. An axis that moves from
// aside to aside, or leaves home, costs no less than one that stays.
void ShuffleBound::try_moves(const Positions& from, Positions at, size_t axis, uint64_t axes,
                             ExactCost& best) {
  if (axis == axes_.size()) {
    best = std::min(best, price_of_call(StepKind::all_to_all, from, at) + solve(code_of(at)).cost);
    return;
  }
  const bool moves = (axes >> axes_[axis] & 1) != 0 && from[axis] != kHome;
  if (!moves || from[axis] != kFirst) try_moves(from, at, axis + 1, axes, best);
  if (!moves) return;
  if (from[axis] == kFirst) {
    at[axis] = kAside;
    try_moves(from, at, axis + 1, axes, best);
  }
  if (!has_home(axis)) return;
  at[axis] = kHome;
  try_moves(from, at, axis + 1, axes, best);
}

ExactCost ShuffleBound::least_over(const PlacementState& state, StepKind kind, uint64_t axes) {
  const int code = code_of(state);
  if (kind == StepKind::all_gather) {
    const Positions from = positions_of(code);
    Positions at = from;
    for (size_t i = 0; i < axes_.size(); ++i)
      if ((axes >> axes_[i] & 1) != 0) at[i] = kWhole;
    return price_of_call(kind, from, at) + solve(code_of(at)).cost;
  }
  const auto [known, fresh] = over_.try_emplace(axes << 16 | static_cast<uint64_t>(code));
  if (!fresh) return known->second;
  known->second.primary = std::numeric_limits<Int128>::max() / 4;
  const Positions from = positions_of(code);
  try_moves(from, from, 0, axes, known->second);
  return known->second;
}

ExactCost ShuffleBound::least_call(const PlacementState& from, const PlacementState& to) {
  return price_of_call(StepKind::all_to_all, positions_of(code_of(from)),
                       positions_of(code_of(to)));
}

int ShuffleBound::code_of_layout(const DimLayouts& dim, int layout) const {
  int code = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if ((dim.axes(layout) >> axes_[i] & 1) == 0) continue;
    const int64_t first = dim.first_place(layout, axes_[i]);
    const PlacementStates::Digits digits = {dim.dim(), first, first * sizes_[i]};
    Position at = kAside;
    if (digits == home_[i])
      at = kHome;
    else if (digits == first_[i] && blocks_[i] && is_cut_as_first(dim, layout, i))
      at = kFirst;
    code += weights_[i] * (at - kWhole);
  }
  return code;
}

// True if the pieces of an axis on its first digits are those of the start.
bool ShuffleBound::is_cut_as_first(const DimLayouts& dim, int layout, size_t axis) const {
  if (dim.is_even(layout)) return true;
  const int start = states_.start().layouts[static_cast<size_t>(dim.dim())];
  return dim.sizes_before(layout, axes_[axis]) == dim.sizes_before(start, axes_[axis]);
}

int ShuffleBound::code_of(const PlacementState& state) {
  int code = all_whole_;
  for (const DimLayouts& dim : states_.dims()) {
    const auto at = static_cast<size_t>(dim.dim());
    const auto layout = static_cast<size_t>(state.layouts[at]);
    if (layout >= in_dims_[at].size()) in_dims_[at].resize(layout + 1, kNotKnown);
    int& known = in_dims_[at][layout];
    if (known == kNotKnown) known = code_of_layout(dim, state.layouts[at]);
    code += known;
  }
  return code;
}

int ShuffleBound::code_of(const Positions& at) const {
  int code = 0;
  for (size_t i = 0; i < axes_.size(); ++i) code += weights_[i] * at[i];
  return code;
}

ShuffleBound::Positions ShuffleBound::positions_of(int code) const {
  Positions at{};
  for (size_t i = 0; i < axes_.size(); ++i, code /= kPositions)
    at[i] = static_cast<uint8_t>(code % kPositions);
  return at;
}

int64_t ShuffleBound::parts_of(const Positions& at) const {
  int64_t parts = 1;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (at[i] != kWhole && at[i] != kGathered) parts *= sizes_[i];
  return parts;
}

// True if an axis stays first on the digits that `axis` needs.
bool ShuffleBound::is_blocked(size_t axis, const Positions& at) const {
  for (size_t other = 0; other < axes_.size(); ++other)
    if (other != axis && at[other] == kFirst && common(axis, other) > 1) return true;
  return false;
}

bool ShuffleBound::is_done(const Positions& at) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    const bool whole = at[i] == kWhole || at[i] == kGathered;
    if (has_home(i) ? at[i] != kHome : !whole) return false;
  }
  return true;
}

const ShuffleBound::Choice& ShuffleBound::solve(int code) {
  Choice& way = ways_[static_cast<size_t>(code)];
  if (way.known) return way;
  way.known = true;
  const Positions from = positions_of(code);
  try_slices(from, from, 0, way);
  return way;
}

// Slices the axes from `axis` on. An axis whose home is free goes there.
void ShuffleBound::try_slices(const Positions& from, Positions at, size_t axis, Choice& best) {
  if (axis == axes_.size()) {
    const int code = code_of(at);
    ExactCost cost{0, at == from ? 0 : part_bytes(from) + part_bytes(at)};
    Choice next;
    if (!is_done(at)) {
      next = solve_call(code);
      cost = cost + next.cost;
    }
    if (!best.found || cost < best.cost) best = {cost, true, true, next.kind, code, next.next};
    return;
  }
  const bool whole = from[axis] == kWhole || from[axis] == kGathered;
  if (whole && has_home(axis) && !is_blocked(axis, from)) {
    at[axis] = kHome;
    return try_slices(from, at, axis + 1, best);
  }
  try_slices(from, at, axis + 1, best);
  if (from[axis] != kWhole) return;
  at[axis] = kAside;
  try_slices(from, at, axis + 1, best);
}

const ShuffleBound::Choice& ShuffleBound::solve_call(int code) {
  Choice& call = calls_[static_cast<size_t>(code)];
  if (call.known) return call;
  call.known = true;
  call.cost = {std::numeric_limits<Int128>::max() / 4, 0};
  const Positions from = positions_of(code);
  try_gathers(from, from, 0, call);
  try_all_to_alls(from, from, 0, call);
  return call;
}

void ShuffleBound::try_gathers(const Positions& from, Positions at, size_t axis, Choice& best) {
  if (axis == axes_.size()) return offer(StepKind::all_gather, from, at, best);
  try_gathers(from, at, axis + 1, best);
  if (from[axis] != kFirst && from[axis] != kAside) return;
  at[axis] = from[axis] == kFirst ? kWhole : kGathered;
  try_gathers(from, at, axis + 1, best);
}

void ShuffleBound::try_all_to_alls(const Positions& from, Positions at, size_t axis, Choice& best) {
  if (axis == axes_.size()) {
    for (size_t i = 0; i < axes_.size(); ++i)
      if (at[i] != from[i] && at[i] == kHome && is_blocked(i, at)) return;
    return offer(StepKind::all_to_all, from, at, best);
  }
  try_all_to_alls(from, at, axis + 1, best);
  if (from[axis] != kFirst && from[axis] != kAside) return;
  if (from[axis] == kFirst) {
    at[axis] = kAside;
    try_all_to_alls(from, at, axis + 1, best);
  }
  if (!has_home(axis)) return;
  at[axis] = kHome;
  try_all_to_alls(from, at, axis + 1, best);
}

void ShuffleBound::offer(StepKind kind, const Positions& from, const Positions& to, Choice& best) {
  if (from == to) return;
  const ExactCost call = price_of_call(kind, from, to);
  if (best.cost.primary < call.primary) return;
  const int next = code_of(to);
  const ExactCost cost = call + solve(next).cost;
  if (!best.found || cost < best.cost) best = {cost, true, true, kind, 0, next};
}

ExactCost ShuffleBound::price_of_call(StepKind kind, const Positions& from,
                                      const Positions& to) const {
  const Int128 part = units_.whole / parts_of(from);
  const int64_t before = part_bytes(from), after = part_bytes(to);
  if (kind == StepKind::all_gather)
    return {units_.whole / parts_of(to) - part + units_.call, before + 2 * after};
  return {least_sent(from, to) + units_.call, 2 * (before + after)};
}

// Returns the least that an all_to_all sends. Each axis alone sends what it does not agree on; more
// is certain if the digits are those of one number, or if the call pads its pieces.
Int128 ShuffleBound::least_sent(const Positions& from, const Positions& to) const {
  const Int128 part = units_.whole / parts_of(from);
  int64_t n = 1, longer = 1;
  CutAgreement least;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (to[i] == from[i]) continue;
    n *= sizes_[i];
    for (size_t other = 0; to[i] == kHome && other < axes_.size(); ++other)
      if (from[other] == kFirst && to[other] != kFirst) longer *= common(i, other);
    if (agreements_.empty()) continue;
    const size_t move = from[i] == kAside ? 2 : to[i] == kHome ? 1 : 0;
    least = std::min(least, agreements_[i][move]);
  }
  if (agreements_.empty() || longer > 1) return part / n * (n - 1) * longer;
  return part - (part * least.part + least.whole - 1) / least.whole;
}

}  // namespace shardproof
