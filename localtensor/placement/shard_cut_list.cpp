// Implements shard_cut_list.h.
//
// largest_piece tries all pairs of a sender and a receiver that differ only on the moving axes, up
// to kMaxPairs pairs. Example: dim of 6, one axis of 2 ranks moves it from S(0) to S(0, split=3).
// Sender 0 has 0-2, sender 1 has 3-5; receiver 0 needs 0 2 4, receiver 1 needs 1 3 5. Pieces: 2, 1,
// 1, 2.
#include <algorithm>

#include "shardproof/localtensor/placement/copy_segments.h"
#include "shardproof/localtensor/placement/shard_cut_list.h"

namespace shardproof {

namespace {

// Returns the sum of the extents over all coordinates of the axes of `mask`, with the other axes at
// `index`, from cut `at` on.
int64_t joint_extent(const CutList& cuts, size_t at, int64_t extent, uint64_t mask,
                     const std::vector<int64_t>& index) {
  if (at == cuts.size() || extent == 0) return extent;
  const DimCut& cut = cuts[at];
  if ((mask >> cut.axis & 1) == 0)
    return joint_extent(cuts, at + 1, cut_length(cut.shard, extent, cut.ranks, index[at]), mask,
                        index);
  int64_t total = 0;
  for (int64_t i = 0; i < cut.ranks; ++i)
    total += joint_extent(cuts, at + 1, cut_length(cut.shard, extent, cut.ranks, i), mask, index);
  return total;
}

bool cuts_any(const CutList& cuts, uint64_t mask) {
  return std::any_of(cuts.begin(), cuts.end(),
                     [&](const DimCut& cut) { return (mask >> cut.axis & 1) != 0; });
}

// Iterates over pairs of a sender and a receiver. A pair has coordinates of the sender on the axes
// of its cuts, and of the receiver on the axes that move (those of `mask`).
class PairPlaces {
 public:
  PairPlaces(const CutList& before, const CutList& after, uint64_t mask) {
    for (const DimCut& cut : before) sender_.push_back(add(cut, Role::sender, mask));
    for (const DimCut& cut : after) receiver_.push_back(add(cut, Role::receiver, mask));
    at_.assign(sizes_.size(), 0);
  }
  int64_t count() const {
    int64_t count = 1;
    for (int64_t size : sizes_) count = std::min(count * size, kMaxPairs + 1);
    return count;
  }
  // Return the numbers of the sender and the receiver in owned_runs.
  size_t sender() const { return number(sender_); }
  size_t receiver() const { return number(receiver_); }
  bool advance() {
    for (size_t i = at_.size(); i-- > 0;) {
      if (++at_[i] < sizes_[i]) return true;
      at_[i] = 0;
    }
    return false;
  }

 private:
  enum class Role { sender, receiver };
  // An axis that does not move has one coordinate for both roles.
  size_t add(const DimCut& cut, Role role, uint64_t mask) {
    const bool moves = (mask >> cut.axis & 1) != 0;
    for (size_t i = 0; i < keys_.size(); ++i)
      if (keys_[i].first == cut.axis && (!moves || keys_[i].second == role)) return i;
    keys_.emplace_back(cut.axis, role);
    sizes_.push_back(cut.ranks);
    return keys_.size() - 1;
  }
  size_t number(const std::vector<size_t>& of) const {
    int64_t number = 0;
    for (size_t i : of) number = number * sizes_[i] + at_[i];
    return static_cast<size_t>(number);
  }

  std::vector<std::pair<int, Role>> keys_;
  std::vector<int64_t> sizes_, at_;
  std::vector<size_t> sender_, receiver_;
};

// Returns the indices of `runs` at one coordinate.
Runs cut_runs(const Runs& runs, const DimCut& cut, int64_t index) {
  Runs left;
  for_each_stretch(cut.shard, length(runs), cut.ranks, index, [&](int64_t start, int64_t count) {
    for (const Run& run : runs) {
      const int64_t skipped = std::min(start, run.length);
      const int64_t taken = std::min(count, run.length - skipped);
      start -= skipped;
      count -= taken;
      if (taken > 0) left.push_back({run.start + skipped, taken});
    }
  });
  return left;
}

}  // namespace

std::vector<Runs> owned_runs(const CutList& cuts, int64_t extent) {
  std::vector<Runs> all(1);
  if (extent > 0) all[0].push_back({0, extent});
  for (const DimCut& cut : cuts) {
    std::vector<Runs> parts;
    parts.reserve(all.size() * static_cast<size_t>(cut.ranks));
    for (const Runs& runs : all)
      for (int64_t i = 0; i < cut.ranks; ++i) parts.push_back(cut_runs(runs, cut, i));
    all = std::move(parts);
  }
  return all;
}

int64_t largest_piece(const CutList& before, const CutList& after, int64_t extent, uint64_t mask) {
  const bool cut_before = cuts_any(before, mask), cut_after = cuts_any(after, mask);
  if (!cut_after) return max_extent(before, extent);
  if (!cut_before) return max_extent(after, extent);
  PairPlaces places(before, after, mask);
  if (places.count() > kMaxPairs)
    return std::min(max_extent(before, extent), max_extent(after, extent));
  const std::vector<Runs> sent = owned_runs(before, extent), wanted = owned_runs(after, extent);
  int64_t most = 0;
  do most = std::max(most, common_length(sent[places.sender()], wanted[places.receiver()]));
  while (places.advance());
  return most;
}

CutList cuts_of_dim(const Spec& spec, int dim) {
  CutList cuts;
  for (int axis : spec.order())
    if (spec.placement(axis).is_shard(dim))
      cuts.push_back({axis, spec.mesh().axis_size(axis), spec.placement(axis).shard()});
  return cuts;
}

int64_t max_extent(const CutList& cuts, int64_t extent) {
  std::vector<int64_t> extents = {extent};
  for (const DimCut& cut : cuts) extents = cut_extents(cut.shard, extents, cut.ranks);
  return extents.front();
}

bool is_even(const CutList& cuts, int64_t extent) {
  for (const DimCut& cut : cuts) {
    const auto extents = cut_extents(cut.shard, {extent}, cut.ranks);
    if (extents.size() != 1) return false;
    extent = extents[0];
  }
  return true;
}

int64_t max_joint_extent(const CutList& cuts, int64_t extent, uint64_t mask) {
  size_t prefix = cuts.size();  // number of cuts before the joint axes, if those cut last
  while (prefix > 0 && (mask >> cuts[prefix - 1].axis & 1) != 0) --prefix;
  const bool last = std::none_of(cuts.begin(), cuts.begin() + static_cast<int64_t>(prefix),
                                 [&](const DimCut& c) { return (mask >> c.axis & 1) != 0; });
  if (last)
    return max_extent(CutList(cuts.begin(), cuts.begin() + static_cast<int64_t>(prefix)), extent);
  if (is_even(cuts, extent)) {
    for (const DimCut& cut : cuts)
      if ((mask >> cut.axis & 1) == 0) extent /= cut.ranks;
    return extent;
  }
  std::vector<int64_t> index(cuts.size(), 0);
  int64_t most = 0;
  for (bool more = true; more;) {
    most = std::max(most, joint_extent(cuts, 0, extent, mask, index));
    more = false;
    for (size_t i = cuts.size(); i-- > 0;) {
      if ((mask >> cuts[i].axis & 1) != 0) continue;
      if (++index[i] < cuts[i].ranks) {
        more = true;
        break;
      }
      index[i] = 0;
    }
  }
  return most;
}

}  // namespace shardproof
