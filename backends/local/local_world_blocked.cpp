// Implements the search for blocked ranks of local_world.h: fills the wait-for graph
// (sim/analysis/wait_for_graph.h) when nothing can run any more.
//
// 1. collect: each stream that is held by a call or a wait gives an entry in `blocked`.
// 2. connect: for each blocked call, the call matcher names the ranks that have not joined it. For
//    each of them, trace finds the reason. If the rank has queued the call behind another one,
//    there is an edge to the call or wait that holds that stream. If its host waits for a stream,
//    there is an edge to that stream. Otherwise the rank never joins the call: it is missing.
// 3. diagnose_deadlock (sim/analysis/deadlock.h) finds cycles and missing ranks in the graph.
//
// Example: rank 0 waits in send to 1, rank 1 in send to 0, each with its receive queued behind.
// Call A (rank 0) awaits rank 1, whose receive is queued behind call B: edge A -> B; likewise B ->
// A. The cycle is a deadlock.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "shardproof/backends/local/local_world.h"
#include "shardproof/sim/analysis/deadlock.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {

// Builds the wait-for graph of the world.
struct BlockedRanksSurvey {
  LocalWorld& world;
  WaitForGraph graph;
  // Blocked calls by cohort and stream.
  std::map<std::pair<int32_t, StreamId>, std::vector<int32_t>> heads;
  std::vector<const SubmittedCall*> blocked_calls;     // by blocked call; null: a wait for a ticket
  std::vector<int32_t> owner;                          // cohort of each rank; -1: none
  std::map<const CollectiveInstance*, int32_t> known;  // collective -> edge
  std::set<int32_t> wrong;  // ranks of a wrong call that some members have not issued yet
  std::optional<PlannedCalls> planned;  // computed on first use

  static bool lives(const LocalContext& context) { return context.state_ == CohortState::running; }

  void add_call(LocalContext& context, StreamId stream, const SubmittedCall& submitted) {
    BlockedCall call;
    call.ranks = submitted.lanes;
    call.line = submitted.terms->site.line;
    call.instance = submitted.terms->site.instance;
    call.text = call_text(*submitted.terms);
    const CollectiveKind kind = submitted.terms->collective.kind;
    call.pairwise = kind == CollectiveKind::send || kind == CollectiveKind::recv;
    heads[{context.index_, stream}].push_back(static_cast<int32_t>(graph.blocked.size()));
    graph.blocked.push_back(std::move(call));
    blocked_calls.push_back(&submitted);
  }

  void add_wait(LocalContext& context, StreamId stream) {
    BlockedCall wait;
    wait.ranks = context.lanes_;
    wait.text = "wait on stream " + context.at(stream).name;
    heads[{context.index_, stream}].push_back(static_cast<int32_t>(graph.blocked.size()));
    graph.blocked.push_back(std::move(wait));
    blocked_calls.push_back(nullptr);
  }

  void collect() {
    owner.assign(static_cast<size_t>(world.ranks_), -1);
    std::vector<LocalContext*> contexts;
    for (LocalContext& context : world.contexts_) contexts.push_back(&context);
    std::sort(contexts.begin(), contexts.end(), [](const LocalContext* a, const LocalContext* b) {
      return a->lanes_[0] < b->lanes_[0];
    });
    for (LocalContext* each : contexts) {
      LocalContext& context = *each;
      for (int64_t i = 0; i < context.lanes_.size(); ++i)
        owner[static_cast<size_t>(context.lanes_[i])] = context.index_;
      if (!lives(context)) continue;
      for (StreamId id = 0; id < context.stream_count(); ++id) {
        const Stream& stream = context.at(id);
        if (stream.has_failed()) continue;  // a finding about its failed call exists
        if (stream.submission != nullptr) {
          for (const SubmittedCall& submitted : stream.submission->calls)
            if (submitted.open > 0) add_call(context, id, submitted);
        } else if (stream.has_items()) {
          add_wait(context, id);
        }
      }
    }
  }

  // Returns the stream on which `rank` has queued the call that `waiting` needs; -1: none.
  StreamId queued_on(LocalContext& context, int32_t rank, const SubmittedCall& waiting) {
    for (StreamId id = 0; id < context.stream_count(); ++id)
      for (const StreamItem& item : context.at(id).items()) {
        Submission* const* submission = std::get_if<Submission*>(&item.what);
        if (submission == nullptr) continue;
        for (const SubmittedCall& submitted : (*submission)->calls)
          if (world.matcher_.is_awaited(submitted, rank, waiting)) return id;
      }
    return -1;
  }

  void hold(WaitEdge& edge, int32_t cohort, StreamId stream) {
    const auto found = heads.find({cohort, stream});
    if (found == heads.end()) return;
    edge.holders.insert(edge.holders.end(), found->second.begin(), found->second.end());
  }

  // Adds the streams that the host of `rank` waits for; all of them if it has named none.
  void hold_by_host(WaitEdge& edge, int32_t rank, LocalContext& context) {
    const size_t before = edge.holders.size();
    bool known = false;
    for (const Ticket ticket : context.host_waits_) {
      if (world.tickets_.state(ticket) == TicketState::done) continue;
      const TicketTable::Place place = world.tickets_.place(ticket);
      hold(edge, place.cohort, place.stream);
      known = true;
    }
    for (StreamId id = 0; !known && id < context.stream_count(); ++id)
      hold(edge, context.index_, id);
    const bool explained_elsewhere = context.is_stuck() || wrong.contains(rank);
    if (edge.holders.size() == before && !explained_elsewhere) miss(edge, rank, "has stopped");
  }

  void miss(WaitEdge& edge, int32_t rank, const char* reason) {
    edge.missing.push_back(rank);
    graph.gone.emplace(rank, reason);
  }

  void trace(WaitEdge& edge, int32_t rank, const SubmittedCall& waiting) {
    const int32_t cohort = owner[static_cast<size_t>(rank)];
    if (cohort < 0) return miss(edge, rank, "was never started");
    LocalContext& context = world.context(cohort);
    if (lives(context)) {
      edge.left_out.push_back(rank);  // keep_left_out removes it if its program has the call
      if (const StreamId stream = queued_on(context, rank, waiting); stream >= 0)
        return hold(edge, cohort, stream);
      if (!context.finished_) return hold_by_host(edge, rank, context);
      edge.left_out.pop_back();
    }
    // A rank with a wrong call is not reported as missing: that may follow from the wrong call.
    if (context.is_stuck() || wrong.contains(rank)) return;
    if (context.state_ == CohortState::hung) return miss(edge, rank, "hangs");
    if (context.state_ == CohortState::dead) return miss(edge, rank, "has died");
    miss(edge, rank, "has ended");
  }

  // Keeps only those ranks whose program does not have the call.
  void keep_left_out(WaitEdge& edge, const SubmittedCall& waiting) {
    const std::vector<int32_t> may_come = std::exchange(edge.left_out, {});
    const Lanes& lanes = waiting.lanes;
    if (!world.planned_ || may_come.empty()) return;
    if (!planned) planned = world.planned_();
    const Collective& call = waiting.terms->collective;
    std::vector<int32_t> waiters;
    if (is_point_to_point(call.kind)) {
      for (int64_t i = 0; i < lanes.size(); ++i) waiters.push_back(lanes[i]);
    } else {
      for (const int32_t member : call.group.members(call.group.sibling_of(may_come.front())))
        if (!std::binary_search(edge.ranks.begin(), edge.ranks.end(), member))
          waiters.push_back(member);
    }
    edge.left_out = planned->lacking(may_come, waiters, call);
  }

  void connect(size_t index) {
    const SubmittedCall* submitted = blocked_calls[index];
    if (submitted == nullptr) return connect_wait(index);
    const CallMatcher::Awaited need = world.matcher_.awaited(*submitted);
    if (need.explained) return;
    const bool collective = !is_point_to_point(submitted->terms->collective.kind);
    if (collective) {
      const auto [at, fresh] =
          known.emplace(need.instance, static_cast<int32_t>(graph.edges.size()));
      graph.blocked[index].edge = at->second;
      if (!fresh) return;
    }
    graph.blocked[index].edge = static_cast<int32_t>(graph.edges.size());
    WaitEdge edge;
    edge.group = need.group;
    edge.call = need.call;
    edge.what = need.what;
    edge.ranks = world.matcher_.absent_ranks(*submitted, need);
    for (int32_t rank : edge.ranks) trace(edge, rank, *submitted);
    keep_left_out(edge, *submitted);
    std::sort(edge.holders.begin(), edge.holders.end());
    edge.holders.erase(std::unique(edge.holders.begin(), edge.holders.end()), edge.holders.end());
    graph.edges.push_back(std::move(edge));
  }

  // A stream that waits for a ticket is held by the stream on which the ticket was issued.
  void connect_wait(size_t index) {
    const int32_t cohort = owner[static_cast<size_t>(graph.blocked[index].ranks[0])];
    LocalContext& context = world.context(cohort);
    for (StreamId id = 0; id < context.stream_count(); ++id) {
      Stream& stream = context.at(id);
      if (!stream.has_items() || graph.blocked[index].text != "wait on stream " + stream.name)
        continue;
      const Ticket* ticket = std::get_if<Ticket>(&stream.front().what);
      if (ticket == nullptr) return;
      const TicketTable::Place place = world.tickets_.place(*ticket);
      WaitEdge edge;
      hold(edge, place.cohort, place.stream);
      graph.blocked[index].edge = static_cast<int32_t>(graph.edges.size());
      graph.edges.push_back(std::move(edge));
      return;
    }
  }

  std::vector<Finding> run() {
    graph.world = world.ranks_;
    collect();
    for (const SubmittedCall* submitted : blocked_calls)
      if (submitted != nullptr && world.matcher_.awaited(*submitted).explained)
        for (int64_t i = 0; i < submitted->lanes.size(); ++i) wrong.insert(submitted->lanes[i]);
    for (size_t i = 0; i < graph.blocked.size(); ++i) connect(i);
    return diagnose_deadlock(graph);
  }
};

std::vector<Finding> LocalWorld::find_blocked_ranks() {
  return BlockedRanksSurvey{*this, {}, {}, {}, {}, {}, {}, {}}.run();
}

}  // namespace shardproof
