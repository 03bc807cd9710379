// Implements axis_agreement.h. Pieces are listed in the order of their elements; two lists are
// merged to count the elements on which they agree.
#include "shardproof/localtensor/plan/axis_agreement.h"

#include <algorithm>
#include <set>

#include "shardproof/localtensor/base/dims.h"
#include "shardproof/localtensor/placement/shard_cut.h"

namespace shardproof {

namespace {

// The end of a piece, and the coordinate that owns it.
struct CutPiece {
  int64_t end = 0;
  int64_t owner = 0;
};

// Returns the lengths of the blocks, each cut into `count` by the chunk rule.
std::vector<int64_t> cut_blocks(const std::vector<int64_t>& blocks, int64_t count) {
  std::vector<int64_t> parts;
  parts.reserve(blocks.size() * static_cast<size_t>(count));
  for (const int64_t block : blocks)
    for (int64_t i = 0; i < count; ++i) parts.push_back(chunk_length(block, count, i));
  return parts;
}

std::vector<CutPiece> pieces_of(const std::vector<int64_t>& blocks, int64_t ranks) {
  std::vector<CutPiece> pieces;
  pieces.reserve(blocks.size() * static_cast<size_t>(ranks));
  int64_t end = 0;
  for (const int64_t block : blocks)
    for (int64_t i = 0; i < ranks; ++i) pieces.push_back({end += chunk_length(block, ranks, i), i});
  return pieces;
}

std::vector<int64_t> blocks_of(const AxisCut& cut) {
  std::vector<int64_t> blocks = {cut.extent};
  for (const int64_t size : cut.before) blocks = cut_blocks(blocks, size);
  return blocks;
}

std::vector<CutPiece> pieces_of(const AxisCut& cut) { return pieces_of(blocks_of(cut), cut.ranks); }

// Returns the number of elements with one owner in both lists.
int64_t common_elements(const std::vector<CutPiece>& a, const std::vector<CutPiece>& b) {
  int64_t common = 0, at = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t end = std::min(a[i].end, b[j].end);
    if (a[i].owner == b[j].owner) common += end - at;
    at = end;
    if (a[i].end == end) ++i;
    if (b[j].end == end) ++j;
  }
  return common;
}

std::vector<int64_t> elements_of(const std::vector<CutPiece>& pieces, int64_t ranks) {
  std::vector<int64_t> elements(static_cast<size_t>(ranks), 0);
  int64_t start = 0;
  for (const CutPiece& piece : pieces) {
    elements[static_cast<size_t>(piece.owner)] += piece.end - start;
    start = piece.end;
  }
  return elements;
}

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

// Tries all orders of sizes, block by block.
class Sizes {
 public:
  Sizes(const AxisCut& cut, const std::vector<int64_t>& sizes, int64_t most, CutGaps gaps)
      : ranks_(cut.ranks),
        most_(most),
        gaps_(gaps),
        sizes_(sizes),
        pieces_(pieces_of(cut)),
        blocks_(blocks_of(cut)) {
    first_ = product(cut.before);
    last_ = first_ * cut.ranks;
  }
  int64_t largest(int64_t extent) {
    extend({extent}, 1);
    return largest_;
  }

 private:
  void extend(const std::vector<int64_t>& blocks, int64_t first) {
    if (std::find(seen_.begin(), seen_.end(), blocks) != seen_.end()) return;
    seen_.push_back(blocks);
    const bool overlaps = first < last_ && first_ < first * ranks_;
    if (!overlaps)
      largest_ = std::max(largest_, common_elements(pieces_, pieces_of(blocks, ranks_)));
    for (const int64_t size : sizes_)
      if (first * size <= most_ && may_cut(blocks, first, size))
        extend(cut_blocks(blocks, size), first * size);
  }
  bool may_cut(const std::vector<int64_t>& blocks, int64_t first, int64_t size) const {
    const bool is_apart = last_ <= first || first * size <= first_;
    if (gaps_ == CutGaps::any || is_apart) return true;
    if (size == ranks_ && blocks == blocks_) return true;
    return std::all_of(blocks.begin(), blocks.end(),
                       [&](int64_t block) { return block % size == 0; });
  }

  int64_t ranks_, most_, first_ = 1, last_ = 1, largest_ = 0;
  CutGaps gaps_;
  const std::vector<int64_t>& sizes_;
  std::vector<CutPiece> pieces_;
  std::vector<int64_t> blocks_;             // that the axis cuts
  std::vector<std::vector<int64_t>> seen_;  // other orders of sizes can give the same blocks
};

// Tries all cuts by two axes at their unknown ends. Axes whose unknown ends are on another dim may
// have any coordinates.
class UnknownEnds {
 public:
  // `known`: the cuts at the known ends that lie on the dim. Axes of `along` also have their
  // unknown ends there; those of `ranks` only these.
  UnknownEnds(const std::vector<AxisCut>& known, const std::vector<int64_t>& sizes, int64_t most)
      : known_(known), most_(std::min(most, known.front().extent)), sizes_(sizes) {
    for (const AxisCut& cut : known_) known_pieces_.push_back(pieces_of(cut));
  }
  // Places the axes with these numbers of ranks; those with a known end come first.
  int64_t largest(const std::vector<size_t>& along, const std::vector<int64_t>& others) {
    placed_.assign(known_.size() + others.size(), {});
    open_.clear();
    for (const size_t i : along) open_.emplace_back(i, known_[i].ranks);
    for (size_t i = 0; i < others.size(); ++i) open_.emplace_back(known_.size() + i, others[i]);
    largest_ = 0;
    seen_.clear();
    extend({known_.front().extent}, 1, open_.size());
    return largest_;
  }

 private:
  void extend(const std::vector<int64_t>& blocks, int64_t first, size_t open) {
    if (open == 0) {
      largest_ = std::max(largest_, count());
      return;
    }
    if (!seen_.emplace(blocks, ends_of_placed()).second) return;
    for (const auto& [axis, ranks] : open_) {
      if (!placed_[axis].empty() || first * ranks > 2 * most_ || overlaps(first, first * ranks))
        continue;
      placed_[axis] = pieces_of(blocks, ranks);
      if (open == 1)
        largest_ = std::max(largest_, count());
      else
        extend(cut_blocks(blocks, ranks), first * ranks, open - 1);
      placed_[axis].clear();
    }
    for (const int64_t size : sizes_)
      if (first * size <= most_) extend(cut_blocks(blocks, size), first * size, open);
  }
  bool overlaps(int64_t first, int64_t last) const {
    return std::any_of(known_.begin(), known_.end(), [&](const AxisCut& cut) {
      const int64_t start = product(cut.before);
      return first < start * cut.ranks && start < last;
    });
  }
  std::vector<size_t> ends_of_placed() const {
    std::vector<size_t> ends;
    for (const std::vector<CutPiece>& pieces : placed_) ends.push_back(pieces.size());
    return ends;
  }
  // Returns the most elements with one coordinate on each axis that has one end here, and equal
  // coordinates at both ends of the others.
  int64_t count() {
    std::vector<int64_t> cells(1, 0);
    std::vector<size_t> at(known_.size() + placed_.size(), 0);
    int64_t ranks = 1;
    for (size_t i = 0; i < placed_.size(); ++i)
      if (i >= known_.size() || placed_[i].empty())
        ranks *= i < known_.size() ? known_[i].ranks : open_.back().second;
    cells.assign(static_cast<size_t>(ranks), 0);
    const int64_t extent = known_.front().extent;
    for (int64_t start = 0; start < extent;) {
      int64_t end = extent, cell = 0;
      bool agrees = true;
      for (size_t i = 0; i < placed_.size(); ++i) {
        int64_t owner = -1;
        if (i < known_.size()) owner = step(known_pieces_[i], at[i], start, end);
        if (!placed_[i].empty()) {
          const int64_t other = step(placed_[i], at[known_.size() + i], start, end);
          if (owner >= 0) {
            agrees = agrees && owner == other;
            continue;
          }
          owner = other;
        }
        cell = cell * (i < known_.size() ? known_[i].ranks : open_.back().second) + owner;
      }
      if (agrees) cells[static_cast<size_t>(cell)] += end - start;
      start = end;
    }
    return *std::max_element(cells.begin(), cells.end());
  }
  static int64_t step(const std::vector<CutPiece>& pieces, size_t& at, int64_t start,
                      int64_t& end) {
    while (pieces[at].end <= start) ++at;
    end = std::min(end, pieces[at].end);
    return pieces[at].owner;
  }

  const std::vector<AxisCut>& known_;
  int64_t most_, largest_ = 0;
  const std::vector<int64_t>& sizes_;
  std::vector<std::vector<CutPiece>> known_pieces_, placed_;
  std::vector<std::pair<size_t, int64_t>> open_;
  std::set<std::pair<std::vector<int64_t>, std::vector<size_t>>> seen_;
};

}  // namespace

CutAgreement agreement(const AxisCut& a, const AxisCut& b) {
  const std::vector<CutPiece> before = pieces_of(a), after = pieces_of(b);
  if (a.dim == b.dim) return {common_elements(before, after), a.extent};
  const std::vector<int64_t> held = elements_of(before, a.ranks);
  const std::vector<int64_t> wanted = elements_of(after, b.ranks);
  int64_t common = 0;
  for (size_t i = 0; i < held.size(); ++i) common += held[i] * wanted[i];
  return {common, a.extent * b.extent};
}

bool owns_alike(const AxisCut& a, const AxisCut& b) {
  return a.before == b.before || common_elements(pieces_of(a), pieces_of(b)) == a.extent;
}

CutAgreement largest_part(const AxisCut& cut) {
  const std::vector<int64_t> elements = elements_of(pieces_of(cut), cut.ranks);
  return {*std::max_element(elements.begin(), elements.end()), cut.extent};
}

CutAgreement largest_agreement(const AxisCut& cut, const std::vector<int64_t>& sizes, int64_t most,
                               CutGaps gaps) {
  const int64_t on_other_dims = largest_part(cut).part;
  const int64_t on_its_dim =
      Sizes(cut, sizes, std::min(most, cut.extent), gaps).largest(cut.extent);
  return {std::max(on_other_dims, on_its_dim), cut.extent};
}

CutAgreement largest_agreement_of_two(const AxisCut& a, const AxisCut& b,
                                      const std::vector<int64_t>& sizes, int64_t most) {
  if (a.dim == b.dim) {
    const std::vector<AxisCut> known = {a, b};
    UnknownEnds ends(known, sizes, most);
    int64_t largest = joint_part(known).part;
    for (const std::vector<size_t>& along : {std::vector<size_t>{0}, {1}, {0, 1}})
      largest = std::max(largest, ends.largest(along, {}));
    return {largest, a.extent};
  }
  const CutAgreement alone_a = largest_agreement(a, sizes, most, CutGaps::any);
  const CutAgreement alone_b = largest_agreement(b, sizes, most, CutGaps::any);
  const CutAgreement apart = {alone_a.part * alone_b.part, alone_a.whole * alone_b.whole};
  const std::vector<AxisCut> at_a = {a}, at_b = {b};
  const CutAgreement crossed =
      std::min(CutAgreement{UnknownEnds(at_a, sizes, most).largest({}, {b.ranks}), a.extent},
               CutAgreement{UnknownEnds(at_b, sizes, most).largest({}, {a.ranks}), b.extent});
  return std::max(apart, crossed);
}

CutAgreement joint_part(const std::vector<AxisCut>& cuts) {
  std::vector<std::vector<CutPiece>> lists;
  std::vector<size_t> at(cuts.size(), 0);
  int64_t ranks = 1;
  for (const AxisCut& cut : cuts) {
    lists.push_back(pieces_of(cut));
    ranks *= cut.ranks;
  }
  std::vector<int64_t> common(static_cast<size_t>(ranks), 0);
  const int64_t extent = cuts.front().extent;
  for (int64_t start = 0; start < extent;) {
    int64_t end = extent, owner = 0;
    for (size_t i = 0; i < lists.size(); ++i) {
      while (lists[i][at[i]].end <= start) ++at[i];
      end = std::min(end, lists[i][at[i]].end);
      owner = owner * cuts[i].ranks + lists[i][at[i]].owner;
    }
    common[static_cast<size_t>(owner)] += end - start;
    start = end;
  }
  return {*std::max_element(common.begin(), common.end()), extent};
}

}  // namespace shardproof
