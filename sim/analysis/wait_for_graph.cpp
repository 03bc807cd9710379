// Implements wait_for_graph.h.
//
// Cycles are strongly connected components, found by Tarjan's algorithm without recursion (R.
// Tarjan, "Depth-first search and linear graph algorithms", 1972). The shortest cycle of a
// component is found breadth first.
#include "shardproof/sim/analysis/wait_for_graph.h"

#include <algorithm>
#include <set>
#include <utility>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Strongly connected components. Nodes 0..n-1 are the blocked calls; nodes from n on are their wait
// edges. Edges lead from one kind to the other, so a component of two or more nodes has a cycle.
// This includes a call that waits for itself.
class Components {
 public:
  explicit Components(const WaitForGraph& graph) : graph_(graph), calls_(graph.blocked.size()) {
    const size_t nodes = calls_ + graph.edges.size();
    index_.assign(nodes, 0);
    low_.assign(nodes, 0);
    on_stack_.assign(nodes, 0);
    for (size_t node = 0; node < nodes; ++node)
      if (index_[node] == 0) search(node);
  }

  // The blocked calls of each component with a cycle, ascending.
  std::vector<std::vector<size_t>> cycles;

 private:
  size_t degree(size_t node) const {
    if (node < calls_) return graph_.blocked[node].edge < 0 ? 0 : 1;
    return graph_.edges[node - calls_].holders.size();
  }
  size_t target(size_t node, size_t edge) const {
    if (node < calls_) return calls_ + static_cast<size_t>(graph_.blocked[node].edge);
    return static_cast<size_t>(graph_.edges[node - calls_].holders[edge]);
  }

  void enter(size_t node) {
    index_[node] = low_[node] = ++counter_;
    stack_.push_back(node);
    on_stack_[node] = 1;
    path_.push_back({node, 0});
  }

  void search(size_t root) {
    enter(root);
    while (!path_.empty()) {
      auto& [node, edge] = path_.back();
      if (edge < degree(node)) {
        const size_t next = target(node, edge++);
        if (index_[next] == 0) {
          enter(next);
        } else if (on_stack_[next] != 0) {
          low_[node] = std::min(low_[node], index_[next]);
        }
        continue;
      }
      const size_t done = node;
      path_.pop_back();
      if (!path_.empty()) low_[path_.back().node] = std::min(low_[path_.back().node], low_[done]);
      if (low_[done] == index_[done]) finish_component(done);
    }
  }

  void finish_component(size_t root) {
    std::vector<size_t> calls;
    size_t size = 0;
    for (size_t node = stack_.size();;) {
      node = stack_.back();
      stack_.pop_back();
      on_stack_[node] = 0;
      ++size;
      if (node < calls_) calls.push_back(node);
      if (node == root) break;
    }
    if (size < 2) return;
    std::sort(calls.begin(), calls.end());
    cycles.push_back(std::move(calls));
  }

  struct Step {
    size_t node, edge;
  };
  const WaitForGraph& graph_;
  size_t calls_, counter_ = 0;
  std::vector<size_t> index_, low_, stack_;
  std::vector<char> on_stack_;
  std::vector<Step> path_;
};

}  // namespace

const WaitEdge* wait_edge_of(const WaitForGraph& graph, const BlockedCall& blocked) {
  return blocked.edge < 0 ? nullptr : &graph.edges[static_cast<size_t>(blocked.edge)];
}

int32_t first_rank(const WaitForGraph& graph, size_t call) { return graph.blocked[call].ranks[0]; }

Lanes ranks_of_calls(const WaitForGraph& graph, const std::vector<size_t>& calls) {
  std::vector<int32_t> ranks;
  for (size_t call : calls)
    for (int64_t i = 0; i < graph.blocked[call].ranks.size(); ++i)
      ranks.push_back(graph.blocked[call].ranks[i]);
  return Lanes::of(std::move(ranks));
}

std::vector<std::vector<size_t>> cyclic_components(const WaitForGraph& graph) {
  return Components(graph).cycles;
}

std::vector<size_t> shortest_cycle(const WaitForGraph& graph,
                                   const std::vector<size_t>& component) {
  const size_t start = *std::min_element(
      component.begin(), component.end(),
      [&](size_t a, size_t b) { return first_rank(graph, a) < first_rank(graph, b); });
  std::map<size_t, size_t> came_from;
  std::set<size_t> members(component.begin(), component.end());
  std::set<int32_t> followed;  // calls of one collective await the same
  std::vector<size_t> queue{start};
  for (size_t head = 0; head < queue.size(); ++head) {
    if (!followed.insert(graph.blocked[queue[head]].edge).second) continue;
    const WaitEdge* edge = wait_edge_of(graph, graph.blocked[queue[head]]);
    for (int32_t holder : edge->holders) {
      const size_t next = static_cast<size_t>(holder);
      if (next == start) {
        std::vector<size_t> cycle{start};
        for (size_t at = queue[head]; at != start; at = came_from.at(at)) cycle.push_back(at);
        cycle.push_back(start);
        std::reverse(cycle.begin(), cycle.end());
        return cycle;
      }
      if (members.count(next) == 0 || came_from.count(next) != 0) continue;
      came_from[next] = queue[head];
      queue.push_back(next);
    }
  }
  SP_UNREACHABLE("a component without a cycle");
}

std::vector<size_t> calls_waiting_for(const WaitForGraph& graph, std::vector<size_t> calls) {
  std::vector<std::vector<size_t>> held(graph.blocked.size()), waiting(graph.edges.size());
  for (size_t i = 0; i < graph.edges.size(); ++i)
    for (int32_t holder : graph.edges[i].holders) held[static_cast<size_t>(holder)].push_back(i);
  for (size_t i = 0; i < graph.blocked.size(); ++i)
    if (graph.blocked[i].edge >= 0)
      waiting[static_cast<size_t>(graph.blocked[i].edge)].push_back(i);
  std::vector<bool> known(graph.blocked.size(), false);
  for (size_t call : calls) known[call] = true;
  for (size_t head = 0; head < calls.size(); ++head)
    for (size_t edge : std::exchange(held[calls[head]], {}))
      for (size_t next : std::exchange(waiting[edge], {})) {
        if (known[next]) continue;
        known[next] = true;
        calls.push_back(next);
      }
  return calls;
}

}  // namespace shardproof
