// Implements deadlock.h.
//
// 1. without_left_out: a rank of a cycle may leave out the call that others wait for. It becomes
//    missing there, which breaks the cycle.
// 2. lacking_of: a second graph. An edge points to the blocked calls of the ranks that are missing
//    for it, if all of these are blocked. In its cycles, ranks wait for each other, and none has a
//    call left that another one waits for.
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
// Reasons in WaitForGraph::gone that lie in the program itself.
constexpr std::string_view kEnded = "has ended", kLeavesOut = "leaves the call out";
constexpr std::string_view kToSignal = "to signal";  // value of WaitEdge::what

// True if the call only waits for work of another stream of its rank. Such a wait has no line.
bool is_stream_wait(const WaitForGraph& graph, size_t call) {
  const WaitEdge* const edge = wait_edge_of(graph, graph.blocked[call]);
  return edge != nullptr && edge->ranks.empty();
}

std::string waits_text(const WaitForGraph& graph, const WaitEdge& edge) {
  if (edge.ranks.empty()) {
    if (edge.holders.empty()) return "waits for another stream";
    const BlockedCall& holder = graph.blocked[static_cast<size_t>(edge.holders.front())];
    return "waits for " + line_text(holder.line, holder.instance);
  }
  std::string text = "waits for " + ranks_text(Lanes::of(edge.ranks));
  return edge.what.empty() ? text : text + " " + edge.what;
}

// Returns table rows; calls at the same line that wait for the same share a row.
std::vector<std::string> rows_of(const WaitForGraph& graph, const std::vector<size_t>& calls) {
  struct Row {
    const BlockedCall* first;
    std::vector<int32_t> ranks;
  };
  std::vector<Row> rows;
  std::map<std::tuple<int32_t, int, std::string_view, std::string_view>, size_t> row_of;
  for (size_t index : calls) {
    const BlockedCall& call = graph.blocked[index];
    const auto [known, fresh] =
        row_of.emplace(std::tuple(call.edge, call.line, std::string_view(call.instance),
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
    const WaitEdge* edge = wait_edge_of(graph, *row.first);
    table.push_back({ranks_text(Lanes::of(row.ranks)),
                     line_text(row.first->line, row.first->instance), row.first->text,
                     edge == nullptr ? "" : waits_text(graph, *edge)});
  }
  std::vector<std::string> lines = aligned(std::move(table));
  if (all > kShownRows) lines.push_back(fmt::format("and {} more", all - kShownRows));
  return lines;
}

std::string cycle_text(const WaitForGraph& graph, std::vector<size_t> cycle) {
  // The stream wait of a rank and the call it waits for count once.
  std::vector<size_t> own = cycle;
  std::erase_if(own, [&](size_t call) { return is_stream_wait(graph, call); });
  if (!own.empty()) cycle = std::move(own);
  if (cycle.front() != cycle.back() || cycle.size() == 1) cycle.push_back(cycle.front());
  std::string text = "cycle   ";
  std::set<std::string> groups;
  for (size_t i = 0; i < cycle.size(); ++i) {
    if (cycle.size() > 2 * kShownRows && i == kShownRows) {
      text += " -> ...";
      i = cycle.size() - kShownRows;
    }
    text += fmt::format("{}{}", i == 0 ? "" : " -> ", first_rank(graph, cycle[i]));
  }
  for (size_t call : cycle) {
    const std::string& group = wait_edge_of(graph, graph.blocked[call])->group;
    if (!group.empty()) groups.insert(group.substr(0, group.find(' ')));
  }
  if (groups.size() < 2 || groups.size() > kShownCycles) return text;
  text += "   over groups ";
  for (const std::string& group : groups) text += (group == *groups.begin() ? "" : " and ") + group;
  return text;
}

Lanes all_blocked(const WaitForGraph& graph) {
  std::vector<size_t> calls(graph.blocked.size());
  for (size_t i = 0; i < calls.size(); ++i) calls[i] = i;
  return ranks_of_calls(graph, calls);
}

const BlockedCall& earliest(const WaitForGraph& graph, const std::vector<size_t>& calls) {
  const auto order = [&](size_t call) {
    return std::tuple(is_stream_wait(graph, call), graph.blocked[call].line,
                      first_rank(graph, call));
  };
  return graph.blocked[*std::min_element(calls.begin(), calls.end(),
                                         [&](size_t a, size_t b) { return order(a) < order(b); })];
}

Finding finding_at(const WaitForGraph& graph, Verdict verdict, const BlockedCall& call) {
  Finding finding;
  finding.verdict = verdict;
  finding.line = call.line;
  finding.instance = call.instance;
  if (const WaitEdge* edge = wait_edge_of(graph, call)) {
    finding.group = edge->group;
    finding.call = edge->call;
  }
  return finding;
}

// A signal waits for no rank: moving one up breaks a cycle that contains it.
std::string cycle_fix(const WaitForGraph& graph, const std::vector<size_t>& calls) {
  std::vector<size_t> own = calls;
  std::erase_if(own, [&](size_t call) { return is_stream_wait(graph, call); });
  const auto all = [&](const auto& holds) {
    return std::all_of(own.begin(), own.end(), [&](size_t call) { return holds(call); });
  };
  if (!own.empty() && all([&](size_t call) { return graph.blocked[call].pairwise; }))
    return own.size() == calls.size() ? "group the send and the receive of each rank"
                                      : "let one rank of the cycle send before it receives";
  const auto waits_for_call = [&](size_t call) {
    return wait_edge_of(graph, graph.blocked[call])->what != kToSignal;
  };
  if (all(waits_for_call)) return "make these calls in the same order on all ranks";
  return "let a rank of the cycle signal before the call that it waits at";
}

std::string lacking_fix(const WaitEdge& edge) {
  if (edge.what.empty()) return "let every member of a group make every call on it";
  return edge.what == kToSignal ? "signal a slot as often as it is waited for"
                                : "let every send have its receive, and every receive its send";
}

// True if the rank has no such call left because of its program, not because of a fault.
bool lacks_calls(const WaitForGraph& graph, int32_t rank) {
  return graph.gone.at(rank) == kEnded || graph.gone.at(rank) == kLeavesOut;
}

// The blocked calls of each rank that has any, ascending.
using CallsByRank = std::map<int32_t, std::vector<size_t>>;

CallsByRank calls_by_rank(const WaitForGraph& graph) {
  CallsByRank calls_of;
  for (size_t call = 0; call < graph.blocked.size(); ++call)
    for (int64_t i = 0; i < graph.blocked[call].ranks.size(); ++i)
      calls_of[graph.blocked[call].ranks[i]].push_back(call);
  return calls_of;
}

// True if the rank has no such call left and is blocked in another call.
bool is_stuck(const WaitForGraph& graph, int32_t rank, const CallsByRank& calls_of) {
  return lacks_calls(graph, rank) && calls_of.contains(rank);
}

// Returns the graph in which a rank of a cycle that leaves out an awaited call is missing there.
// The call then waits no longer for that rank's blocked calls.
WaitForGraph without_left_out(WaitForGraph graph) {
  const std::vector<std::vector<size_t>> cycles = cyclic_components(graph);
  for (const std::vector<size_t>& cycle : cycles) {
    for (const size_t call : cycle) {
      WaitEdge& edge = graph.edges[static_cast<size_t>(graph.blocked[call].edge)];
      if (edge.left_out.empty()) continue;
      std::vector<size_t> holding;
      for (const int32_t holder : edge.holders)
        if (std::binary_search(cycle.begin(), cycle.end(), static_cast<size_t>(holder)))
          holding.push_back(static_cast<size_t>(holder));
      const Lanes inside = ranks_of_calls(graph, holding);
      std::vector<int32_t> moved;
      for (const int32_t rank : std::exchange(edge.left_out, {}))
        if (inside.contains(rank)) moved.push_back(rank);
      if (moved.empty()) continue;
      for (const int32_t rank : moved) graph.gone.emplace(rank, kLeavesOut);
      edge.missing.insert(edge.missing.end(), moved.begin(), moved.end());
      const Lanes left = Lanes::of(edge.ranks).minus(Lanes::of(std::move(moved)));
      std::erase_if(edge.holders, [&](int32_t holder) {
        return graph.blocked[static_cast<size_t>(holder)].ranks.intersect(left).empty();
      });
    }
  }
  return graph;
}

// Returns the graph in which each edge points to the blocked calls of its missing ranks, if all of
// these ranks are blocked.
WaitForGraph lacking_of(const WaitForGraph& graph, const CallsByRank& calls_of) {
  WaitForGraph lacking = graph;
  for (WaitEdge& edge : lacking.edges) {
    edge.holders.clear();
    if (!std::all_of(edge.missing.begin(), edge.missing.end(),
                     [&](int32_t rank) { return is_stuck(graph, rank, calls_of); }))
      continue;
    for (const int32_t rank : edge.missing)
      for (const size_t call : calls_of.at(rank))
        edge.holders.push_back(static_cast<int32_t>(call));
  }
  return lacking;
}

// True if the cycle is one message whose two ends are the same rank.
bool is_to_itself(const WaitForGraph& graph, const std::vector<size_t>& calls) {
  if (calls.size() != 1 || !graph.blocked[calls[0]].pairwise) return false;
  const WaitEdge* const edge = wait_edge_of(graph, graph.blocked[calls[0]]);
  return edge != nullptr && edge->ranks.size() == 1 &&
         edge->ranks[0] == first_rank(graph, calls[0]) && edge->what != kToSignal;
}

// Returns how a rank waits for itself. `lacks`: it has no call left that would be the other end.
std::string to_itself_text(const WaitForGraph& graph, size_t call, bool lacks) {
  const bool sends = wait_edge_of(graph, graph.blocked[call])->what == "to receive";
  const int32_t rank = first_rank(graph, call);
  if (lacks)
    return fmt::format("rank {} {} itself, and makes no call that {}", rank,
                       sends ? "sends to" : "receives from", sends ? "receives it" : "sends it");
  return fmt::format("rank {0} {1} itself, and reaches its {2} only when this {3} has ended", rank,
                     sends ? "sends to" : "receives from", sends ? "receive" : "send",
                     sends ? "send" : "receive");
}

// Returns the fix for messages of ranks to themselves that never get their other end.
std::string to_itself_fix(const WaitEdge& edge) {
  const std::string group = edge.group.substr(0, edge.group.find(' '));
  return fmt::format(
      "to= and from= are numbers in the group of the call, here {}: name another rank{}", group,
      group == "world" ? ", or the axis that is meant, as in group=pp" : ", or another group");
}

struct Cycle {
  const WaitForGraph* origin;  // the graph whose holders make the cycle
  std::vector<size_t> calls;
};

// Returns the deadlock finding; nullopt if there is no cycle. `lacking`: result of lacking_of().
std::optional<Finding> find_cycles(const WaitForGraph& graph, const WaitForGraph& lacking) {
  std::vector<Cycle> cycles;
  for (const WaitForGraph* origin : {&graph, &lacking})
    for (std::vector<size_t>& calls : cyclic_components(*origin))
      cycles.push_back({origin, std::move(calls)});
  if (cycles.empty()) return std::nullopt;
  std::stable_sort(cycles.begin(), cycles.end(), [&](const Cycle& a, const Cycle& b) {
    return ranks_of_calls(graph, a.calls)[0] < ranks_of_calls(graph, b.calls)[0];
  });
  std::vector<size_t> calls, without;
  for (const Cycle& cycle : cycles) {
    calls.insert(calls.end(), cycle.calls.begin(), cycle.calls.end());
    if (cycle.origin == &lacking)
      without.insert(without.end(), cycle.calls.begin(), cycle.calls.end());
  }
  Finding finding = finding_at(graph, Verdict::deadlock, earliest(graph, calls));
  finding.ranks = ranks_of_calls(graph, calls);
  const Lanes stuck = all_blocked(graph);
  finding.headline =
      fmt::format("deadlock: {} of {} ranks can never go on", stuck.size(), graph.world);
  finding.details = rows_of(graph, calls);
  for (size_t i = 0; i < std::min(cycles.size(), kShownCycles); ++i)
    finding.details.push_back(
        is_to_itself(graph, cycles[i].calls)
            ? to_itself_text(graph, cycles[i].calls[0], cycles[i].origin == &lacking)
            : cycle_text(graph, shortest_cycle(*cycles[i].origin, cycles[i].calls)));
  if (cycles.size() > kShownCycles)
    finding.details.push_back(fmt::format("and {} more cycles", cycles.size() - kShownCycles));
  if (const Lanes others = stuck.minus(finding.ranks); !others.empty())
    finding.details.push_back(fmt::format("{} {} outside the cycles and cannot go on either",
                                          ranks_text(others), others.size() == 1 ? "is" : "are"));
  if (without.empty()) {
    finding.fix = cycle_fix(graph, calls);
    return finding;
  }
  const WaitEdge& awaited = *wait_edge_of(graph, earliest(graph, without));
  const bool to_themselves = std::all_of(cycles.begin(), cycles.end(), [&](const Cycle& cycle) {
    return cycle.origin == &lacking && is_to_itself(graph, cycle.calls);
  });
  finding.fix = to_themselves ? to_itself_fix(awaited) : lacking_fix(awaited);
  return finding;
}

std::string plural(const std::string& reason) {
  if (reason == "hangs") return "hang";
  if (reason.starts_with("has ")) return "have " + reason.substr(4);
  return reason.starts_with("was ") ? "were " + reason.substr(4) : reason;
}

bool are_stuck(const WaitForGraph& graph, const Lanes& ranks, const CallsByRank& calls_of) {
  for (int64_t i = 0; i < ranks.size(); ++i)
    if (!is_stuck(graph, ranks[i], calls_of)) return false;
  return true;
}

// A message has two ends, a collective has members. If several calls wait, the rows name theirs.
std::string missing_text(const WaitForGraph& graph, const Finding& finding,
                         const std::vector<size_t>& waiters, const WaitEdge& edge,
                         const CallsByRank& calls_of) {
  const bool one = finding.ranks.size() == 1;
  const std::string never = ranks_text(finding.ranks) + " never";
  const char* const make = one ? "makes" : "make";
  if (edge.what.empty())
    return fmt::format("{} {} call {} of group {}", never, make, finding.call, finding.group);
  const Lanes waiting = ranks_of_calls(graph, waiters);
  if (waiting.size() > 1)
    return fmt::format("{} {} the other end of messages in group {}", never, make, finding.group);
  const char* link = edge.what == "to send" ? " to" : edge.what == "to receive" ? " from" : "";
  // A rank that waits may make the call, but not as often as it is awaited.
  if (link[0] != '\0' && are_stuck(graph, finding.ranks, calls_of))
    return fmt::format("{} {} out a {}{} {} in group {}", ranks_text(finding.ranks),
                       one ? "leaves" : "leave", edge.what.substr(3), link, ranks_text(waiting),
                       finding.group);
  return fmt::format("{} {}{}{} {} in group {}", never, edge.what.substr(3), one ? "s" : "", link,
                     ranks_text(waiting), finding.group);
}

// Returns no fix for ranks that died or hang: their program may be right.
std::string missing_fix(const WaitForGraph& graph, const Finding& finding, const WaitEdge& edge) {
  bool ended = false;
  for (int64_t i = 0; i < finding.ranks.size(); ++i)
    ended = ended || lacks_calls(graph, finding.ranks[i]);
  return ended ? lacking_fix(edge) : "";
}

// Returns for each call whether a cycle of `lacking` explains it: it is in one or waits for one.
std::vector<bool> explained_by_cycles(const WaitForGraph& graph, const WaitForGraph& lacking) {
  std::vector<bool> explained(graph.blocked.size(), false);
  std::vector<size_t> calls;
  for (const std::vector<size_t>& cycle : cyclic_components(lacking))
    calls.insert(calls.end(), cycle.begin(), cycle.end());
  if (calls.empty()) return explained;
  WaitForGraph both = lacking;
  for (size_t i = 0; i < graph.edges.size(); ++i)
    both.edges[i].holders.insert(both.edges[i].holders.end(), graph.edges[i].holders.begin(),
                                 graph.edges[i].holders.end());
  for (size_t call : calls_waiting_for(both, std::move(calls))) {
    const WaitEdge* edge = wait_edge_of(lacking, lacking.blocked[call]);
    explained[call] = edge != nullptr && !edge->holders.empty();
  }
  return explained;
}

// Returns why a rank is missing: how it ended, or the call in which it waits instead.
std::string absence_text(const WaitForGraph& graph, int32_t rank, bool several, bool is_message,
                         const CallsByRank& calls_of) {
  const std::string& reason = graph.gone.at(rank);
  if (!is_stuck(graph, rank, calls_of)) return several ? plural(reason) : reason;
  const BlockedCall& call = earliest(graph, calls_of.at(rank));
  const std::string place = line_text(call.line, call.instance);
  const char* const lacks = is_message
                                ? (several ? "leave out such a call" : "leaves out such a call")
                                : (several ? "make no such call" : "makes no such call");
  return fmt::format("{} and {} at {}{}{}", lacks, several ? "wait" : "waits", place,
                     place.empty() ? "" : ", ", call.text);
}

std::optional<Finding> find_missing(const WaitForGraph& graph, const WaitForGraph& lacking,
                                    const CallsByRank& calls_of) {
  std::vector<size_t> waiters;
  std::vector<int32_t> missing;
  std::set<int32_t> counted;  // calls of one collective await the same
  const std::vector<bool> explained = explained_by_cycles(graph, lacking);
  for (size_t i = 0; i < graph.blocked.size(); ++i) {
    const WaitEdge* edge = wait_edge_of(graph, graph.blocked[i]);
    if (edge == nullptr || edge->missing.empty() || explained[i]) continue;
    waiters.push_back(i);
    if (counted.insert(graph.blocked[i].edge).second)
      missing.insert(missing.end(), edge->missing.begin(), edge->missing.end());
  }
  if (waiters.empty()) return std::nullopt;
  const BlockedCall& first = earliest(graph, waiters);
  Finding finding = finding_at(graph, Verdict::missing_rank, first);
  finding.ranks = Lanes::of(std::move(missing));
  const WaitEdge& edge = *wait_edge_of(graph, first);
  finding.headline = missing_text(graph, finding, waiters, edge, calls_of);
  const bool is_message = !edge.what.empty();
  finding.details = rows_of(graph, waiters);
  std::map<std::string, std::vector<int32_t>> by_reason;
  for (int64_t i = 0; i < finding.ranks.size(); ++i) {
    const int32_t rank = finding.ranks[i];
    by_reason[absence_text(graph, rank, false, is_message, calls_of)].push_back(rank);
  }
  for (const auto& [reason, ranks] : by_reason)
    finding.details.push_back(
        ranks_text(Lanes::of(ranks)) + "  " +
        absence_text(graph, ranks[0], ranks.size() > 1, is_message, calls_of));
  if (const Lanes others = ranks_of_calls(graph, calls_waiting_for(graph, waiters))
                               .minus(ranks_of_calls(graph, waiters))
                               .minus(finding.ranks);
      !others.empty())
    finding.details.push_back(fmt::format("{} in turn {} for them", ranks_text(others),
                                          others.size() == 1 ? "waits" : "wait"));
  finding.fix = missing_fix(graph, finding, edge);
  return finding;
}

}  // namespace

std::vector<Finding> diagnose_deadlock(const WaitForGraph& known) {
  std::vector<Finding> findings;
  const WaitForGraph graph = without_left_out(known);
  const CallsByRank calls_of = calls_by_rank(graph);
  const WaitForGraph lacking = lacking_of(graph, calls_of);
  if (std::optional<Finding> cycles = find_cycles(graph, lacking))
    findings.push_back(std::move(*cycles));
  if (std::optional<Finding> missing = find_missing(graph, lacking, calls_of))
    findings.push_back(std::move(*missing));
  return findings;
}

}  // namespace shardproof
