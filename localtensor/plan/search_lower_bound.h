// ShuffleBound: a lower bound of the price from a state to the goal, and the calls that reach it.
//
// The bound is the least price of a relaxed problem in which every axis has one of few positions:
//   place    the axis cuts some digits in the state, and keeps others from them
//   aside    it cuts digits that no axis needs; there are always enough of them
//   whole    it cuts nothing
//   home     it cuts the digits that the goal requires
// Every axis starts at its position in the state. A call moves axes:
//   slice         free; from whole to aside, or to home
//   all_gather    from a place or aside to whole; sends what ranks miss
//   all_to_all    from a place to aside or home, or from aside to home; n ranks send (n - 1) / n of
//                 their part
// An axis may go home only if no axis stays at a place with its digits. If one leaves them in the
// same all_to_all, the pieces of that call are longer by the size of the digits that both use.
//
// The bound is admissible under the conditions of PlacementStates::is_shuffle: the sizes of the
// active axes are powers of one prime, and the layouts of start and goal are even. All digits are
// then digits of one number. An axis whose digits are even before or after an all_to_all owns 1 / n
// of its elements on both sides, so n ranks send at least (n - 1) / n of their part; other axes in
// the group do not change this. A move between two uneven positions sends less, but the relaxed
// problem needs none: both are aside. Hence each legal step is one of these calls or none, at the
// same price or less. A place whose digits no axis needs counts as aside.
// Under the weaker conditions of is_chunked, digits need not be those of one number. An axis can
// then agree on more than 1 / n (axis_agreement.h), above all if it moves along its dim. An
// all_to_all sends at least what the axes do not agree on; search_lower_bound.cpp has how the
// agreements of several axes multiply. The digits aside are those after sizes that layouts can
// have, up to twice the ranks of the mesh. If a call pads its pieces since digits overlap, it sends
// as much as above.
// A call is cheaper if more axes cut the tensor and fewer take part. Hence these restrictions do
// not raise the least price:
//   - an axis that is home stays: it is in the way of none
//   - an axis that can be sliced to home is sliced at once
//   - an axis gathered from aside is not sliced to aside again: it could have stayed
// Without cycles the least price follows from a recursion over the combinations of positions that
// the state can reach. A plan that costs no more than the bound of the start is optimal.
//
// Example, axes a and b of 2 ranks that change places. Both in one all_to_all: n = 4, and the
// pieces are 4 times as long as those of an all_to_all without common digits: 3 times the part. a
// aside, b home, a home: 1/2 each, and 3 calls. a and b aside, then home: 3/4 each, and 2 calls;
// the bound is this price.
#pragma once

#include <unordered_map>

#include "shardproof/localtensor/plan/axis_agreement.h"
#include "shardproof/localtensor/plan/search_states.h"

namespace shardproof {

__extension__ using Int128 = __int128;

// A price in units in which every fraction that can occur is an integer.
struct ExactCost {
  Int128 primary = 0;
  int64_t peak = 0;
  bool operator==(const ExactCost&) const = default;
  bool operator<(const ExactCost& o) const {
    return primary != o.primary ? primary < o.primary : peak < o.peak;
  }
};
inline ExactCost operator+(const ExactCost& a, const ExactCost& b) {
  return {a.primary + b.primary, std::max(a.peak, b.peak)};
}

// The way of counting bytes. `whole` is the tensor in bytes times the square of the world of the
// active axes; it is divided by parts. `part_bytes` is the largest part of a rank if no active axis
// cuts.
struct ShuffleUnits {
  Int128 whole = 0, call = 0;
  int64_t part_bytes = 0;
};

class ShuffleBound {
 public:
  // Requires states.is_shuffle() or states.is_chunked(). `states` must outlive the bound.
  ShuffleBound(const PlacementStates& states, const ShuffleUnits& units);
  // Returns the bound of a state. Results are cached.
  ExactCost least(const PlacementState& state);
  // Returns a bound that is not higher and takes less time: of one call, by the axis that sends
  // most.
  ExactCost least_of_one_axis(const PlacementState& state);

  // Returns a lower bound of the price to the goal if the next step is an all_gather or all_to_all
  // over the axes.
  ExactCost least_over(const PlacementState& state, StepKind kind, uint64_t axes);
  // Returns a lower bound of the price of an all_to_all over the axes between two states.
  ExactCost least_call(const PlacementState& from, const PlacementState& to, uint64_t axes);
  // False for an all_to_all that the bound leaves out under the conditions of is_chunked: an axis
  // moves from one place to another, neither is in the start or home, and no axis leaves the start
  // on the same dim. It could have gone to the second place before.
  bool tries(const PlacementState& from, const PlacementState& to, uint64_t axes);

  // Gathered: whole again. From kPlace on: places of an axis that states cut, by number.
  enum Position : uint8_t { kWhole, kAside, kGathered, kHome, kPlace };
  using Positions = std::array<uint8_t, PlacementStates::kMaxShuffled>;
  // The cheapest way on from a combination of positions: slices, then a call.
  struct Choice {
    ExactCost cost;
    bool known = false;
    StepKind kind = StepKind::local;  // local: no call follows
    uint64_t sliced = 0, next = 0;    // combinations after the slices, and after the call
  };
  // Return the cheapest way on from a combination, and its positions; by active axis.
  const Choice& solve(uint64_t code);
  Positions positions_of(uint64_t code) const;
  uint64_t code_of(const PlacementState& state);
  // Returns the digits of the active axis with this number in the goal; `dim` is -1 for none.
  const PlacementStates::Digits& home(size_t axis) const { return axes_[axis].home; }

 private:
  // Digits that an axis cuts in a state.
  struct Place {
    PlacementStates::Digits digits;
    AxisCut cut;
    CutAgreement aside, home;  // with any other cut, if the start has the place; with that of home
    CutAgreement largest;      // part of one coordinate, here or at home
    // Size of the digits here that an axis needs; 1: none.
    std::array<int64_t, PlacementStates::kMaxShuffled> common{};
  };
  struct Axis {
    int axis = 0;
    int64_t size = 1;
    PlacementStates::Digits home;
    AxisCut goal;             // how it cuts at home
    CutAgreement from_aside;  // of home with any other cut
    std::vector<Place> places;
  };
  AxisCut cut_of(const PlacementState& state, int axis,
                 const PlacementStates::Digits& digits) const;
  AxisCut cut_of(const DimLayouts& dim, int layout, int axis,
                 const PlacementStates::Digits& digits) const;
  void add_moves_aside();
  uint8_t position_of(size_t axis, const PlacementStates::Digits& digits, const AxisCut& cut);
  static bool is_cut_aside(uint8_t at) { return at == kAside || at >= kPlace; }  // or at a place
  static bool is_whole(uint8_t at) { return at == kWhole || at == kGathered; }
  bool is_tried(const Positions& from, const Positions& to) const;
  uint64_t code_of(const Positions& at) const;
  uint64_t code_of_layout(const DimLayouts& dim, int layout);
  bool has_home(size_t axis) const { return axes_[axis].home.dim >= 0; }
  const Place& place(size_t axis, uint8_t at) const {
    return axes_[axis].places[static_cast<size_t>(at - kPlace)];
  }
  // The part of a rank.
  struct Part {
    Int128 sent = 0;    // as part of a price
    int64_t bytes = 0;  // of the largest one
  };
  const Part& part_of(const Positions& at) const;
  bool is_blocked(size_t axis, const Positions& at) const;
  bool needs_call(const Positions& at) const;
  bool is_done(const Positions& at) const;
  const Choice& solve_call(uint64_t code);
  void try_slices(const Positions& from, Positions at, size_t axis, Choice& best);
  void try_gathers(const Positions& from, Positions at, size_t axis, Choice& best);
  void try_all_to_alls(const Positions& from, Positions at, size_t axis, Choice& best);
  void try_moves(const Positions& from, Positions at, size_t axis, uint64_t axes, ExactCost& best);
  void offer(StepKind kind, const Positions& from, const Positions& to, Choice& best);
  ExactCost price_of_call(StepKind kind, const Positions& from, const Positions& to) const;
  static bool goes_home(const Positions& from, const Positions& to, size_t axis) {
    return from[axis] >= kPlace && to[axis] == kHome;
  }
  Int128 least_alone(size_t axis, uint8_t at) const;
  Int128 least_sent(const Positions& from, const Positions& to, Int128 part) const;
  Int128 most_common(const Positions& from, const Positions& to, Int128 part) const;

  const PlacementStates& states_;
  Int128 call_;
  std::vector<Part> parts_;  // by the set of axes that cut
  bool one_prime_;           // all digits are those of one number
  std::vector<Axis> axes_;
  Positions start_{};
  std::vector<std::vector<uint64_t>> in_dims_;  // by dim and layout: what it adds to the number
  std::unordered_map<uint64_t, Choice> ways_, calls_;  // by number; a call follows no slices
  std::unordered_map<uint64_t, ExactCost> over_;       // least_over by axes and combination
};

}  // namespace shardproof
