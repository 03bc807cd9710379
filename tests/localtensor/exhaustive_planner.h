// ExhaustivePlanner: the price of the cheapest plan between any two specs of a small mesh, by a
// search over all specs. It uses the definitions of the steps in terms of the elements that ranks
// hold, and the price; it shares only Spec with the planner.
//
// Price of a plan: bytes that a rank sends, on average over the mesh, + 64 KiB for each call
// (plan.h). Prices are integers in units of 1 / (ranks of the mesh)^2 bytes.
//
// Step of the ranks along the axes A        legal if
//   local       nothing is sent               each rank holds no more than before
//   make P      nothing is sent               a P axis of the target; ranks hold what A held
//                                             together
//   all_gather  what is missing, on average   A held parts without overlap; each rank holds all
//   all_to_all  what is missing, on average   parts without overlap, before and after
//   exchange    what is missing, on average   A held before what each of its ranks holds after, and
//                                             no smaller set did
//   reduce      (n-1)/n of a rank's part      A was P; parts without overlap after (reduce_scatter)
//   all_reduce  2(n-1)/n of a rank's part     A was P; the same elements
// All but exchange and the last two: ranks along A hold together what they held before. The pieces
// of an all_to_all are padded if they would differ on a tensor that all cuts divide.
#pragma once

#include <cstdint>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"

namespace shardproof::testing {

class ExhaustivePlanner {
 public:
  // `choices` are tried on each axis, in each order of cutting. `exchanges`: allows exchange.
  // Requires at most 64 elements.
  ExhaustivePlanner(const Mesh& mesh, const Dims& shape, const std::vector<Placement>& choices,
                    bool exchanges);

  // The specs that hold different elements, each once.
  const std::vector<Spec>& specs() const { return specs_; }
  // Returns for each spec the price of the cheapest plan to specs()[goal], or kNoPlan. Plans move
  // only the smallest set of axes that have to move.
  std::vector<int64_t> prices_to(size_t goal);
  static constexpr int64_t kNoPlan = INT64_MAX / 4;
  int64_t unit() const { return ranks_ * ranks_; }

 private:
  using Elements = uint64_t;  // bit e: element e
  struct Node {
    std::vector<Elements> held;  // by rank
    uint32_t partial = 0;        // axes
  };
  struct Edge {
    int32_t from;
    int64_t price;
  };
  void add_nodes(const std::vector<Placement>& choices);
  void add_edges(size_t from, size_t to);
  Node node_of(const Spec& spec) const;
  Elements held_together(const Node& node, uint32_t axes, int64_t rank) const;
  bool is_cut(const Node& node, uint32_t axes) const;
  bool is_same_together(size_t a, size_t b, uint32_t axes) const {
    return together_[axes][a] == together_[axes][b];
  }
  bool holds_enough(size_t a, size_t b, uint32_t axes) const;
  bool is_smallest(size_t a, size_t b, uint32_t axes) const;
  int64_t price_of_move(size_t from, size_t to, uint32_t axes) const;
  int64_t price_of_missing(size_t from, size_t to) const;
  int64_t price_of_all_to_all(size_t from, size_t to, uint32_t axes) const;
  int64_t price_of_reduction(size_t from, size_t to, uint32_t axes) const;
  int64_t members(uint32_t axes) const;
  int64_t group(uint32_t axes, int64_t rank) const {
    return groups_[axes][static_cast<size_t>(rank)];
  }
  std::vector<int64_t> prices_within(size_t goal, uint32_t axes) const;
  std::vector<uint32_t> needed_axes(size_t from, size_t goal) const;

  Mesh mesh_;
  Dims shape_;
  bool exchanges_;
  int64_t ranks_;
  uint32_t all_axes_;
  std::vector<Spec> specs_, enlarged_;
  std::vector<Node> nodes_;
  std::vector<std::vector<int64_t>> groups_;  // by set of axes and rank: first rank of its group
  std::vector<std::vector<int>> together_;    // by set of axes and node: number of the elements
                                              // that groups hold
  std::vector<std::vector<std::vector<Edge>>> edges_;  // by set of axes and target
};

}  // namespace shardproof::testing
