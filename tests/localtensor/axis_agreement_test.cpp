// Tests axis_agreement.h: the fraction of elements to which axes give one coordinate before and
// after a move.
#include "shardproof/localtensor/plan/axis_agreement.h"

#include <gtest/gtest.h>

#include <array>

#include "shardproof/localtensor/base/dims.h"
#include "shardproof/localtensor/base/fraction.h"
#include "shardproof/localtensor/placement/shard_cut.h"

namespace shardproof::axis_agreement_test {
namespace {

// An axis that moves along its dim agrees on more than 1 / n if its digits are not of one number.
TEST(AxisAgreement, MoveAlongADim_IsCounted) {
  const AxisCut outer = {0, 48, 3, {}}, inner = {0, 48, 3, {4}}, other = {1, 10, 3, {}};
  const CutAgreement along = agreement(inner, outer), across = agreement(outer, other);
  EXPECT_EQ(Fraction(along.part, along.whole), Fraction(1, 2));
  EXPECT_EQ(Fraction(across.part, across.whole), Fraction(1, 3));
  const CutAgreement most = SpareAgreements({2, 3, 4}, 48).largest(outer, CutGaps::any);
  EXPECT_EQ(Fraction(most.part, most.whole), Fraction(1, 2));
}

// Gaps that other axes left can stand before a cut: 3 sizes before an axis of 2, which then agrees
// on 2/3. An axis that has just moved cuts after even gaps, or after its own.
TEST(AxisAgreement, UnevenGaps_AreLeftByOthers) {
  const AxisCut half = {0, 64, 2, {}};
  const CutAgreement any = SpareAgreements({2, 3}, 12).largest(half, CutGaps::any);
  const CutAgreement nested = SpareAgreements({2, 3}, 12).largest(half, CutGaps::nested);
  EXPECT_EQ(Fraction(any.part, any.whole), Fraction(42, 64));
  EXPECT_EQ(Fraction(nested.part, nested.whole), Fraction(1, 2));
}

// Returns the coordinate that owns an index of the cut's dim.
int64_t owner_of(const AxisCut& cut, int64_t index) {
  int64_t length = cut.extent;
  for (const int64_t size : cut.before) {
    const int64_t piece = ceil_div(length, size), block = index / piece;
    index -= block * piece;
    length = std::min(piece, length - block * piece);
  }
  return index / ceil_div(length, cut.ranks);
}

bool overlap(const AxisCut& a, const AxisCut& b) {
  int64_t first_a = 1, first_b = 1;
  for (const int64_t size : a.before) first_a *= size;
  for (const int64_t size : b.before) first_b *= size;
  return a.dim == b.dim && first_a < first_b * b.ranks && first_b < first_a * a.ranks;
}

// Returns the elements of a [13, 10, 8] on which both axes agree.
int64_t agreeing(const AxisCut& a, const AxisCut& to_a, const AxisCut& b, const AxisCut& to_b) {
  int64_t agreeing = 0;
  for (int64_t i = 0; i < 13 * 10 * 8; ++i) {
    const Dims at = unravel(i, {13, 10, 8});
    if (owner_of(a, at[a.dim]) == owner_of(to_a, at[to_a.dim]) &&
        owner_of(b, at[b.dim]) == owner_of(to_b, at[to_b.dim]))
      ++agreeing;
  }
  return agreeing;
}

// Two axes agree on at most this number of elements, for all positions of their other ends.
TEST(AxisAgreement, TwoAxes_AgreeOnNoMoreWhereverTheyGo) {
  const Dims shape = {13, 10, 8};
  const std::vector<std::pair<AxisCut, AxisCut>> pairs = {{{0, 13, 2, {}}, {0, 13, 3, {2}}},
                                                          {{0, 13, 2, {}}, {1, 10, 3, {}}},
                                                          {{0, 13, 2, {3}}, {1, 10, 3, {2}}},
                                                          {{1, 10, 2, {}}, {2, 8, 2, {}}}};
  int64_t compared = 0, reached = 0;
  for (const auto& [a, b] : pairs) {
    const CutAgreement most = SpareAgreements({2, 3}, 12).largest_of_two(a, b);
    std::vector<std::pair<AxisCut, AxisCut>> ends;
    for (int dim = 0; dim < 3; ++dim)
      for (const std::vector<int64_t>& before :
           {std::vector<int64_t>{}, {2}, {3}, {2, 2}, {2, 3}, {3, 2}})
        ends.emplace_back(AxisCut{dim, shape[dim], a.ranks, before},
                          AxisCut{dim, shape[dim], b.ranks, before});
    int64_t largest = 0;
    for (const auto& [to_a, ignored] : ends)
      for (const auto& [also_ignored, to_b] : ends) {
        if (overlap(a, to_a) || overlap(a, to_b) || overlap(b, to_a) || overlap(b, to_b) ||
            overlap(to_a, to_b))
          continue;
        ++compared;
        largest = std::max(largest, agreeing(a, to_a, b, to_b));
      }
    EXPECT_LE(largest * most.whole, most.part * 13 * 10 * 8);
    reached += 4 * largest * most.whole > 3 * most.part * 13 * 10 * 8 ? 1 : 0;
  }
  EXPECT_GT(compared, 200);
  EXPECT_GT(reached, 1);  // the bound is close
}

// The joint part of an axis before and after a move is the part of elements that one coordinate
// owns at both times.
TEST(AxisAgreement, JointPart_IsTheLargestOfAllCoordinates) {
  const AxisCut a = {0, 7, 2, {}}, b = {0, 7, 3, {2}};
  const CutAgreement alone = joint_part(std::array{&a}), both = joint_part(std::array{&a, &b});
  EXPECT_EQ(Fraction(alone.part, alone.whole), Fraction(4, 7));
  EXPECT_EQ(Fraction(both.part, both.whole), Fraction(2, 7));
}

// Two axes that move between the same dims agree on the elements whose coordinates are equal.
TEST(AxisAgreement, AxesBetweenTwoDims_AgreeOnTheCountedElements) {
  const std::vector<AxisCut> a = {{0, 13, 2, {}}, {0, 13, 3, {2}}};
  const std::vector<AxisCut> b = {{1, 10, 2, {3}}, {1, 10, 3, {}}};
  const std::array cuts_a = {&a[0], &a[1]}, cuts_b = {&b[0], &b[1]};
  const CutAgreement both = agreement_of_all(cuts_a, cuts_b);
  EXPECT_EQ(Fraction(both.part, both.whole),
            Fraction(agreeing(a[0], b[0], a[1], b[1]), 13 * 10 * 8));
  EXPECT_LT(both, joint_part(cuts_a));
  EXPECT_LT(both, joint_part(cuts_b));
}

}  // namespace
}  // namespace shardproof::axis_agreement_test
