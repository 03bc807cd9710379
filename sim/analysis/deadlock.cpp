// Implements deadlock.h.
//
// 1. without_left_out: in each cycle, ranks that leave out the call that others wait for become
//    missing there; that breaks the cycle.
// 2. lacking_of: a second graph, in which a call is held by the ranks that are missing for it, if
//    all of these wait themselves. Its cycles are ranks that wait for each other without a call
//    left.
// 3. find_cycles: strongly connected components of both graphs give the deadlock finding; its
//    shortest cycle is shown.
// 4. find_missing: calls with missing ranks that no cycle explains give the other finding.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/deadlock.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {
namespace {

constexpr size_t kShownRows = 16;
constexpr size_t kShownCycles = 4;
// Reasons in WaitGraph::gone that lie in the program itself.
constexpr std::string_view kEnded = "has ended", kLeavesOut = "leaves the call out";
constexpr std::string_view kToSignal = "to signal";  // value of WaitEdge::what

// Strongly connected components by Tarjan's algorithm without recursion (R. Tarjan, "Depth-first
// search and linear graph algorithms", 1972). Nodes 0..n-1 are the blocked calls; nodes from n on
// are their wait edges. Edges lead from one kind to the other, so a component of two or more nodes
// has a cycle. This includes a call that waits for itself.
class Components {
 public:
  explicit Components(const WaitGraph& s) : s_(s), calls_(s.blocked.size()) {
    const size_t nodes = calls_ + s.awaiting.size();
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
    if (node < calls_) return s_.blocked[node].awaiting < 0 ? 0 : 1;
    return s_.awaiting[node - calls_].holders.size();
  }
  size_t target(size_t node, size_t edge) const {
    if (node < calls_) return calls_ + static_cast<size_t>(s_.blocked[node].awaiting);
    return static_cast<size_t>(s_.awaiting[node - calls_].holders[edge]);
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
      if (low_[done] == index_[done]) take_component(done);
    }
  }

  void take_component(size_t root) {
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
  const WaitGraph& s_;
  size_t calls_, counter_ = 0;
  std::vector<size_t> index_, low_, stack_;
  std::vector<char> on_stack_;
  std::vector<Step> path_;
};

const WaitEdge* awaiting_of(const WaitGraph& s, const Blocked& blocked) {
  return blocked.awaiting < 0 ? nullptr : &s.awaiting[static_cast<size_t>(blocked.awaiting)];
}

// True if the call only waits for work of another stream of its rank. Such a wait has no line.
bool is_stream_wait(const WaitGraph& s, size_t call) {
  const WaitEdge* const awaiting = awaiting_of(s, s.blocked[call]);
  return awaiting != nullptr && awaiting->ranks.empty();
}

std::string waits_text(const WaitGraph& s, const WaitEdge& awaiting) {
  if (awaiting.ranks.empty()) {
    if (awaiting.holders.empty()) return "waits for another stream";
    const Blocked& holder = s.blocked[static_cast<size_t>(awaiting.holders.front())];
    return "waits for " + line_text(holder.line, holder.instance);
  }
  std::string text = "waits for " + ranks_text(Lanes::of(awaiting.ranks));
  return awaiting.what.empty() ? text : text + " " + awaiting.what;
}

// Returns table rows; calls at the same line that wait for the same share a row.
std::vector<std::string> rows_of(const WaitGraph& s, const std::vector<size_t>& calls) {
  struct Row {
    const Blocked* first;
    std::vector<int32_t> ranks;
  };
  std::vector<Row> rows;
  std::map<std::tuple<int32_t, int, std::string_view, std::string_view>, size_t> row_of;
  for (size_t index : calls) {
    const Blocked& call = s.blocked[index];
    const auto [known, fresh] =
        row_of.emplace(std::tuple(call.awaiting, call.line, std::string_view(call.instance),
                                  std::string_view(call.text)),
                       rows.size());
    if (fresh) rows.push_back({&call, {}});
    std::vector<int32_t>& ranks = rows[known->second].ranks;
    for (int64_t lane = 0; lane < call.ranks.size(); ++lane) ranks.push_back(call.ranks[lane]);
  }
  const size_t all = rows.size();
  if (all > kShownRows) rows.resize(kShownRows);
  std::vector<std::vector<std::string>> table;
  for (const Row& row : rows) {
    const WaitEdge* awaiting = awaiting_of(s, *row.first);
    table.push_back({ranks_text(Lanes::of(row.ranks)),
                     line_text(row.first->line, row.first->instance), row.first->text,
                     awaiting == nullptr ? "" : waits_text(s, *awaiting)});
  }
  std::vector<std::string> lines = aligned(std::move(table));
  if (all > kShownRows) lines.push_back(fmt::format("and {} more", all - kShownRows));
  return lines;
}

int32_t first_rank(const WaitGraph& s, size_t call) { return s.blocked[call].ranks[0]; }

// Returns the shortest cycle through the call of the lowest rank, by breadth-first search.
std::vector<size_t> shortest_cycle(const WaitGraph& s, const std::vector<size_t>& calls) {
  const size_t start = *std::min_element(calls.begin(), calls.end(), [&](size_t a, size_t b) {
    return first_rank(s, a) < first_rank(s, b);
  });
  std::map<size_t, size_t> came_from;
  std::set<size_t> members(calls.begin(), calls.end());
  std::set<int32_t> followed;  // calls of one collective await the same
  std::vector<size_t> queue{start};
  for (size_t head = 0; head < queue.size(); ++head) {
    if (!followed.insert(s.blocked[queue[head]].awaiting).second) continue;
    const WaitEdge* awaiting = awaiting_of(s, s.blocked[queue[head]]);
    for (int32_t holder : awaiting->holders) {
      const size_t next = static_cast<size_t>(holder);
      if (next == start) {
        std::vector<size_t> way{start};
        for (size_t at = queue[head]; at != start; at = came_from.at(at)) way.push_back(at);
        way.push_back(start);
        std::reverse(way.begin(), way.end());
        return way;
      }
      if (members.count(next) == 0 || came_from.count(next) != 0) continue;
      came_from[next] = queue[head];
      queue.push_back(next);
    }
  }
  SP_UNREACHABLE("a component without a cycle");
}

std::string cycle_text(const WaitGraph& s, std::vector<size_t> cycle) {
  // The stream wait of a rank and the call it waits for count once.
  std::vector<size_t> own = cycle;
  std::erase_if(own, [&](size_t call) { return is_stream_wait(s, call); });
  if (!own.empty()) cycle = std::move(own);
  if (cycle.front() != cycle.back() || cycle.size() == 1) cycle.push_back(cycle.front());
  std::string text = "cycle   ";
  std::set<std::string> groups;
  for (size_t i = 0; i < cycle.size(); ++i) {
    if (cycle.size() > 2 * kShownRows && i == kShownRows) {
      text += " -> ...";
      i = cycle.size() - kShownRows;
    }
    text += fmt::format("{}{}", i == 0 ? "" : " -> ", first_rank(s, cycle[i]));
  }
  for (size_t call : cycle) {
    const std::string& group = awaiting_of(s, s.blocked[call])->group;
    if (!group.empty()) groups.insert(group.substr(0, group.find(' ')));
  }
  if (groups.size() < 2 || groups.size() > kShownCycles) return text;
  text += "   over groups ";
  for (const std::string& group : groups) text += (group == *groups.begin() ? "" : " and ") + group;
  return text;
}

Lanes ranks_of(const WaitGraph& s, const std::vector<size_t>& calls) {
  std::vector<int32_t> ranks;
  for (size_t call : calls)
    for (int64_t i = 0; i < s.blocked[call].ranks.size(); ++i)
      ranks.push_back(s.blocked[call].ranks[i]);
  return Lanes::of(std::move(ranks));
}

Lanes all_blocked(const WaitGraph& s) {
  std::vector<size_t> calls(s.blocked.size());
  for (size_t i = 0; i < calls.size(); ++i) calls[i] = i;
  return ranks_of(s, calls);
}

const Blocked& earliest(const WaitGraph& s, const std::vector<size_t>& calls) {
  const auto order = [&](size_t call) {
    return std::tuple(is_stream_wait(s, call), s.blocked[call].line, first_rank(s, call));
  };
  return s.blocked[*std::min_element(calls.begin(), calls.end(),
                                     [&](size_t a, size_t b) { return order(a) < order(b); })];
}

Finding finding_at(const WaitGraph& s, Verdict verdict, const Blocked& call) {
  Finding finding;
  finding.verdict = verdict;
  finding.line = call.line;
  finding.instance = call.instance;
  if (const WaitEdge* awaiting = awaiting_of(s, call)) {
    finding.group = awaiting->group;
    finding.call = awaiting->call;
  }
  return finding;
}

// A signal waits for no rank: moving one up breaks a cycle that contains it.
std::string cycle_fix(const WaitGraph& s, const std::vector<size_t>& calls) {
  std::vector<size_t> own = calls;
  std::erase_if(own, [&](size_t call) { return is_stream_wait(s, call); });
  const auto all = [&](const auto& holds) {
    return std::all_of(own.begin(), own.end(), [&](size_t call) { return holds(call); });
  };
  if (!own.empty() && all([&](size_t call) { return s.blocked[call].pairwise; }))
    return own.size() == calls.size() ? "group the send and the receive of each rank"
                                      : "let one rank of the cycle send before it receives";
  const auto waits_for_call = [&](size_t call) {
    return awaiting_of(s, s.blocked[call])->what != kToSignal;
  };
  if (all(waits_for_call)) return "make these calls in the same order on all ranks";
  return "let a rank of the cycle signal before the call that it waits at";
}

std::string lacking_fix(const WaitEdge& awaiting) {
  if (awaiting.what.empty()) return "let every member of a group make every call on it";
  return awaiting.what == kToSignal ? "signal a slot as often as it is waited for"
                                    : "let every send have its receive, and every receive its send";
}

// True if the rank has no such call left because of its program, not because of a fault.
bool lacks_calls(const WaitGraph& s, int32_t rank) {
  return s.gone.at(rank) == kEnded || s.gone.at(rank) == kLeavesOut;
}

// The blocked calls of each rank that has any, ascending.
using CallsByRank = std::map<int32_t, std::vector<size_t>>;

CallsByRank calls_by_rank(const WaitGraph& s) {
  CallsByRank calls_of;
  for (size_t call = 0; call < s.blocked.size(); ++call)
    for (int64_t i = 0; i < s.blocked[call].ranks.size(); ++i)
      calls_of[s.blocked[call].ranks[i]].push_back(call);
  return calls_of;
}

// True if, in addition, a call of the rank is blocked.
bool is_stuck(const WaitGraph& s, int32_t rank, const CallsByRank& calls_of) {
  return lacks_calls(s, rank) && calls_of.contains(rank);
}

// Makes ranks of cycles that leave out an awaited call missing there; they no longer hold that
// call.
WaitGraph without_left_out(WaitGraph s) {
  const std::vector<std::vector<size_t>> cycles = Components(s).cycles;
  for (const std::vector<size_t>& cycle : cycles) {
    for (const size_t call : cycle) {
      WaitEdge& awaiting = s.awaiting[static_cast<size_t>(s.blocked[call].awaiting)];
      if (awaiting.left_out.empty()) continue;
      std::vector<size_t> holding;
      for (const int32_t holder : awaiting.holders)
        if (std::binary_search(cycle.begin(), cycle.end(), static_cast<size_t>(holder)))
          holding.push_back(static_cast<size_t>(holder));
      const Lanes inside = ranks_of(s, holding);
      std::vector<int32_t> moved;
      for (const int32_t rank : std::exchange(awaiting.left_out, {}))
        if (inside.contains(rank)) moved.push_back(rank);
      if (moved.empty()) continue;
      for (const int32_t rank : moved) s.gone.emplace(rank, kLeavesOut);
      awaiting.missing.insert(awaiting.missing.end(), moved.begin(), moved.end());
      const Lanes left = Lanes::of(awaiting.ranks).minus(Lanes::of(std::move(moved)));
      std::erase_if(awaiting.holders, [&](int32_t holder) {
        return s.blocked[static_cast<size_t>(holder)].ranks.intersect(left).empty();
      });
    }
  }
  return s;
}

// Returns the graph in which each call is held by the ranks that it misses, if all of them wait.
WaitGraph lacking_of(const WaitGraph& s, const CallsByRank& calls_of) {
  WaitGraph lacking = s;
  for (WaitEdge& awaiting : lacking.awaiting) {
    awaiting.holders.clear();
    if (!std::all_of(awaiting.missing.begin(), awaiting.missing.end(),
                     [&](int32_t rank) { return is_stuck(s, rank, calls_of); }))
      continue;
    for (const int32_t rank : awaiting.missing)
      for (const size_t call : calls_of.at(rank))
        awaiting.holders.push_back(static_cast<int32_t>(call));
  }
  return lacking;
}

// True if the cycle is one message whose two ends are the same rank.
bool is_to_itself(const WaitGraph& s, const std::vector<size_t>& calls) {
  if (calls.size() != 1 || !s.blocked[calls[0]].pairwise) return false;
  const WaitEdge* const awaiting = awaiting_of(s, s.blocked[calls[0]]);
  return awaiting != nullptr && awaiting->ranks.size() == 1 &&
         awaiting->ranks[0] == first_rank(s, calls[0]) && awaiting->what != kToSignal;
}

// Returns how a rank waits for itself. `lacks`: it has no call left that would be the other end.
std::string to_itself_text(const WaitGraph& s, size_t call, bool lacks) {
  const bool sends = awaiting_of(s, s.blocked[call])->what == "to receive";
  const int32_t rank = first_rank(s, call);
  if (lacks)
    return fmt::format("rank {} {} itself, and makes no call that {}", rank,
                       sends ? "sends to" : "receives from", sends ? "receives it" : "sends it");
  return fmt::format("rank {0} {1} itself, and reaches its {2} only when this {3} has ended", rank,
                     sends ? "sends to" : "receives from", sends ? "receive" : "send",
                     sends ? "send" : "receive");
}

// Returns the fix for messages of ranks to themselves that never get their other end.
std::string to_itself_fix(const WaitEdge& awaiting) {
  const std::string group = awaiting.group.substr(0, awaiting.group.find(' '));
  return fmt::format(
      "to= and from= are numbers in the group of the call, here {}: name another rank{}", group,
      group == "world" ? ", or the axis that is meant, as in group=pp" : ", or another group");
}

struct Cycle {
  const WaitGraph* graph;  // the graph whose holders make the cycle
  std::vector<size_t> calls;
};

// `lacking`: the graph of ranks that wait for each other without a call left that would help.
std::optional<Finding> find_cycles(const WaitGraph& s, const WaitGraph& lacking) {
  std::vector<Cycle> cycles;
  for (const WaitGraph* graph : {&s, &lacking})
    for (std::vector<size_t>& calls : Components(*graph).cycles)
      cycles.push_back({graph, std::move(calls)});
  if (cycles.empty()) return std::nullopt;
  std::stable_sort(cycles.begin(), cycles.end(), [&](const Cycle& a, const Cycle& b) {
    return ranks_of(s, a.calls)[0] < ranks_of(s, b.calls)[0];
  });
  std::vector<size_t> calls, without;
  for (const Cycle& cycle : cycles) {
    calls.insert(calls.end(), cycle.calls.begin(), cycle.calls.end());
    if (cycle.graph == &lacking)
      without.insert(without.end(), cycle.calls.begin(), cycle.calls.end());
  }
  Finding finding = finding_at(s, Verdict::deadlock, earliest(s, calls));
  finding.ranks = ranks_of(s, calls);
  const Lanes stuck = all_blocked(s);
  finding.headline = fmt::format("deadlock: {} of {} ranks can never go on", stuck.size(), s.world);
  finding.details = rows_of(s, calls);
  for (size_t i = 0; i < std::min(cycles.size(), kShownCycles); ++i)
    finding.details.push_back(
        is_to_itself(s, cycles[i].calls)
            ? to_itself_text(s, cycles[i].calls[0], cycles[i].graph == &lacking)
            : cycle_text(s, shortest_cycle(*cycles[i].graph, cycles[i].calls)));
  if (cycles.size() > kShownCycles)
    finding.details.push_back(fmt::format("and {} more cycles", cycles.size() - kShownCycles));
  if (const Lanes others = stuck.minus(finding.ranks); !others.empty())
    finding.details.push_back(fmt::format("{} {} outside the cycles and cannot go on either",
                                          ranks_text(others), others.size() == 1 ? "is" : "are"));
  if (without.empty()) {
    finding.fix = cycle_fix(s, calls);
    return finding;
  }
  const WaitEdge& awaited = *awaiting_of(s, earliest(s, without));
  const bool to_themselves = std::all_of(cycles.begin(), cycles.end(), [&](const Cycle& cycle) {
    return cycle.graph == &lacking && is_to_itself(s, cycle.calls);
  });
  finding.fix = to_themselves ? to_itself_fix(awaited) : lacking_fix(awaited);
  return finding;
}

std::string plural(const std::string& reason) {
  if (reason == "hangs") return "hang";
  if (reason.starts_with("has ")) return "have " + reason.substr(4);
  return reason.starts_with("was ") ? "were " + reason.substr(4) : reason;
}

// A message has two ends, a collective has members. If several calls wait, the rows name theirs.
std::string missing_text(const WaitGraph& s, const Finding& finding,
                         const std::vector<size_t>& waiters, const WaitEdge& awaiting) {
  const bool one = finding.ranks.size() == 1;
  const std::string never = ranks_text(finding.ranks) + " never";
  const char* const make = one ? "makes" : "make";
  if (awaiting.what.empty())
    return fmt::format("{} {} call {} of group {}", never, make, finding.call, finding.group);
  const Lanes waiting = ranks_of(s, waiters);
  if (waiting.size() > 1)
    return fmt::format("{} {} the other end of messages in group {}", never, make, finding.group);
  const char* link = awaiting.what == "to send"      ? " to"
                     : awaiting.what == "to receive" ? " from"
                                                     : "";
  return fmt::format("{} {}{}{} {} in group {}", never, awaiting.what.substr(3), one ? "s" : "",
                     link, ranks_text(waiting), finding.group);
}

// Returns no fix for ranks that died or hang: their program may be right.
std::string missing_fix(const WaitGraph& s, const Finding& finding, const WaitEdge& awaiting) {
  bool ended = false;
  for (int64_t i = 0; i < finding.ranks.size(); ++i)
    ended = ended || lacks_calls(s, finding.ranks[i]);
  return ended ? lacking_fix(awaiting) : "";
}

// Returns these calls and all that wait for one of them, directly or in turn. Calls that are
// blocked for another reason are not reached.
std::vector<size_t> calls_waiting_for(const WaitGraph& s, std::vector<size_t> calls) {
  std::vector<std::vector<size_t>> held(s.blocked.size()), waiting(s.awaiting.size());
  for (size_t i = 0; i < s.awaiting.size(); ++i)
    for (int32_t holder : s.awaiting[i].holders) held[static_cast<size_t>(holder)].push_back(i);
  for (size_t i = 0; i < s.blocked.size(); ++i)
    if (s.blocked[i].awaiting >= 0)
      waiting[static_cast<size_t>(s.blocked[i].awaiting)].push_back(i);
  std::vector<bool> known(s.blocked.size(), false);
  for (size_t call : calls) known[call] = true;
  for (size_t head = 0; head < calls.size(); ++head)
    for (size_t awaiting : std::exchange(held[calls[head]], {}))
      for (size_t next : std::exchange(waiting[awaiting], {})) {
        if (known[next]) continue;
        known[next] = true;
        calls.push_back(next);
      }
  return calls;
}

// Returns for each call whether a cycle of `lacking` explains it: it is in one or waits for one.
std::vector<bool> explained_by_cycles(const WaitGraph& s, const WaitGraph& lacking) {
  std::vector<bool> explained(s.blocked.size(), false);
  std::vector<size_t> calls;
  for (const std::vector<size_t>& cycle : Components(lacking).cycles)
    calls.insert(calls.end(), cycle.begin(), cycle.end());
  if (calls.empty()) return explained;
  WaitGraph both = lacking;
  for (size_t i = 0; i < s.awaiting.size(); ++i)
    both.awaiting[i].holders.insert(both.awaiting[i].holders.end(), s.awaiting[i].holders.begin(),
                                    s.awaiting[i].holders.end());
  for (size_t call : calls_waiting_for(both, std::move(calls))) {
    const WaitEdge* awaiting = awaiting_of(lacking, lacking.blocked[call]);
    explained[call] = awaiting != nullptr && !awaiting->holders.empty();
  }
  return explained;
}

// Returns why a rank is missing: how it ended, or the call in which it waits instead.
std::string absence_text(const WaitGraph& s, int32_t rank, bool several,
                         const CallsByRank& calls_of) {
  const std::string& reason = s.gone.at(rank);
  if (!is_stuck(s, rank, calls_of)) return several ? plural(reason) : reason;
  const Blocked& call = earliest(s, calls_of.at(rank));
  const std::string place = line_text(call.line, call.instance);
  return fmt::format("{} no such call and {} at {}{}{}", several ? "make" : "makes",
                     several ? "wait" : "waits", place, place.empty() ? "" : ", ", call.text);
}

std::optional<Finding> find_missing(const WaitGraph& s, const WaitGraph& lacking,
                                    const CallsByRank& calls_of) {
  std::vector<size_t> waiters;
  std::vector<int32_t> missing;
  std::set<int32_t> counted;  // calls of one collective await the same
  const std::vector<bool> explained = explained_by_cycles(s, lacking);
  for (size_t i = 0; i < s.blocked.size(); ++i) {
    const WaitEdge* awaiting = awaiting_of(s, s.blocked[i]);
    if (awaiting == nullptr || awaiting->missing.empty() || explained[i]) continue;
    waiters.push_back(i);
    if (counted.insert(s.blocked[i].awaiting).second)
      missing.insert(missing.end(), awaiting->missing.begin(), awaiting->missing.end());
  }
  if (waiters.empty()) return std::nullopt;
  const Blocked& first = earliest(s, waiters);
  Finding finding = finding_at(s, Verdict::missing_rank, first);
  finding.ranks = Lanes::of(std::move(missing));
  const WaitEdge& awaiting = *awaiting_of(s, first);
  finding.headline = missing_text(s, finding, waiters, awaiting);
  finding.details = rows_of(s, waiters);
  std::map<std::string, std::vector<int32_t>> by_reason;
  for (int64_t i = 0; i < finding.ranks.size(); ++i) {
    const int32_t rank = finding.ranks[i];
    by_reason[absence_text(s, rank, false, calls_of)].push_back(rank);
  }
  for (const auto& [reason, ranks] : by_reason)
    finding.details.push_back(ranks_text(Lanes::of(ranks)) + "  " +
                              absence_text(s, ranks[0], ranks.size() > 1, calls_of));
  if (const Lanes others = ranks_of(s, calls_waiting_for(s, waiters))
                               .minus(ranks_of(s, waiters))
                               .minus(finding.ranks);
      !others.empty())
    finding.details.push_back(fmt::format("{} in turn {} for them", ranks_text(others),
                                          others.size() == 1 ? "waits" : "wait"));
  finding.fix = missing_fix(s, finding, awaiting);
  return finding;
}

}  // namespace

std::vector<Finding> diagnose_deadlock(const WaitGraph& known) {
  std::vector<Finding> findings;
  const WaitGraph wait_graph = without_left_out(known);
  const CallsByRank calls_of = calls_by_rank(wait_graph);
  const WaitGraph lacking = lacking_of(wait_graph, calls_of);
  if (std::optional<Finding> cycles = find_cycles(wait_graph, lacking))
    findings.push_back(std::move(*cycles));
  if (std::optional<Finding> missing = find_missing(wait_graph, lacking, calls_of))
    findings.push_back(std::move(*missing));
  return findings;
}

}  // namespace shardproof
