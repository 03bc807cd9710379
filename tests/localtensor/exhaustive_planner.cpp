// Implements exhaustive_planner.h: lists all specs (add_nodes) and all steps (add_edges). Then it
// runs Dijkstra's algorithm backwards from a goal, once for each set of axes that may take part.
#include "shardproof/tests/localtensor/exhaustive_planner.h"

#include <algorithm>
#include <bit>
#include <map>
#include <queue>

#include "shardproof/tests/localtensor/spec_corpus.h"

namespace shardproof::testing {

namespace {

constexpr int64_t kBytesOfElement = 4, kPriceOfCall = 64 << 10;

bool overlaps_nothing(std::vector<uint64_t> parts) {
  uint64_t seen = 0;
  for (uint64_t part : parts) {
    if ((seen & part) != 0) return false;
    seen |= part;
  }
  return true;
}

int64_t common(const Runs& a, const Runs& b) {
  int64_t total = 0;
  for (const Run& x : a)
    for (const Run& y : b)
      total += std::max<int64_t>(
          0, std::min(x.start + x.length, y.start + y.length) - std::max(x.start, y.start));
  return total;
}

// Returns the spec on a tensor `factor` times as long in each dim, where all cuts are even.
Spec enlarge(const Spec& spec, int64_t factor) {
  std::vector<Placement> placements = spec.placements();
  for (Placement& placement : placements) {
    if (!placement.is_shard()) continue;
    Shard shard = placement.shard();
    for (int64_t& size : shard.sizes) size *= factor;
    placement = shard;
  }
  Dims shape = spec.shape();
  for (int64_t& size : shape) size *= factor;
  return Spec(spec.mesh(), std::move(placements), shape, spec.dtype(), spec.order());
}

}  // namespace

ExhaustivePlanner::ExhaustivePlanner(const Mesh& mesh, const Dims& shape,
                                     const std::vector<Placement>& choices, bool exchanges)
    : mesh_(mesh),
      shape_(shape),
      exchanges_(exchanges),
      ranks_(mesh.size()),
      all_axes_((1u << mesh.axis_count()) - 1) {
  groups_.resize(all_axes_ + 1);
  for (uint32_t axes = 0; axes <= all_axes_; ++axes)
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      Dims first = unravel(rank, mesh.shape());
      for (int axis = 0; axis < mesh.axis_count(); ++axis)
        if (axes >> axis & 1) first[axis] = 0;
      groups_[axes].push_back(ravel(first, mesh.shape()));
    }
  add_nodes(choices);
  edges_.assign(all_axes_ + 1, std::vector<std::vector<Edge>>(nodes_.size()));
  for (size_t from = 0; from < nodes_.size(); ++from)
    for (size_t to = 0; to < nodes_.size(); ++to)
      if (from != to) add_edges(from, to);
}

ExhaustivePlanner::Node ExhaustivePlanner::node_of(const Spec& spec) const {
  Node node;
  for (int axis : spec.partial_axes()) node.partial |= 1u << axis;
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    const std::vector<bool> owned = corpus::joint_ownership(spec, {}, unravel(rank, mesh_.shape()));
    Elements held = 0;
    for (size_t e = 0; e < owned.size(); ++e) held |= Elements{owned[e]} << e;
    node.held.push_back(held);
  }
  return node;
}

void ExhaustivePlanner::add_nodes(const std::vector<Placement>& choices) {
  int64_t factor = ranks_;
  for (const Placement& choice : choices)
    if (choice.is_shard() && factor % choice.shard().split != 0) factor *= choice.shard().split;
  std::map<std::pair<std::vector<Elements>, uint32_t>, size_t> known;
  for (Spec& spec : corpus::all_specs(mesh_, shape_, DType::f32, choices)) {
    Node node = node_of(spec);
    if (!known.try_emplace({node.held, node.partial}, nodes_.size()).second) continue;
    enlarged_.push_back(enlarge(spec, factor * factor));
    nodes_.push_back(std::move(node));
    specs_.push_back(std::move(spec));
  }
  for (uint32_t axes = 0; axes <= all_axes_; ++axes) {
    std::map<std::vector<Elements>, int> numbers;
    std::vector<int>& of_axes = together_.emplace_back();
    for (const Node& node : nodes_) {
      std::vector<Elements> held;
      for (int64_t rank = 0; rank < ranks_; ++rank) held.push_back(held_together(node, axes, rank));
      of_axes.push_back(
          numbers.try_emplace(std::move(held), static_cast<int>(numbers.size())).first->second);
    }
  }
}

ExhaustivePlanner::Elements ExhaustivePlanner::held_together(const Node& node, uint32_t axes,
                                                             int64_t rank) const {
  Elements held = 0;
  for (int64_t other = 0; other < ranks_; ++other)
    if (group(axes, other) == group(axes, rank)) held |= node.held[static_cast<size_t>(other)];
  return held;
}

int64_t ExhaustivePlanner::members(uint32_t axes) const {
  int64_t count = 1;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis)
    if (axes >> axis & 1) count *= mesh_.axis_size(axis);
  return count;
}

// True if no two ranks of a group hold the same element, and each axis of the set cuts.
bool ExhaustivePlanner::is_cut(const Node& node, uint32_t axes) const {
  for (int64_t first = 0; first < ranks_; ++first) {
    std::vector<Elements> parts;
    for (int64_t rank = 0; rank < ranks_; ++rank)
      if (group(axes, rank) == first) parts.push_back(node.held[static_cast<size_t>(rank)]);
    if (!overlaps_nothing(std::move(parts))) return false;
  }
  return true;
}

// True if the ranks of each group together hold in `a` what each of them holds in `b`.
bool ExhaustivePlanner::holds_enough(size_t a, size_t b, uint32_t axes) const {
  for (int64_t rank = 0; rank < ranks_; ++rank)
    if ((nodes_[b].held[static_cast<size_t>(rank)] & ~held_together(nodes_[a], axes, rank)) != 0)
      return false;
  return true;
}

bool ExhaustivePlanner::is_smallest(size_t a, size_t b, uint32_t axes) const {
  if (!holds_enough(a, b, axes)) return false;
  for (uint32_t less = (axes - 1) & axes;; less = (less - 1) & axes) {
    if (holds_enough(a, b, less)) return false;
    if (less == 0) return true;
  }
}

int64_t ExhaustivePlanner::price_of_missing(size_t from, size_t to) const {
  int64_t missing = 0;
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    const auto at = static_cast<size_t>(rank);
    missing += std::popcount(nodes_[to].held[at] & ~nodes_[from].held[at]);
  }
  return missing * kBytesOfElement * unit() / ranks_ + kPriceOfCall * unit();
}

int64_t ExhaustivePlanner::price_of_all_to_all(size_t from, size_t to, uint32_t axes) const {
  const Spec &before = enlarged_[from], &after = enlarged_[to];
  const int64_t n = members(axes);
  int64_t largest = -1, padded = 0;
  bool balanced = true;
  for (int64_t sender = 0; sender < ranks_; ++sender)
    for (int64_t receiver = 0; receiver < ranks_; ++receiver) {
      if (group(axes, sender) != group(axes, receiver)) continue;
      int64_t piece = 1, real = 1;
      for (int dim = 0; dim < shape_.size(); ++dim) {
        piece *= common(before.owned(sender, dim), after.owned(receiver, dim));
        real *= common(specs_[from].owned(sender, dim), specs_[to].owned(receiver, dim));
      }
      balanced = balanced && (largest < 0 || piece == largest);
      largest = piece;
      padded = std::max(padded, real);
    }
  if (balanced) return price_of_missing(from, to);
  return padded * (n - 1) * kBytesOfElement * unit() + kPriceOfCall * unit();
}

// Returns the price of the cheapest step that moves elements among the ranks of `axes`.
int64_t ExhaustivePlanner::price_of_move(size_t from, size_t to, uint32_t axes) const {
  const Node &a = nodes_[from], &b = nodes_[to];
  int64_t price = kNoPlan;
  if (exchanges_ && is_smallest(from, to, axes)) price = price_of_missing(from, to);
  if (!is_same_together(from, to, axes)) return price;
  bool gathers = true;
  for (int64_t rank = 0; rank < ranks_; ++rank)
    gathers = gathers && b.held[static_cast<size_t>(rank)] == held_together(a, axes, rank);
  if (holds_enough(from, to, 0)) return 0;
  if (!is_cut(a, axes)) return price;
  if (gathers) return price_of_missing(from, to);
  return is_cut(b, axes) ? std::min(price, price_of_all_to_all(from, to, axes)) : price;
}

int64_t ExhaustivePlanner::price_of_reduction(size_t from, size_t to, uint32_t axes) const {
  const int64_t n = members(axes);
  int64_t held = 0;
  for (Elements of_rank : nodes_[from].held) held += std::popcount(of_rank);
  const int64_t sent = held * kBytesOfElement * (n - 1) * (unit() / ranks_) / n;
  if (nodes_[from].held == nodes_[to].held) return 2 * sent + kPriceOfCall * unit();
  if (!is_cut(nodes_[to], axes)) return kNoPlan;
  return sent + kPriceOfCall * unit();
}

void ExhaustivePlanner::add_edges(size_t from, size_t to) {
  const uint32_t before = nodes_[from].partial, after = nodes_[to].partial;
  for (uint32_t axes = 1; axes <= all_axes_; ++axes) {
    int64_t price = kNoPlan;
    if (before == after) {
      price = price_of_move(from, to, axes);
    } else if (!is_same_together(from, to, axes)) {
      continue;
    } else if ((after & ~before) == 0 && axes == (before ^ after)) {
      price = price_of_reduction(from, to, axes);
    } else if ((before & ~after) == 0 && axes == (before ^ after)) {
      bool whole = true;
      for (int64_t rank = 0; rank < ranks_; ++rank)
        whole = whole && nodes_[to].held[static_cast<size_t>(rank)] ==
                             held_together(nodes_[from], axes, rank);
      price = whole ? 0 : kNoPlan;
    }
    if (price < kNoPlan) edges_[axes][to].push_back({static_cast<int32_t>(from), price});
  }
}

std::vector<uint32_t> ExhaustivePlanner::needed_axes(size_t from, size_t goal) const {
  const uint32_t changed = nodes_[from].partial ^ nodes_[goal].partial;
  std::vector<uint32_t> sets;
  for (uint32_t axes = 0; axes <= all_axes_; ++axes) {
    if ((changed & ~axes) != 0 || !is_same_together(from, goal, axes)) continue;
    if (!sets.empty() && std::popcount(axes) > std::popcount(sets[0])) continue;
    if (!sets.empty() && std::popcount(axes) < std::popcount(sets[0])) sets.clear();
    sets.push_back(axes);
  }
  return sets;
}

std::vector<int64_t> ExhaustivePlanner::prices_within(size_t goal, uint32_t axes) const {
  std::vector<int64_t> prices(nodes_.size(), kNoPlan);
  using Entry = std::pair<int64_t, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  prices[goal] = 0;
  open.push({0, goal});
  while (!open.empty()) {
    const auto [price, at] = open.top();
    open.pop();
    if (price > prices[at]) continue;
    for (uint32_t set = axes; set != 0; set = (set - 1) & axes)
      for (const Edge& edge : edges_[set][at]) {
        const auto from = static_cast<size_t>(edge.from);
        const uint32_t made = nodes_[at].partial & ~nodes_[from].partial;
        if ((made & ~nodes_[goal].partial) != 0 || price + edge.price >= prices[from]) continue;
        prices[from] = price + edge.price;
        open.push({prices[from], from});
      }
  }
  return prices;
}

std::vector<int64_t> ExhaustivePlanner::prices_to(size_t goal) {
  std::map<uint32_t, std::vector<int64_t>> known;
  std::vector<int64_t> best;
  for (size_t from = 0; from < nodes_.size(); ++from) {
    best.push_back(kNoPlan);
    for (uint32_t axes : needed_axes(from, goal)) {
      const auto [found, fresh] = known.try_emplace(axes);
      if (fresh) found->second = prices_within(goal, axes);
      best.back() = std::min(best.back(), found->second[from]);
    }
  }
  return best;
}

}  // namespace shardproof::testing
