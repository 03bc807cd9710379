// Implements axis_agreement.h. Pieces are listed in the order of their elements; two lists are
// merged to count the elements on which they agree.
#include "shardproof/localtensor/plan/axis_agreement.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "shardproof/localtensor/base/per_thread.h"
#include "shardproof/localtensor/base/short_list.h"
#include "shardproof/localtensor/placement/shard_cut.h"

namespace shardproof {

namespace {

constexpr size_t kMaxCuts = 16;     // of one dim; each axis that moves has two
constexpr size_t kMaxExtents = 64;  // whose blocks a thread stores from one search to the next

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

// Returns the number of elements with one owner in the list and in blocks that each are cut into
// `ranks` by the chunk rule.
int64_t common_elements(const std::vector<CutPiece>& pieces, const std::vector<int64_t>& blocks,
                        int64_t ranks) {
  int64_t common = 0, start = 0;
  size_t at = 0;
  for (const int64_t block : blocks) {
    const int64_t last = start + block, length = ceil_div(block, ranks);
    for (int64_t owner = 0, end = start; start < last; ++owner) {
      end = std::min(end + length, last);
      for (; start < end; at += pieces[at].end == start ? 1U : 0U) {
        const int64_t stop = std::min(end, pieces[at].end);
        if (pieces[at].owner == owner) common += stop - start;
        start = stop;
      }
    }
  }
  return common;
}

// True if the digits of a cut after these sizes overlap those of another cut.
bool overlaps(const AxisCut& cut, int64_t first, int64_t ranks) {
  const int64_t start = product(cut.before);
  return first < start * cut.ranks && start < first * ranks;
}

// Appends the blocks, and those into which sizes cut them further.
void add_blocks(std::vector<int64_t> blocks, const std::vector<int64_t>& sizes, int64_t most,
                std::set<std::vector<int64_t>>& seen, std::vector<std::vector<int64_t>>& found) {
  if (!seen.insert(blocks).second) return;  // other orders of sizes can give the same blocks
  found.push_back(blocks);
  for (const int64_t size : sizes)
    if (static_cast<int64_t>(blocks.size()) * size <= most)
      add_blocks(cut_blocks(blocks, size), sizes, most, seen, found);
}

// Tries all cuts by two axes at their unknown ends. Axes whose unknown ends are on another dim may
// have any coordinates.
class UnknownEnds {
 public:
  // `known`: the cuts at the known ends that lie on the dim. Axes of `along` also have their
  // unknown ends there; those of `ranks` only these.
  UnknownEnds(AxisCuts known, const std::vector<int64_t>& sizes, int64_t most)
      : known_(known), most_(std::min(most, known.front()->extent)), sizes_(sizes) {}
  // Returns the largest agreement of any places of the axes: `along` have a known end, `others` are
  // numbers of ranks. Returns `at_least` if no places agree on more.
  int64_t largest(const std::vector<size_t>& along, const std::vector<int64_t>& others,
                  int64_t at_least) {
    placed_.assign(known_.size() + others.size(), {});
    open_.clear();
    for (const size_t i : along) open_.emplace_back(i, known_[i]->ranks);
    for (size_t i = 0; i < others.size(); ++i) open_.emplace_back(known_.size() + i, others[i]);
    largest_ = at_least;
    seen_.clear();
    extend({known_.front()->extent}, 1, open_.size());
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
      if (!placed_[axis].empty() || first * ranks > 2 * most_ || overlaps_known(first, ranks))
        continue;
      if (axis < known_.size() && common_elements(known_[axis]->pieces, blocks, ranks) <= largest_)
        continue;  // all axes agree on no more than one
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
  bool overlaps_known(int64_t first, int64_t ranks) const {
    return std::any_of(known_.begin(), known_.end(),
                       [&](const AxisCut* cut) { return overlaps(*cut, first, ranks); });
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
        ranks *= i < known_.size() ? known_[i]->ranks : open_.back().second;
    cells.assign(static_cast<size_t>(ranks), 0);
    const int64_t extent = known_.front()->extent;
    for (int64_t start = 0; start < extent;) {
      int64_t end = extent, cell = 0;
      bool agrees = true;
      for (size_t i = 0; i < placed_.size(); ++i) {
        int64_t owner = -1;
        if (i < known_.size()) owner = step(known_[i]->pieces, at[i], start, end);
        if (!placed_[i].empty()) {
          const int64_t other = step(placed_[i], at[known_.size() + i], start, end);
          if (owner >= 0) {
            agrees = agrees && owner == other;
            continue;
          }
          owner = other;
        }
        cell = cell * (i < known_.size() ? known_[i]->ranks : open_.back().second) + owner;
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

  AxisCuts known_;
  int64_t most_, largest_ = 0;
  const std::vector<int64_t>& sizes_;
  std::vector<std::vector<CutPiece>> placed_;
  std::vector<std::pair<size_t, int64_t>> open_;
  std::set<std::pair<std::vector<int64_t>, std::vector<size_t>>> seen_;
};

// Returns a number list that is equal for cuts of equal pieces of dims of one extent.
std::vector<int64_t> key_of(const AxisCut& cut) {
  std::vector<int64_t> key = {cut.extent, cut.ranks};
  key.insert(key.end(), cut.before.begin(), cut.before.end());
  return key;
}

// Returns the elements of each combination of coordinates, that of the last cut fastest.
std::vector<int64_t> elements_by_coordinates(AxisCuts cuts) {
  ShortList<const CutPiece*, kMaxCuts> at;
  int64_t ranks = 1;
  for (const AxisCut* cut : cuts) {
    at.push_back(cut->pieces.data());
    ranks *= cut->ranks;
  }
  std::vector<int64_t> common(static_cast<size_t>(ranks), 0);
  const int64_t extent = cuts.front()->extent;
  for (int64_t start = 0; start < extent;) {
    int64_t end = extent, owner = 0;
    for (size_t i = 0; i < cuts.size(); ++i) {
      while (at[i]->end <= start) ++at[i];
      end = std::min(end, at[i]->end);
      owner = owner * cuts[i]->ranks + at[i]->owner;
    }
    common[static_cast<size_t>(owner)] += end - start;
    start = end;
  }
  return common;
}

}  // namespace

AxisCut::AxisCut(int of_dim, int64_t of_extent, int64_t axis_ranks, std::vector<int64_t> sizes)
    : dim(of_dim), extent(of_extent), ranks(axis_ranks), before(std::move(sizes)) {
  pieces = pieces_of(blocks_of(*this), ranks);
}

CutAgreement agreement(const AxisCut& a, const AxisCut& b) {
  if (a.dim == b.dim) return {common_elements(a.pieces, b.pieces), a.extent};
  const std::vector<int64_t> held = elements_of(a.pieces, a.ranks);
  const std::vector<int64_t> wanted = elements_of(b.pieces, b.ranks);
  int64_t common = 0;
  for (size_t i = 0; i < held.size(); ++i) common += held[i] * wanted[i];
  return {common, a.extent * b.extent};
}

bool is_same_cut(const AxisCut& a, const AxisCut& b) {
  return a.before == b.before || common_elements(a.pieces, b.pieces) == a.extent;
}

CutAgreement largest_part(const AxisCut& cut) {
  const std::vector<int64_t> elements = elements_of(cut.pieces, cut.ranks);
  return {*std::max_element(elements.begin(), elements.end()), cut.extent};
}

std::shared_ptr<SpareAgreements> SpareAgreements::shared(std::vector<int64_t> sizes, int64_t most) {
  static const PerThread<std::shared_ptr<SpareAgreements>> kept;
  std::shared_ptr<SpareAgreements>& last = kept.get();
  const bool fits = last && last->most_ == most && last->sizes_ == sizes;
  if (!fits || last->blocks_.size() > kMaxExtents)
    last = std::make_shared<SpareAgreements>(std::move(sizes), most);
  return last;
}

const std::vector<SpareAgreements::Blocks>& SpareAgreements::blocks_of(int64_t extent) {
  std::vector<Blocks>& blocks = blocks_[extent];
  std::set<Blocks> seen;
  if (blocks.empty()) add_blocks({extent}, sizes_, std::min(most_, extent), seen, blocks);
  return blocks;
}

int64_t SpareAgreements::most_along(const AxisCut& cut) {
  int64_t most = 0;
  for (const Blocks& blocks : blocks_of(cut.extent))
    if (!overlaps(cut, static_cast<int64_t>(blocks.size()), cut.ranks))
      most = std::max(most, common_elements(cut.pieces, blocks, cut.ranks));
  return most;
}

// Gaps in front of a cut that cover digits of the known one are even, or what the axis leaves.
int64_t SpareAgreements::most_nested(const AxisCut& cut) const {
  const Blocks own = shardproof::blocks_of(cut);
  int64_t most = 0;
  std::set<Blocks> seen;
  const std::function<void(const Blocks&)> extend = [&](const Blocks& blocks) {
    if (!seen.insert(blocks).second) return;
    const auto first = static_cast<int64_t>(blocks.size());
    if (!overlaps(cut, first, cut.ranks))
      most = std::max(most, common_elements(cut.pieces, blocks, cut.ranks));
    for (const int64_t size : sizes_) {
      if (std::min(most_, cut.extent) < first * size) continue;
      const bool even = std::all_of(blocks.begin(), blocks.end(),
                                    [&](int64_t block) { return block % size == 0; });
      if (even || !overlaps(cut, first, size) || (size == cut.ranks && blocks == own))
        extend(cut_blocks(blocks, size));
    }
  };
  extend({cut.extent});
  return most;
}

CutAgreement SpareAgreements::largest(const AxisCut& cut, CutGaps gaps) {
  const auto [known, fresh] = largest_.try_emplace({key_of(cut), gaps});
  if (!fresh) return known->second;
  const int64_t on_its_dim = gaps == CutGaps::any ? most_along(cut) : most_nested(cut);
  return known->second = {std::max(largest_part(cut).part, on_its_dim), cut.extent};
}

// Returns the largest part of one coordinate on the axis and on another one that has only its
// unknown end on this dim.
CutAgreement SpareAgreements::most_crossed(const AxisCut& cut, int64_t ranks) {
  std::vector<int64_t> key = key_of(cut);
  key.push_back(ranks);
  int64_t& most = crossed_[key];
  const std::array known = {&cut};
  if (most == 0) most = UnknownEnds(known, sizes_, most_).largest({}, {ranks}, 0);
  return {most, cut.extent};
}

CutAgreement SpareAgreements::largest_of_two(const AxisCut& a, const AxisCut& b) {
  if (a.dim == b.dim) {
    int64_t& most = together_[{key_of(a), key_of(b)}];
    if (most > 0) return {most, a.extent};
    const std::array known = {&a, &b};
    UnknownEnds ends(known, sizes_, most_);
    most = joint_part(known).part;
    for (const std::vector<size_t>& along : {std::vector<size_t>{0}, {1}, {0, 1}})
      most = ends.largest(along, {}, most);
    return {most, a.extent};
  }
  const CutAgreement alone_a = largest(a, CutGaps::any), alone_b = largest(b, CutGaps::any);
  const CutAgreement apart = {alone_a.part * alone_b.part, alone_a.whole * alone_b.whole};
  return std::max(apart, std::min(most_crossed(a, b.ranks), most_crossed(b, a.ranks)));
}

CutAgreement joint_part(AxisCuts cuts) {
  const std::vector<int64_t> elements = elements_by_coordinates(cuts);
  return {*std::max_element(elements.begin(), elements.end()), cuts.front()->extent};
}

CutAgreement agreement_of_all(AxisCuts a, AxisCuts b) {
  const std::vector<int64_t> before = elements_by_coordinates(a),
                             after = elements_by_coordinates(b);
  int64_t common = 0;
  for (size_t i = 0; i < before.size(); ++i) common += before[i] * after[i];
  return {common, a.front()->extent * b.front()->extent};
}

}  // namespace shardproof
