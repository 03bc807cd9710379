#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "shardproof/backends/local/local_world.h"
#include "shardproof/sim/analysis/deadlock.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {

// Who is blocked by whom when nothing moves any more.
struct StandstillSurvey {
  LocalWorld& world;
  Standstill still;
  // Blocked calls of each stream of each cohort.
  std::map<std::pair<int32_t, StreamId>, std::vector<int32_t>> heads;
  std::vector<const Party*> parties;  // of each blocked call; null: a wait for a ticket
  std::vector<int32_t> owner;         // of each rank
  std::map<std::pair<std::string, int64_t>, int32_t> known;  // group and call -> awaiting
  std::set<int32_t> wrong;  // ranks with a call that is found wrong though not all have come to it
  std::optional<PlannedCalls> planned;  // computed when it is first needed

  static bool lives(const LocalDoor& door) { return door.state_ == CohortState::running; }

  void add_call(LocalDoor& door, StreamId stream, const Party& party) {
    Blocked call;
    call.ranks = party.call.lanes;
    call.line = party.call.site.line;
    call.instance = party.call.site.instance;
    call.text = call_text(party.call);
    const CollectiveKind kind = party.call.collective.kind;
    call.pairwise = kind == CollectiveKind::send || kind == CollectiveKind::recv;
    heads[{door.index_, stream}].push_back(static_cast<int32_t>(still.blocked.size()));
    still.blocked.push_back(std::move(call));
    parties.push_back(&party);
  }

  void add_wait(LocalDoor& door, StreamId stream) {
    Blocked wait;
    wait.ranks = door.lanes_;
    wait.text = "wait on stream " + door.at(stream).name;
    heads[{door.index_, stream}].push_back(static_cast<int32_t>(still.blocked.size()));
    still.blocked.push_back(std::move(wait));
    parties.push_back(nullptr);
  }

  void collect() {
    owner.assign(static_cast<size_t>(world.ranks_), -1);
    std::vector<LocalDoor*> doors;
    for (LocalDoor& door : world.doors_) doors.push_back(&door);
    std::sort(doors.begin(), doors.end(),
              [](const LocalDoor* a, const LocalDoor* b) { return a->lanes_[0] < b->lanes_[0]; });
    for (LocalDoor* each : doors) {
      LocalDoor& door = *each;
      for (int64_t i = 0; i < door.lanes_.size(); ++i)
        owner[static_cast<size_t>(door.lanes_[i])] = door.index_;
      if (!lives(door)) continue;
      for (StreamId id = 0; id < door.stream_count(); ++id) {
        const Stream& stream = door.at(id);
        if (stream.stuck()) continue;  // that it was found wrong is told
        if (stream.flying != nullptr) {
          for (const Party& party : stream.flying->parties)
            if (party.open > 0) add_call(door, id, party);
        } else if (stream.has_items()) {
          add_wait(door, id);
        }
      }
    }
  }

  // The stream on which `rank` has issued what `waiting` needs, behind something else; -1: it has
  // not.
  StreamId queued_on(LocalDoor& door, int32_t rank, const Party& waiting) {
    for (StreamId id = 0; id < door.stream_count(); ++id)
      for (const StreamItem& item : door.at(id).items()) {
        Flight* const* flight = std::get_if<Flight*>(&item.what);
        if (flight == nullptr) continue;
        for (const Party& party : (*flight)->parties)
          if (world.gate_.answers(party, rank, waiting)) return id;
      }
    return -1;
  }

  void hold(Awaiting& awaiting, int32_t cohort, StreamId stream) {
    const auto found = heads.find({cohort, stream});
    if (found == heads.end()) return;
    awaiting.holders.insert(awaiting.holders.end(), found->second.begin(), found->second.end());
  }

  // The streams whose end the host waits for; all of them where it has not said which.
  void hold_by_host(Awaiting& awaiting, int32_t rank, LocalDoor& door) {
    const size_t before = awaiting.holders.size();
    bool known = false;
    for (const Ticket ticket : door.host_waits_) {
      if (world.book_.state(ticket) == TicketState::done) continue;
      const TicketBook::Place place = world.book_.place(ticket);
      hold(awaiting, place.cohort, place.stream);
      known = true;
    }
    for (StreamId id = 0; !known && id < door.stream_count(); ++id) hold(awaiting, door.index_, id);
    const bool told = door.is_stuck() || wrong.contains(rank);
    if (awaiting.holders.size() == before && !told) miss(awaiting, rank, "has stopped");
  }

  void miss(Awaiting& awaiting, int32_t rank, const char* reason) {
    awaiting.missing.push_back(rank);
    still.gone.emplace(rank, reason);
  }

  void trace(Awaiting& awaiting, int32_t rank, const Party& waiting) {
    const int32_t cohort = owner[static_cast<size_t>(rank)];
    if (cohort < 0) return miss(awaiting, rank, "was never started");
    LocalDoor& door = world.door(cohort);
    if (lives(door)) {
      awaiting.left_out.push_back(rank);  // it may be: see keep_left_out
      if (const StreamId stream = queued_on(door, rank, waiting); stream >= 0)
        return hold(awaiting, cohort, stream);
      if (!door.finished_) return hold_by_host(awaiting, rank, door);
      awaiting.left_out.pop_back();
    }
    // Of a rank with a call that was found wrong nothing else is told: what it lacks may follow.
    if (door.is_stuck() || wrong.contains(rank)) return;
    if (door.state_ == CohortState::hung) return miss(awaiting, rank, "hangs");
    if (door.state_ == CohortState::dead) return miss(awaiting, rank, "has died");
    miss(awaiting, rank, "has ended");
  }

  // Of the ranks that may still make the call, keeps those that do not, by their program.
  void keep_left_out(Awaiting& awaiting, const Party& waiting) {
    const std::vector<int32_t> may_come = std::exchange(awaiting.left_out, {});
    const Lanes& lanes = waiting.call.lanes;
    if (!world.planned_ || may_come.empty()) return;
    if (!planned) planned = world.planned_();
    const Collective& call = waiting.call.collective;
    std::vector<int32_t> waiters;
    if (is_point_to_point(call.kind)) {
      for (int64_t i = 0; i < lanes.size(); ++i) waiters.push_back(lanes[i]);
    } else {
      for (const int32_t member : call.group.members(call.group.sibling_of(may_come.front())))
        if (!std::binary_search(awaiting.ranks.begin(), awaiting.ranks.end(), member))
          waiters.push_back(member);
    }
    awaiting.left_out = planned->lacking(may_come, waiters, call);
  }

  void connect(size_t index) {
    const Party* party = parties[index];
    if (party == nullptr) return connect_wait(index);
    const Gate::Awaited need = world.gate_.awaited(*party);
    if (need.explained) return;
    const bool collective = !is_point_to_point(party->call.collective.kind);
    if (collective) {
      const auto [at, fresh] = known.emplace(std::pair(need.group, need.call),
                                             static_cast<int32_t>(still.awaiting.size()));
      still.blocked[index].awaiting = at->second;
      if (!fresh) return;
    }
    still.blocked[index].awaiting = static_cast<int32_t>(still.awaiting.size());
    Awaiting awaiting;
    awaiting.group = need.group;
    awaiting.call = need.call;
    awaiting.what = need.what;
    awaiting.ranks = need.ranks;
    for (int32_t rank : need.ranks) trace(awaiting, rank, *party);
    keep_left_out(awaiting, *party);
    std::sort(awaiting.holders.begin(), awaiting.holders.end());
    awaiting.holders.erase(std::unique(awaiting.holders.begin(), awaiting.holders.end()),
                           awaiting.holders.end());
    still.awaiting.push_back(std::move(awaiting));
  }

  // A stream that waits for a ticket is held by the stream the ticket stands for.
  void connect_wait(size_t index) {
    const int32_t cohort = owner[static_cast<size_t>(still.blocked[index].ranks[0])];
    LocalDoor& door = world.door(cohort);
    for (StreamId id = 0; id < door.stream_count(); ++id) {
      Stream& stream = door.at(id);
      if (!stream.has_items() || still.blocked[index].text != "wait on stream " + stream.name)
        continue;
      const Ticket* ticket = std::get_if<Ticket>(&stream.front().what);
      if (ticket == nullptr) return;
      const TicketBook::Place place = world.book_.place(*ticket);
      Awaiting awaiting;
      hold(awaiting, place.cohort, place.stream);
      still.blocked[index].awaiting = static_cast<int32_t>(still.awaiting.size());
      still.awaiting.push_back(std::move(awaiting));
      return;
    }
  }

  std::vector<Finding> run() {
    still.world = world.ranks_;
    collect();
    for (const Party* party : parties)
      if (party != nullptr && world.gate_.awaited(*party).explained)
        for (int64_t i = 0; i < party->call.lanes.size(); ++i) wrong.insert(party->call.lanes[i]);
    for (size_t i = 0; i < still.blocked.size(); ++i) connect(i);
    return explain(still);
  }
};

std::vector<Finding> LocalWorld::explain_standstill() {
  return StandstillSurvey{*this, {}, {}, {}, {}, {}, {}, {}}.run();
}

}  // namespace shardproof
