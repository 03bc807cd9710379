// CutAgreement: the fraction of a tensor's elements to which an axis gives one coordinate before
// and after a move. Ranks own these elements before and after. So an all_to_all over axes of which
// one agrees on a fraction f sends at least 1 - f of each part. Internal to the planner.
//
// An axis cuts its dim into pieces. The sizes before it in the layout cut the dim into blocks by
// the chunk rule; the axis cuts each block. On dims whose cuts are even and digits of one number f
// is 1 / n for n ranks. Otherwise it can be larger, above all if an axis moves along its dim.
//
// Example: dim of 48, an axis of 3 ranks moves from S(0, split=4) to S(0). The coordinates of its
// 12 pieces of 4 elements are 012012012012 before and 000011112222 after. Both agree on 6 of 12: f
// = 1/2.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace shardproof {

__extension__ using Int128 = __int128;

// The end of a piece, and the coordinate that owns it.
struct CutPiece {
  int64_t end = 0;
  int64_t owner = 0;
};

// The cut of a dim by an axis: blocks of one size after another, then the axis by `ranks`.
struct AxisCut {
  AxisCut() = default;
  AxisCut(int dim, int64_t extent, int64_t ranks, std::vector<int64_t> before);
  int dim = -1;  // -1: the axis cuts nothing
  int64_t extent = 1, ranks = 1;
  std::vector<int64_t> before;
  std::vector<CutPiece> pieces;  // in the order of their elements
};

struct CutAgreement {
  int64_t part = 1, whole = 1;
  // Returns the fraction of a number, rounded up.
  template <typename Number>
  Number of(Number number) const {
    return (number * part + whole - 1) / whole;
  }
  bool operator<(const CutAgreement& o) const {
    return Int128{part} * o.whole < Int128{o.part} * whole;
  }
};

// Returns the agreement of two cuts by one axis.
CutAgreement agreement(const AxisCut& a, const AxisCut& b);
// Returns the fraction of the coordinate with the largest part.
CutAgreement largest_part(const AxisCut& cut);
// True if two cuts of one dim by one axis give each element the same coordinate.
bool is_same_cut(const AxisCut& a, const AxisCut& b);

// Gaps in front of a spare cut that SpareAgreements::largest allows.
enum class CutGaps {
  nested,  // even ones, and those that the axis leaves behind
  any,     // also uneven ones that other axes left behind
};

// Returns the agreement of axes that all move between the same two dims. `a` has their cuts of one
// dim, `b` those of the other.
using AxisCuts = std::span<const AxisCut* const>;
CutAgreement agreement_of_all(AxisCuts a, AxisCuts b);
// Returns the largest fraction of a dim that one coordinate on each axis owns. Requires cuts of one
// dim, by several axes or by one axis before and after a move.
CutAgreement joint_part(AxisCuts cuts);

// Agreements with cuts that are not known: spare positions. Blocks and results are computed once.
class SpareAgreements {
 public:
  // Other cuts are of another dim, or of the same dim after any of the sizes in any order. Their
  // product is at most `most`. Cuts whose digits overlap are left out: their all_to_all pads its
  // pieces.
  SpareAgreements(std::vector<int64_t> sizes, int64_t most)
      : sizes_(std::move(sizes)), most_(most) {}
  // Returns the agreements that the last search of this thread computed if it had the same sizes,
  // else new ones. Most searches of a program are on one mesh.
  static std::shared_ptr<SpareAgreements> shared(std::vector<int64_t> sizes, int64_t most);
  // Returns the largest agreement of a cut with any other cut.
  CutAgreement largest(const AxisCut& cut, CutGaps gaps);
  // Returns the largest fraction of elements on which two axes agree, if each has one known end and
  // any other cut at the other end.
  CutAgreement largest_of_two(const AxisCut& a, const AxisCut& b);

 private:
  using Blocks = std::vector<int64_t>;
  const std::vector<Blocks>& blocks_of(int64_t extent);
  int64_t most_along(const AxisCut& cut);
  int64_t most_nested(const AxisCut& cut) const;
  CutAgreement most_crossed(const AxisCut& cut, int64_t ranks);

  std::vector<int64_t> sizes_;
  int64_t most_;
  std::map<int64_t, std::vector<Blocks>> blocks_;  // by extent
  std::map<std::pair<std::vector<int64_t>, CutGaps>, CutAgreement> largest_;
  std::map<std::vector<int64_t>, int64_t> crossed_;  // by cut, and the ranks of the other axis
  std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>, int64_t> together_;  // of one dim
};

}  // namespace shardproof
