// ShuffleBound: a lower bound of the price from a state to the goal, and the calls that reach it.
//
// The bound is the least price of a relaxed problem in which every axis has one of few positions:
//   place    the axis cuts some digits in the state, and keeps others from them
//   spare    it cuts digits that no axis needs; there are always enough of them
//   whole    it cuts nothing
//   goal     it cuts the digits that the goal requires
// Every axis starts at its position in the state. A call moves axes:
//   slice         free; from whole to spare, or to goal
//   all_gather    from a place or spare to whole; sends what ranks miss
//   all_to_all    from a place to spare or goal, or from spare to goal; n ranks send (n - 1) / n of
//                 their part
// An axis may move to its goal only if no axis stays at a place with the digits of this goal. If
// one leaves them in the same all_to_all, the pieces of that call are longer by the size of the
// digits that both use.
//
// The bound is admissible under the conditions of PlacementStates::is_shuffle. The sizes of the
// active axes are powers of one prime, and the layouts of start and goal are even. All digits are
// then digits of one number. Take an axis of n ranks whose digits are even before or after an
// all_to_all. Its ranks own 1 / n of their elements before and after, so they send at least (n - 1)
// / n of their part. Other axes in the group do not change this. A move between two uneven
// positions sends less, but the relaxed problem needs none: both are spare. Hence each legal step
// is one of these calls or none, at the same price or less. A place whose digits no axis needs
// counts as spare. Under the weaker conditions of is_chunked, digits need not be those of one
// number. An axis can then agree on more than 1 / n (axis_agreement.h), above all if it moves along
// its dim. An all_to_all sends at least the elements on which the axes do not agree.
// search_lower_bound_calls.cpp states how the agreements of several axes multiply. Spare digits are
// those after sizes that layouts can have, up to twice the ranks of the mesh. A call that pads its
// pieces because digits overlap sends at least (n - 1) / n of a part; more if the overlap is known.
// The least price follows from a recursion over the combinations of positions that the state can
// reach (search_lower_bound.cpp). A plan that costs no more than the bound of the start is optimal.
#pragma once

#include <limits>

#include "shardproof/localtensor/base/number_table.h"
#include "shardproof/localtensor/plan/axis_agreement.h"
#include "shardproof/localtensor/plan/search_states.h"

namespace shardproof {

// The units of prices. `whole` is the tensor in bytes times the square of the ranks along the
// active axes; prices divide it. `part_bytes` is the largest part of a rank if no active axis cuts.
struct ShuffleUnits {
  Int128 whole = 0, call = 0;
  int64_t part_bytes = 0;
};

// True if the axes of `a` and `b` both cut some digit of one dim.
bool digits_overlap(const PlacementStates::Digits& a, const PlacementStates::Digits& b);

class ShuffleBound {
 public:
  static constexpr Int128 kNoLimit = std::numeric_limits<Int128>::max() / 4;
  // Requires states.is_shuffle() or states.is_chunked(). `states` must outlive the bound.
  ShuffleBound(const PlacementStates& states, const ShuffleUnits& units);
  // Returns the bound of a state. If it exceeds the limit, returns some number above the limit and
  // takes less time. Results are cached.
  ExactCost least(const PlacementState& state, Int128 limit = kNoLimit);
  // Returns a bound that takes less time. It counts one call, in which the axis that must send most
  // reaches its goal, and the all_gathers of axes that the goal does not cut.
  ExactCost quick_least(const PlacementState& state);
  // Returns a lower bound of the price to the goal if the next step is an all_gather or all_to_all
  // over the axes. `limit` is that of least.
  ExactCost least_over(const PlacementState& state, StepKind kind, uint64_t axes,
                       Int128 limit = kNoLimit);
  // Returns a lower bound of the price of an all_to_all over the axes between two states.
  ExactCost least_call(const PlacementState& from, const PlacementState& to, uint64_t axes);
  // False for an all_to_all that the bound omits under the conditions of is_chunked. In it an axis
  // moves between two places that are neither in the start nor in the goal. No axis leaves the
  // start on the same dim. The axis could have moved to the second place earlier.
  bool tries(const PlacementState& from, const PlacementState& to, uint64_t axes);
  // Returns those of the axes that an all_to_all over them only moves to their goals: tries is
  // false for other moves.
  uint64_t only_to_goal(const PlacementState& from, uint64_t axes);
  // Gathered: whole again. Long spare: since before the last call. From kPlace on: places of an
  // axis that states cut, by number.
  enum Position : uint8_t { kWhole, kSpare, kLongSpare, kGathered, kGoal, kPlace };
  using Positions = std::array<uint8_t, PlacementStates::kMaxShuffled>;
  // The cheapest continuation of a combination of positions: slices, then a call.
  struct Choice {
    ExactCost cost;
    bool known = false;               // false: the cost is at least this
    StepKind kind = StepKind::local;  // local: no call follows
    uint64_t sliced = 0, next = 0;    // combinations after the slices, and after the call
    Int128 least_rest = 0;            // least_rest_of_all of a call to here; 0: not known
  };
  // Returns the cheapest continuation of a combination. If each costs more than the limit, `known`
  // is false.
  const Choice& solve(uint64_t code, Int128 limit = kNoLimit);
  // Returns the continuations of at most 7/4 of the least cost and at most the limit, cheapest
  // first.
  std::vector<Choice> options(uint64_t code, Int128 limit);
  static Positions positions_of(uint64_t code) {  // by active axis
    Positions at{};
    for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<uint8_t>(code >> (8 * i));
    return at;
  }
  uint64_t code_of(const PlacementState& state);
  // Returns the digits of the active axis with this number in the goal; `dim` is -1 for none.
  const PlacementStates::Digits& goal(size_t axis) const { return axes_[axis].goal; }

 private:
  // Digits that an axis cuts in a state.
  struct Place {
    PlacementStates::Digits digits;
    AxisCut cut;
    CutAgreement to_spare;  // with any other cut, if the start has the place
    CutAgreement to_goal;   // with the cut of the goal
    // Size of the digits here that an axis needs; 1: none.
    std::array<int64_t, PlacementStates::kMaxShuffled> common{};
    uint8_t blocks = 0;    // other axes that cannot cut their goals meanwhile
    uint8_t overlaps = 0;  // axes that need some of the digits
  };
  // Sets of axes or dims, one bit for each.
  struct Sets {
    uint8_t moved = 0, cut_before = 0, cut = 0;  // axes that move, or cut the tensor
    uint8_t goal = 0, blocked = 0;  // axes that move to their goal; that others block afterwards
    uint8_t on_way = 0;             // axes that are not at their goal or whole afterwards
    uint8_t left_start = 0, left_places = 0;  // dims left: in the start, for spare digits
  };
  // The moves of some axes in one call, and the data that determine its price.
  struct Call {
    uint64_t to = 0, next = 0;  // combination after it; the same, with kLongSpare
    uint64_t moves = 0;         // number of its price
    Sets sets;
    Int128 now = 0, most = 0;  // the least that one of the axes sends in the call, and later
    int64_t whole = 1;         // product of the sizes of axes without goals that stay whole
    Call operator+(const Call& o) const;  // requires moves of other axes
  };
  struct Moves {
    Call stay, goal, spare, gathered;
  };
  struct Axis {
    int axis = 0;
    int64_t size = 1;
    PlacementStates::Digits goal;
    AxisCut goal_cut;                          // how it cuts at its goal
    CutAgreement from_spare, from_long_spare;  // of the goal with a spare cut
    // The position after it has stayed on spare digits: kSpare if it does not matter for how long.
    uint8_t stays_spare = kSpare;
    std::vector<Place> places;
    // By position, the least that it sends until it is at its goal (alone), in its next call
    // (leaves), and in the call that reaches its goal (arrives); and the axes that it blocks.
    std::vector<Int128> alone, leaves, arrives;
    std::vector<uint8_t> blocks;
    std::vector<Moves> moves;  // from each position
  };
  std::vector<int64_t> sizes_before(const DimLayouts& dim, int layout, int axis,
                                    const PlacementStates::Digits& digits) const;
  void add_moves_spare();
  void add_positions();
  void add_position(size_t axis, uint8_t at, uint8_t blocks);
  void add_moves(size_t axis, uint8_t at);
  uint8_t position_of(size_t axis, const PlacementStates::Digits& digits,
                      std::vector<int64_t> before);
  static bool is_spare(uint8_t at) { return at == kSpare || at == kLongSpare; }
  static bool is_on_its_way(uint8_t at) { return is_spare(at) || at >= kPlace; }
  static bool is_whole(uint8_t at) { return at == kWhole || at == kGathered; }
  uint64_t code_of(const Positions& at) const;
  uint64_t code_of_source(const PlacementState& state);
  CutAgreement from_spare(size_t axis, uint8_t at) const {
    return at == kLongSpare ? axes_[axis].from_long_spare : axes_[axis].from_spare;
  }
  uint64_t code_of_layout(const DimLayouts& dim, int layout);
  bool has_goal(size_t axis) const { return axes_[axis].goal.dim >= 0; }
  const Place& place(size_t axis, uint8_t at) const {
    return axes_[axis].places[static_cast<size_t>(at - kPlace)];
  }
  // Axes that move between two dims, in either direction, and the most that they agree on.
  struct Tie {
    int a = 0, b = 0;  // dims; b is kMaxDims for a move along dim a
    uint32_t axes = 0;
    CutAgreement common;
  };
  using Ties = ShortList<Tie, PlacementStates::kMaxShuffled>;
  // The part of a rank.
  struct Part {
    Int128 sent = 0;    // as part of a price
    int64_t bytes = 0;  // of the largest one
    int64_t ranks = 1;  // product of the sizes of the axes
  };
  Call move_of(size_t axis, uint8_t at, uint8_t to) const;
  Call call_of(const Positions& from, const Positions& to) const;
  static uint64_t number_of_move(size_t axis, uint8_t at, uint8_t to);
  bool has_simple_rest(const Call& call) const;
  bool is_tried(const Sets& sets) const;
  uint32_t leaving_axes(const Positions& from) const;
  bool is_above(Int128 best, const Call& call, const Call& move) const;
  // Return the least price of later calls. The second also counts axes that others block.
  Int128 least_rest(const Call& call) const;
  Int128 least_rest_of_all(const Call& call);
  Int128 least_blocked(const Call& call, size_t i, size_t j);
  const Part& part_of(const Positions& at) const;
  uint32_t blocked_axes(const Positions& at) const;
  bool is_done(const Positions& at) const;
  Choice& choice_after(const Call& call);
  Int128 least_after(const Call& call, Choice& after);
  const Choice& solve(uint64_t code, Int128 limit, Choice& way);
  const Choice& solve_call(uint64_t code, Int128 limit, Choice& call);
  template <typename Each>
  void for_each_slice(const Positions& from, Positions at, size_t axis, bool at_once,
                      const Each& each);
  // Try calls from a combination; `call` has the moves of all but the `open` axes.
  void try_calls(const Positions& from, Choice& best);
  void try_gathers(const Positions& from, const Call& call, uint32_t open, Choice& best);
  void try_all_to_alls(const Positions& from, uint32_t leaving, const Call& call, uint32_t open,
                       Choice& best);
  void try_moves(const Positions& from, uint32_t leaving, const Call& call, uint32_t open,
                 ExactCost& best);
  Call stay_of(const Positions& from, uint32_t open) const;
  void offer(StepKind kind, const Positions& from, const Call& call, Choice& best);
  ExactCost price_of_call(StepKind kind, const Positions& from, const Call& call);
  Int128 least_alone(size_t axis, uint8_t at) const;
  Int128 least_moving(size_t axis, uint8_t at, uint8_t to) const;
  Int128 least_leaving(size_t axis, uint8_t at) const;
  Int128 least_arriving(size_t axis, uint8_t at) const;
  Int128 least_sent(const Positions& from, const Positions& to, Int128 part);
  Int128 least_padded(const Positions& from, const Positions& to, Int128 part);
  CutAgreement joint_of(uint64_t number);
  Ties ties_of(const Positions& from, const Positions& to) const;
  CutAgreement joint_at(const Positions& from, uint32_t axes, int dim);
  CutAgreement spare_of(const Positions& from, size_t axis, int dim, const Ties& ties);
  CutAgreement exact_of(const Positions& from, const Tie& tie);
  Int128 common_of_tree(const Positions& from, const Ties& ties, Int128 part);
  Int128 most_common(const Positions& from, const Positions& to, Int128 part);
  bool has_unknown_end(const Positions& from, const Positions& to, size_t axis) const;
  CutAgreement agreement_of_two(size_t a, uint8_t from_a, size_t b, uint8_t from_b);

  const PlacementStates& states_;
  Int128 call_;
  std::vector<Part> parts_;  // by the set of axes that cut
  uint32_t with_goal_ = 0;   // set of axes
  bool one_prime_;           // all digits are those of one number
  std::shared_ptr<SpareAgreements> spares_;
  std::vector<Axis> axes_;
  bool has_start_ = false;  // true from when start_ is known
  Positions start_{};
  PlacementState source_;  // of the last call that was bounded, and its number
  uint64_t source_code_ = 0;
  std::vector<uint64_t> of_layouts_;  // by layout and dim: its part of the number
  NumberTable<Choice> ways_, calls_;  // by number; a call follows no slices
  NumberTable<Choice> over_;          // least_over by axes and combination
  NumberTable<Int128> prices_;        // of all_to_alls by moves; 0: not known
  NumberTable<std::optional<CutAgreement>> joints_, exact_;
  std::vector<std::optional<CutAgreement>> pairs_;  // of two axes, and which ends are known
  std::vector<Choice>* options_ = nullptr;          // receives the choices that offer() computes
};

}  // namespace shardproof
