// How one dim lies over the ranks, in a form where moves are edits of a short list.
//
// A dim is written as digits, most significant first: an axis digit says which part a rank has, a
// hole says that a rank has the parts of all values of a digit one after another. Each digit cuts
// by the chunk rule what the ones before it leave, so uneven cuts nest as in a Spec; a strided cut
// S(d, split=k) is a hole of k and then the axis; taking an axis out leaves a hole of its size. Two
// layouts with equal digits own the same, and what the ranks of a set of axes own together is the
// layout with holes in their places. What digits cannot say (a cut across pieces of unequal length)
// is kept as a tail of odd cuts.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "shardproof/localtensor/placement/shard_cut_list.h"

namespace shardproof {

struct Digit {
  int axis = -1;  // -1: a hole
  int64_t size = 1;
  int form = 0;  // > 0: explicit sizes, by number
  auto operator<=>(const Digit&) const = default;
};

struct Layout {
  std::vector<Digit> digits;
  std::vector<std::pair<int, int>> odd;  // (axis, number of its Shard), in order of application
  auto operator<=>(const Layout&) const = default;
};

// All layouts of one dim that a search meets, by number. Number 0: not cut.
class DimLayouts {
 public:
  DimLayouts(int dim, int64_t extent, std::vector<int64_t> axis_sizes);

  int of_spec(const Spec& spec);
  int of_chain(const std::vector<int>& axes);     // plain cuts, one after another
  std::vector<int> axis_order(int layout) const;  // axes in the order of their places
  // With holes for the axes of `mask`; -1 when digits cannot say it. Not always sayable by a Spec.
  int without(int layout, uint64_t mask);
  // Everything that `axis` may cut further without data from other ranks: without(result, axis) ==
  // layout.
  const std::vector<int>& with(int layout, int axis);
  void add_gap(int64_t size);  // `with` also tries holes of this size,
  void offer(int layout);      // and this one

  bool has_spec(int layout);        // a Spec says it
  const CutList& cuts(int layout);  // of a sayable one
  uint64_t axes(int layout) const { return facts_[static_cast<size_t>(layout)].axes; }
  int64_t max_extent(int layout) const { return facts_[static_cast<size_t>(layout)].max_extent; }
  int64_t joint_extent(int layout, uint64_t mask);
  // An exchange between the two among the ranks of `mask` in which each sends to each alike. Else
  // some ranks send all they have to one: the places that the axes take in the two layouts overlap.
  bool is_balanced(int from, int to, uint64_t mask) const;
  // Where an axis stands: its places are [first, first * size), first the product of the sizes
  // before it; 0 when the layout does not cut by it.
  int64_t first_place(int layout, int axis) const;
  // Cut into equal parts, so that places are digits of the index.
  bool is_even(int layout) const { return facts_[static_cast<size_t>(layout)].even; }
  int64_t piece_extent(int from, int to, uint64_t mask);  // see largest_piece
  int dim() const { return dim_; }

 private:
  struct Facts {
    uint64_t axes = 0;
    int64_t max_extent = 0;
    int sayable = -1;  // not known yet
    bool even = false;
    CutList cuts;
    // Few keys each: walked, not hashed.
    std::vector<std::pair<uint64_t, int>> without;
    std::vector<std::pair<uint64_t, int64_t>> joint;
    std::map<int, std::vector<int>> with;
  };
  int number(Layout layout);
  int64_t even_piece(int from, int to) const;
  Layout normal(Layout layout) const;
  Layout of_cuts(const CutList& cuts);
  bool put_cut(Layout& layout, const DimCut& cut);
  bool put_in_hole(Layout& layout, size_t at, int64_t skip, const DimCut& cut) const;
  CutList cuts_of(const Layout& layout) const;
  std::vector<int64_t> extents_after(const Layout& layout, size_t digits) const;
  bool is_even_hole(const Layout& layout, size_t at) const;
  int form_of(const Shard& shard);

  int dim_;
  int64_t extent_;
  std::vector<int64_t> axis_sizes_;
  std::vector<int64_t> gaps_;
  std::vector<int> offered_;
  std::vector<Layout> asked_;                    // of specs, and what they are built from
  std::vector<Shard> forms_;                     // explicit sizes and odd cuts, from 1 on
  std::vector<std::pair<int, int>> axis_forms_;  // (axis, form) seen in a Spec
  std::vector<Layout> layouts_;
  std::vector<Facts> facts_;
  std::map<Layout, int> numbers_;
  std::map<std::tuple<int, int, uint64_t>, int64_t> pieces_;
};

}  // namespace shardproof
