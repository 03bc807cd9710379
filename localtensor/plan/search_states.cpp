// Implements search_states.h.
//
// Construction:
//   1. Number the layouts of both specs, dim by dim.
//   2. find_active: the smallest set of axes such that, with these taken out, both specs are equal.
//
// Moves from a state:
//   reduce_moves     all_reduce over any set of partial axes, or reduce_scatter to any layout
//   gather_moves     all_gather: takes any set of axes out
//   all_to_all_moves takes any set of axes out and places them elsewhere
//   exchange_moves   exchange: goes to the goal, except partials that the goal makes; local if
//                    every rank has what it needs there
//   local_moves      slices by one axis that is R, or makes one axis, R or cut, partial
#include "shardproof/localtensor/plan/search_states.h"

#include <algorithm>
#include <bit>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/exchange_volume.h"

namespace shardproof {

namespace {

// Above this number of ranks along the active axes, intermediate states do not cut a dim unevenly
// if both specs cut it evenly. Such detours save little, and their prices take long to compute.
constexpr int64_t kMaxRanksUneven = 64;
// Most ranks for which the pieces of all cuts are compared.
constexpr int64_t kMaxRanksChunked = 1024;

bool is_linear(const Reduction& reduction) {
  return reduction.op == ReduceOp::sum || reduction.op == ReduceOp::avg;
}

// True if the reduction has an identity, which a rank without the value can hold.
bool has_identity(const Reduction& reduction) { return reduction.op != ReduceOp::avg; }

}  // namespace

std::vector<int> list_of_axes(uint64_t mask) {
  std::vector<int> axes;
  for (; mask != 0; mask &= mask - 1) axes.push_back(std::countr_zero(mask));
  return axes;
}

uint64_t PlacementState::hash() const {
  uint64_t hash = partial * 0x9e3779b97f4a7c15u;
  for (int32_t layout : layouts) {
    hash = (hash ^ static_cast<uint64_t>(layout)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

PlacementStates::PlacementStates(const Spec& from, const Spec& to, Axes axes)
    : from_(from), to_(to) {
  const int count = from.mesh().axis_count();
  for (int axis = 0; axis < count; ++axis) {
    sizes_.push_back(from.mesh().axis_size(axis));
    if (sizes_.back() == 1) continue;
    big_ |= axis_bit(axis);
    if (from.placement(axis).is_partial()) from_partial_ |= axis_bit(axis);
    if (to.placement(axis).is_partial()) to_partial_ |= axis_bit(axis);
  }
  for (int dim = 0; dim < from.shape().size(); ++dim) {
    dims_.emplace_back(dim, from.shape()[dim], sizes_);
    start_.layouts[static_cast<size_t>(dim)] = static_cast<int32_t>(dims_.back().of_spec(from));
    goal_.layouts[static_cast<size_t>(dim)] = static_cast<int32_t>(dims_.back().of_spec(to));
  }
  start_.partial = from_partial_;
  goal_.partial = to_partial_;
  active_ = axes == Axes::all ? big_ : find_active(start_, goal_);
}

void PlacementStates::prepare_moves(PlanMoves moves) {
  moves_ = moves;
  collect_dims();
  add_gaps();
}

// Finds the smallest set of axes whose ranks together, at each coordinate of the other axes, own
// the same in both states. It starts from all axes that differ and removes those that need not
// move.
uint64_t PlacementStates::find_active(const PlacementState& from, const PlacementState& to) {
  uint64_t needed = from.partial ^ to.partial;
  for (const DimLayouts& dim : dims_) {
    const auto at = static_cast<size_t>(dim.dim());
    needed |= dim.axes(from.layouts[at]) ^ dim.axes(to.layouts[at]);
  }
  const auto suffices = [&](uint64_t axes) {
    return std::all_of(dims_.begin(), dims_.end(), [&](DimLayouts& dim) {
      const auto at = static_cast<size_t>(dim.dim());
      const int before = dim.without(from.layouts[at], axes);
      return before >= 0 && before == dim.without(to.layouts[at], axes);
    });
  };
  uint64_t active = needed;
  for (DimLayouts& dim : dims_) {
    const auto at = static_cast<size_t>(dim.dim());
    const int before = dim.without(from.layouts[at], needed);
    if (before < 0 || before != dim.without(to.layouts[at], needed))
      active |= dim.axes(from.layouts[at]) | dim.axes(to.layouts[at]);
  }
  for_each_axis(active & ~needed, [&](int axis) {
    if (suffices(active & ~axis_bit(axis))) active &= ~axis_bit(axis);
  });
  return active;
}

uint64_t PlacementStates::moving_axes(const PlacementState& from, const PlacementState& to) {
  return find_active(from, to);
}

// Makes a slice that the goal cuts in the same way: without all other axes, the dim is laid out as
// in the goal.
PlacementState PlacementStates::sliced_start() {
  PlacementState state = start_;
  for (DimLayouts& dim : dims_) {
    const auto at = static_cast<size_t>(dim.dim());
    const uint64_t open = dim.axes(goal_.layouts[at]) & active_ & ~cut_axes(start_);
    for_each_axis(open & ~state.partial, [&](int axis) {
      const uint64_t others = ~axis_bit(axis);
      const int wanted = dim.without(goal_.layouts[at], others);
      for (int layout : dim.with(state.layouts[at], axis))
        if (wanted >= 0 && dim.without(layout, others) == wanted && dim.has_spec(layout)) {
          state.layouts[at] = static_cast<int32_t>(layout);
          return;
        }
    });
  }
  return state;
}

Fraction PlacementStates::missing(const PlacementState& from, const PlacementState& to) {
  if (const CutAgreement agreed = agreement(from, to); agreed.exact) {
    const int64_t whole = element_count(from_.shape());
    const uint64_t before = cut_axes(from), after = cut_axes(to);
    return Fraction(whole, members(after)) -
           Fraction(whole, members(before | after) * agreed.parts);
  }
  std::array<DimMove, kMaxDims> moves;
  for (DimLayouts& dim : dims_) {
    const auto at = static_cast<size_t>(dim.dim());
    const int before = from.layouts[at], after = to.layouts[at];
    moves[at] = {dim.extent(), &dim.pieces(before), &dim.pieces(after), dim.axes(before),
                 dim.axes(after)};
  }
  return missing_elements(std::span(moves).first(dims_.size()), {sizes_, dims_.front().bits()});
}

int64_t PlacementStates::common_at_most(const PlacementState& from, const PlacementState& to) {
  int64_t common = 1;
  for (DimLayouts& dim : dims_) {
    const auto at = static_cast<size_t>(dim.dim());
    common *= std::min(dim.max_extent(from.layouts[at]), dim.max_extent(to.layouts[at]));
  }
  return common;
}

uint64_t PlacementStates::cut_axes(const PlacementState& state) const {
  uint64_t axes = 0;
  for (const DimLayouts& dim : dims_)
    axes |= dim.axes(state.layouts[static_cast<size_t>(dim.dim())]);
  return axes;
}

const Reduction& PlacementStates::reduction_of(int axis) const {
  const bool starts = (from_partial_ & axis_bit(axis)) != 0;
  return (starts ? from_ : to_).placement(axis).partial().reduction;
}

bool PlacementStates::reduce_together(uint64_t axes) const {
  const Reduction* first = nullptr;
  bool together = true;
  for_each_axis(axes, [&](int axis) {
    const Reduction& reduction = reduction_of(axis);
    if (first && *first != reduction && !(is_linear(*first) && is_linear(reduction)))
      together = false;
    first = &reduction;
  });
  return together;
}

int64_t PlacementStates::members(uint64_t axes) const {
  int64_t count = 1;
  for_each_axis(axes, [&](int axis) { count *= sizes_[static_cast<size_t>(axis)]; });
  return count;
}

int64_t PlacementStates::elements(const PlacementState& state) {
  int64_t elements = 1;
  for (DimLayouts& dim : dims_)
    elements *= dim.max_extent(state.layouts[static_cast<size_t>(dim.dim())]);
  return elements;
}

int64_t PlacementStates::joint_elements(const PlacementState& state, uint64_t axes) {
  int64_t elements = 1;
  for (DimLayouts& dim : dims_)
    elements *= dim.joint_extent(state.layouts[static_cast<size_t>(dim.dim())], axes);
  return elements;
}

bool PlacementStates::is_balanced(const PlacementState& from, const PlacementMove& move) const {
  return std::all_of(dims_.begin(), dims_.end(), [&](const DimLayouts& dim) {
    const auto at = static_cast<size_t>(dim.dim());
    return dim.is_balanced(from.layouts[at], move.to.layouts[at], move.axes);
  });
}

int64_t PlacementStates::piece_elements(const PlacementState& from, const PlacementMove& move) {
  int64_t piece = 1;
  for (DimLayouts& dim : dims_) {
    const auto at = static_cast<size_t>(dim.dim());
    piece *= dim.piece_extent(from.layouts[at], move.to.layouts[at], move.axes);
  }
  return piece;
}

// Each axis cuts a digit of the element's index. A rank owns an element before and after if, for
// every axis, both digits equal its coordinate. An axis that moves requires two digits to be equal;
// a requirement that follows from others does not reduce the common part (union-find over digits).
//
// Example: dim of 4, axes a=2, b=2, digits (a, b) before and (b, a) after. Elements of rank (i, j)
// before have the digits i j, after j i. Both hold only if i == j; then the rank keeps its element.
// The equality of the digits is required twice but counts once: 1 / common_parts = 1 / (4 * 2).
PlacementStates::CutAgreement PlacementStates::agreement(const PlacementState& from,
                                                         const PlacementState& to) const {
  CutAgreement agreed;
  struct Place {
    int dim;
    int64_t first, last;
    int set;
  };
  std::vector<Place> places;
  const auto set_of = [&](int dim, int64_t first, int64_t size) {
    for (const Place& place : places)
      if (place.dim == dim && first % place.last != 0 && place.first % (first * size) != 0) {
        // They overlap, or are not digits of one number.
        agreed.exact = agreed.exact && place.first == first && place.last == first * size;
        return place.set;
      }
    places.push_back({dim, first, first * size, static_cast<int>(places.size())});
    return places.back().set;
  };
  const auto find = [&](const PlacementState& where, int axis, int& dim) {
    const Digits digits = digits_of(where, axis);
    dim = digits.dim;
    return digits.first;
  };
  for (const DimLayouts& dim : dims_) {
    const auto at = static_cast<size_t>(dim.dim());
    const int before = from.layouts[at], after = to.layouts[at];
    if (((dim.axes(before) | dim.axes(after)) & active_) == 0) continue;
    if (!dim.is_even(before) || !dim.is_even(after)) return {0, false};
  }
  for_each_axis(active_, [&](int axis) {
    int dim = 0, goal_dim = 0;
    const int64_t size = sizes_[static_cast<size_t>(axis)];
    const int64_t place = find(from, axis, dim), goal_place = find(to, axis, goal_dim);
    if (place == 0 || goal_place == 0 || (dim == goal_dim && place == goal_place)) return;
    const int a = set_of(dim, place, size), b = set_of(goal_dim, goal_place, size);
    if (a == b) return;
    agreed.parts *= size;
    for (Place& other : places)
      if (other.set == b) other.set = a;
  });
  return agreed;
}

int64_t PlacementStates::common_parts(const PlacementState& state) const {
  return members((cut_axes(state) | cut_axes(goal_)) & active_) * agreeing_parts(state);
}

PlacementStates::Digits PlacementStates::digits_of(const PlacementState& state, int axis) const {
  for (const DimLayouts& dim : dims_) {
    const int64_t first = dim.first_place(state.layouts[static_cast<size_t>(dim.dim())], axis);
    if (first > 0) return {dim.dim(), first, first * sizes_[static_cast<size_t>(axis)]};
  }
  return {};
}

bool PlacementStates::is_shuffle() const {
  if (has_active_partials() || std::popcount(active_) > kMaxShuffled) return false;
  int64_t prime = 2, longest = 1, rest = members(active_);
  while (rest > 1 && rest % prime != 0) ++prime;
  while (rest % prime == 0) rest /= prime;
  if (rest != 1) return false;
  for_each_axis(active_,
                [&](int axis) { longest = std::max(longest, sizes_[static_cast<size_t>(axis)]); });
  const int64_t more = std::max<int64_t>(longest / prime, 1);
  return std::all_of(dims_.begin(), dims_.end(), [&](const DimLayouts& dim) {
    const auto at = static_cast<size_t>(dim.dim());
    const int before = start_.layouts[at], after = goal_.layouts[at];
    return ((dim.axes(before) | dim.axes(after)) & active_) == 0 ||
           (dim.has_digits(before, prime, more) && dim.has_digits(after, prime, more));
  });
}

std::vector<int64_t> PlacementStates::digit_sizes() const {
  std::vector<int64_t> found;
  for_each_axis(big_, [&](int axis) { found.push_back(sizes_[static_cast<size_t>(axis)]); });
  for (const DimLayouts& dim : dims_)
    found.insert(found.end(), dim.gaps().begin(), dim.gaps().end());
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool PlacementStates::has_one_prime() const {
  const std::vector<int64_t> sizes = digit_sizes();  // ascending
  if (sizes.empty()) return true;
  int64_t prime = 2;
  while (sizes.front() % prime != 0) ++prime;
  return std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) {
    while (size % prime == 0) size /= prime;
    return size == 1;
  });
}

bool PlacementStates::is_chunked() const {
  if (has_active_partials() || std::popcount(active_) > kMaxShuffled) return false;
  if (members(big_) > kMaxRanksChunked) return false;
  return std::all_of(dims_.begin(), dims_.end(), [&](const DimLayouts& dim) {
    const auto at = static_cast<size_t>(dim.dim());
    const int before = start_.layouts[at], after = goal_.layouts[at];
    return ((dim.axes(before) | dim.axes(after)) & active_) == 0 ||
           (dim.has_chunks(before) && dim.has_chunks(after));
  });
}

bool PlacementStates::is_even(const PlacementState& state) const {
  return std::all_of(dims_.begin(), dims_.end(), [&](const DimLayouts& dim) {
    return dim.is_even(state.layouts[static_cast<size_t>(dim.dim())]);
  });
}

bool PlacementStates::has_spec(const PlacementState& state) {
  return std::all_of(dims_.begin(), dims_.end(), [&](DimLayouts& dim) {
    return dim.has_spec(state.layouts[static_cast<size_t>(dim.dim())]);
  });
}

bool PlacementStates::remove_axes(PlacementState& state, uint64_t axes) {
  for (DimLayouts& dim : dims_) {
    int32_t& layout = state.layouts[static_cast<size_t>(dim.dim())];
    const int rest = dim.without(layout, axes);
    if (rest < 0) return false;
    layout = static_cast<int32_t>(rest);
  }
  return true;
}

void PlacementStates::local_moves(const PlacementState& state, const Visit& visit) {
  const uint64_t cut = cut_axes(state);
  for_each_axis(active_ & ~cut & ~state.partial, [&](int axis) {
    places_.clear();
    place_one(state, axis, places_);
    for (const PlacementState& next : places_) visit({StepKind::local, axis_bit(axis), next});
    if ((to_partial_ & axis_bit(axis)) != 0 && reduce_together(state.partial | axis_bit(axis))) {
      PlacementState next = state;
      next.partial |= axis_bit(axis);
      visit({StepKind::local, axis_bit(axis), next});
    }
  });
  for_each_axis(active_ & cut & to_partial_, [&](int axis) {
    PlacementState next = state;
    if (!has_identity(reduction_of(axis)) || !reduce_together(state.partial | axis_bit(axis)))
      return;
    if (!remove_axes(next, axis_bit(axis))) return;
    next.partial |= axis_bit(axis);
    visit({StepKind::local, axis_bit(axis), next});
  });
}

void PlacementStates::gather_moves(const PlacementState& state, uint64_t axes, const Visit& visit) {
  PlacementState next = state;
  if (remove_axes(next, axes)) visit({StepKind::all_gather, axes, next});
}

void PlacementStates::all_to_all_moves(const PlacementState& state, uint64_t axes, uint64_t to_goal,
                                       const Visit& visit) {
  PlacementState base = state;
  if (!remove_axes(base, axes)) return;
  base.partial = state.partial;
  places_.clear();
  place(base, axes, to_goal, places_);
  for (const PlacementState& next : places_)
    if (next != state) visit({StepKind::all_to_all, axes, next});
}

// Goes to the goal. An axis that the goal makes partial is omitted, or keeps a cut. Partials are
// made from cuts without communication, and cuts make the exchange smaller.
void PlacementStates::exchange_moves(const PlacementState& state, const Visit& visit) {
  if (ending(state) != 0) return;
  PlacementState base = goal_;
  base.partial = state.partial;
  const uint64_t left = goal_.partial & ~state.partial;
  std::vector<PlacementState> targets = {base};
  for_each_axis(left & cut_axes(state), [&](int axis) {
    const std::vector<PlacementState> whole = targets;
    for (const PlacementState& target : whole) place_anywhere(target, axis_bit(axis), targets);
  });
  for (const PlacementState& target : targets) {
    const uint64_t axes = exchange_group(state, target);
    if (axes == 0) continue;
    if (missing(state, target) == Fraction(0))
      visit({StepKind::local, moving_axes(state, target), target});
    else if (can_exchange(from_.mesh(), list_of_axes(axes)))
      visit({StepKind::exchange, axes, target});
  }
}

void PlacementStates::reduce_moves(const PlacementState& state, const Visit& visit) {
  for_each_subset(ending(state), [&](uint64_t axes) {
    if (!reduce_together(axes)) return;
    PlacementState next = state;
    next.partial &= ~axes;
    visit({StepKind::all_reduce, axes, next});
    places_.clear();
    place(next, axes, 0, places_);
    for (const PlacementState& placed : places_) visit({StepKind::reduce_scatter, axes, placed});
  });
}

// True if a dim is cut unevenly that both specs cut evenly.
bool PlacementStates::adds_uneven_dim(const PlacementState& state) const {
  return std::any_of(dims_.begin(), dims_.end(), [&](const DimLayouts& dim) {
    const auto at = static_cast<size_t>(dim.dim());
    return !dim.is_even(state.layouts[at]) && dim.is_even(start_.layouts[at]) &&
           dim.is_even(goal_.layouts[at]);
  });
}

void PlacementStates::for_each_move(const PlacementState& state, const Visit& visit,
                                    const Skip& skip) {
  if (!has_candidates_) collect_candidates();
  has_candidates_ = true;
  const Visit visit_legal = [&](const PlacementMove& move) { visit_if_legal(move, visit); };
  reduce_moves(state, visit_legal);
  const uint64_t cut = active_ & cut_axes(state);
  for (const StepKind kind : {StepKind::all_gather, StepKind::all_to_all})
    for_each_subset(cut, [&](uint64_t axes) {
      if (!skip(kind, axes)) for_each_call(state, kind, axes, 0, visit);
    });
  if (moves_ == PlanMoves::all) exchange_moves(state, visit_legal);
  local_moves(state, visit_legal);
}

void PlacementStates::for_each_call(const PlacementState& state, StepKind kind, uint64_t axes,
                                    uint64_t to_goal, const Visit& visit) {
  const Visit visit_legal = [&](const PlacementMove& move) { visit_if_legal(move, visit); };
  if (kind == StepKind::all_gather) return gather_moves(state, axes, visit_legal);
  all_to_all_moves(state, axes, to_goal, visit_legal);
}

void PlacementStates::visit_if_legal(const PlacementMove& move, const Visit& visit) {
  if (!has_spec(move.to)) return;
  const bool many_ranks = members(active_) > kMaxRanksUneven;
  if (!(many_ranks && adds_uneven_dim(move.to))) visit(move);
}

Spec PlacementStates::spec_of(const PlacementState& state) {
  if (state == start_) return from_;
  if (state == goal_) return to_;
  std::vector<Placement> placements(sizes_.size());
  std::vector<int> order;
  for (DimLayouts& dim : dims_) {
    for (const DimCut& cut : dim.cuts(state.layouts[static_cast<size_t>(dim.dim())])) {
      placements[static_cast<size_t>(cut.axis)] = cut.shard;
      order.push_back(cut.axis);
    }
  }
  for_each_axis(state.partial, [&](int axis) {
    placements[static_cast<size_t>(axis)] = Partial{reduction_of(axis)};
  });
  for (int axis = 0; axis < static_cast<int>(sizes_.size()); ++axis)
    if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
  return Spec(from_.mesh(), std::move(placements), from_.shape(), from_.dtype(), std::move(order));
}

PlanStep PlacementStates::step_of(const PlacementState& from, const PlacementMove& move) {
  return {move.kind, list_of_axes(move.axes), spec_of(from), spec_of(move.to)};
}

}  // namespace shardproof
