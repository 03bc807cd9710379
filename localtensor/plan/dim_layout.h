// DimLayouts: the layouts of one dim over the ranks, in a form in which steps are edits of a short
// list.
//
// A layout is a list of digits of the dim's index, most significant first. An axis digit cuts: the
// coordinate on the axis selects the part. A gap does not cut: the rank has the parts of all values
// of the digit, one after another. Each digit cuts by the chunk rule the extent that the digits
// before it leave, so uneven cuts nest as in a Spec. A strided cut S(d, split=k) is a gap of k and
// then the axis.
//
// Taking an axis out turns its digit into a gap of its size: the layout of what the ranks along
// that axis own together. Layouts with equal digits own the same indices.
//
// Example: dim of 8, dp=2, tp=2.
//   dp:S(0) tp:S(0)           dp tp       rank (1, 0) has 4 5
//   without tp                dp          dp 1 has 4 5 6 7 (gaps at the end are dropped)
//   without dp                gap2 tp     tp 0 has 0 1 4 5, which is tp:S(0, split=2)
//   tp placed first, then dp  tp dp       rank (1, 0) has 2 3, which is dp:S(0, after=tp)
//
// Digits cannot describe a cut across pieces of unequal length; such cuts are a list of their own
// (odd).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "shardproof/localtensor/base/short_list.h"
#include "shardproof/localtensor/placement/owned_pieces.h"

namespace shardproof {

struct Digit {
  int axis = -1;  // -1: a gap
  int form = 0;   // > 0: number of explicit sizes
  int64_t size = 1;
  bool operator==(const Digit&) const = default;
};

// A layout that is being edited. Digits of more than one index are at most those of axes, 31, and
// the gaps around them.
struct Layout {
  using Odd = std::vector<std::pair<int, int>>;  // (axis, number of its Shard), as applied
  static constexpr size_t kMaxDigits = 80;
  ShortList<Digit, kMaxDigits> digits;
  Odd odd;
  bool operator==(const Layout&) const = default;
};

// Numbers the layouts of one dim that occur in a search. Number 0 is the dim without cuts. Facts
// about a layout are computed once.
class DimLayouts {
 public:
  // `axis_sizes` are the sizes of the mesh axes.
  DimLayouts(int dim, int64_t extent, std::vector<int64_t> axis_sizes);

  int of_spec(const Spec& spec);  // the layout of this dim in a spec
  // Cuts by one axis after another; `splits` are those of strided cuts, 1 if left out.
  int of_chain(const std::vector<int>& axes, const std::vector<int64_t>& splits = {});
  const std::vector<int64_t>& gaps() const { return gaps_; }
  std::vector<int> axis_order(int layout) const;  // axes in the order of their digits
  // Returns the layout with gaps in place of the axes of `mask`; -1 if digits cannot describe it. A
  // Spec cannot describe every result.
  int without(int layout, uint64_t mask);
  // Returns the layouts in which `axis` cuts further, without data from other ranks: all results
  // with without(result, axis) == layout that are candidates.
  const std::vector<int>& with(int layout, int axis);
  // Returns the layout in which `axis` also cuts the digits [first, first * size). Returns -1 if
  // other axes cut some of them, or if digits cannot describe the layout. Requires an axis that
  // does not cut.
  int with_place(int layout, int axis, int64_t first);
  void add_gap(int64_t size);  // lets `with` try gaps of this size
  void offer(int layout);      // lets `with` return this layout

  bool has_spec(int layout);  // true if a Spec can describe it
  // Return the cuts of such a layout, and the pieces that they make.
  const CutList& cuts(int layout);
  const OwnedPieces& pieces(int layout);
  const CoordinateBits& bits() const { return bits_; }  // of the owners of pieces
  uint64_t axes(int layout) const { return facts_[static_cast<size_t>(layout)].axes; }
  int64_t max_extent(int layout);                   // of the rank with the largest part
  int64_t joint_extent(int layout, uint64_t mask);  // max_joint_extent of shard_cut_list.h
  // True if, in an exchange among the ranks of `mask`, each rank sends equal pieces to all. False
  // if the digits that the axes use before and after overlap: some rank then sends all to one
  // other. False too if the parts are equal and the places do not nest, as thirds and halves.
  bool is_balanced(int from, int to, uint64_t mask) const;
  // Returns the place of an axis digit: the product of the sizes before it. The digit takes the
  // places [first, first * size). Returns 0 if the layout does not cut by the axis.
  int64_t first_place(int layout, int axis) const;
  // True if all parts are equal, so that places are digits of the index.
  bool is_even(int layout) const { return facts_[static_cast<size_t>(layout)].even; }
  // True if the parts are equal, `more` divides their lengths, and gaps are powers of `prime`.
  bool has_digits(int layout, int64_t prime, int64_t more) const;
  // True if all cuts follow the chunk rule and have no more parts than indices. Then sizes_before
  // has the sizes of the digits before an axis, which determine its pieces.
  bool has_chunks(int layout) const;
  std::vector<int64_t> sizes_before(int layout, int axis) const;
  int64_t piece_extent(int from, int to, uint64_t mask);  // largest_piece of shard_cut_list.h
  int64_t parts(int layout) const;                        // product of the sizes of its digits
  int dim() const { return dim_; }
  int64_t extent() const { return extent_; }

 private:
  struct Facts {
    size_t stored = 0;  // its number in stored_
    uint64_t axes = 0;
    int64_t max_extent = -1;               // -1: not known yet
    int representable = -1, inverse = -1;  // 0 or 1; -1: not known yet
    bool even = false;
    bool has_cuts = false, has_pieces = false;  // true if these are computed
    CutList cuts;
    OwnedPieces pieces;
    // Lists, because each has only a few keys.
    std::vector<std::pair<uint64_t, int>> without;
    std::vector<std::pair<uint64_t, int64_t>> joint;
    std::map<int, std::vector<int>> with;
  };
  // The digits [first, first + count) of digits_, and the layout that owns the same.
  struct Stored {
    size_t first = 0, count = 0;
    Layout::Odd odd;
    int number = 0;
  };
  int number(const Layout& layout);
  uint64_t owner_of(int layout, int64_t index);
  uint64_t ownership_hash(int layout);
  int same_ownership(int layout);
  size_t& slot_of(const Layout& layout);
  void grow_slots();
  std::span<const Digit> digits_of(const Stored& stored) const {
    return {digits_.data() + stored.first, stored.count};
  }
  std::span<const Digit> digits_of(int layout) const { return digits_of(stored_of(layout)); }
  const Layout::Odd& odd_of(int layout) const { return stored_of(layout).odd; }
  const Stored& stored_of(int layout) const {
    return stored_[facts_[static_cast<size_t>(layout)].stored];
  }
  bool is_stored(size_t stored, const Layout& layout) const;
  Layout layout_of(int layout) const;  // a copy to edit
  void add_facts();
  bool is_inverse_of_cuts(int layout);
  int64_t even_piece(int from, int to) const;
  int64_t uneven_piece(int from, int to, uint64_t mask);
  int64_t ranks_along(uint64_t mask) const;
  void make_normal(Layout& layout) const;
  Layout of_cuts(const CutList& cuts);
  bool put_cut(Layout& layout, const DimCut& cut);
  bool put_in_gap(Layout& layout, size_t at, int64_t skip, int axis) const;
  template <typename Each>
  void for_each_cut_into_gaps(const Layout& base, int axis, const Each& each) const;
  template <typename Each>
  void for_each_candidate(const Layout& base, int axis, const Each& each);
  std::vector<int64_t> extents_after(const Layout& layout, size_t digits) const;
  bool is_even_gap(const Layout& layout, size_t at) const;
  int form_of(const Shard& shard);

  int dim_;
  int64_t extent_;
  std::vector<int64_t> axis_sizes_;
  CoordinateBits bits_;
  std::vector<int64_t> gaps_;
  std::vector<int> offered_;
  std::vector<Layout> spec_prefixes_;            // prefixes of the layouts of specs
  std::vector<Shard> forms_;                     // explicit sizes and odd cuts; numbers from 1 on
  std::vector<std::pair<int, int>> axis_forms_;  // (axis, form) that occur in a Spec
  std::vector<Facts> facts_;                     // by number
  std::vector<Stored> stored_;                   // all layouts met
  std::vector<Digit> digits_;
  std::vector<size_t> slots_;                      // hash table: numbers in stored_, from 1 on
  std::unordered_multimap<uint64_t, int> uneven_;  // by ownership_hash
  std::map<std::tuple<int, int, uint64_t>, int64_t> pieces_;
};

}  // namespace shardproof
