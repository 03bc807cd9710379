// The virtual clock: integer picoseconds per lane and stream, and what each ticket remembers of it.
// Time never runs backwards: a stream's time is only ever raised.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/sim/call/call.h"
#include "shardproof/sim/call/ticket_times.h"

namespace shardproof {

// State and times of every ticket of a world, and who waits for one.
class TicketTable {
 public:
  // Which stream of which cohort a ticket stands for.
  struct Place {
    int32_t cohort = 0;
    StreamId stream = 0;
  };

  Ticket open(Place place);
  TicketState state(Ticket ticket) const {
    return ticket == kDone ? TicketState::done : entries_[index(ticket)].state;
  }
  Place place(Ticket ticket) const { return entries_[index(ticket)].place; }
  void end(Ticket ticket, TicketState state);
  void end(Ticket ticket, TicketState state, const LaneTimes& start, const LaneTimes& finish);
  // Nothing while the ticket has not ended, or without a clock.
  std::optional<TicketTimes> times(Ticket ticket) const;
  void raise(LaneTimes& times, Ticket ticket) const;  // to the ticket's end
  // The next end of `ticket` puts `place` into `woken`.
  void wait(Ticket ticket, Place place);
  std::vector<Place>& woken() { return woken_; }
  // Cohorts for which a ticket has ended since the last call, each time anew. Kept from the first
  // call on, which gives nothing.
  std::optional<std::vector<int32_t>> take_ended();

 private:
  struct Entry {
    TicketState state = TicketState::pending;
    bool awaited = false;
    Place place;
    int32_t spread = -1;  // index into spread_ when lanes differ
    Duration start, end;
  };
  static size_t index(Ticket ticket) { return static_cast<size_t>(ticket - 1); }

  PooledDeque<Entry> entries_;
  std::deque<TicketTimes> spread_;
  std::unordered_map<Ticket, std::vector<Place>> waiters_;  // looked up, never walked
  std::vector<Place> woken_;
  std::optional<std::vector<int32_t>> ended_;
};

}  // namespace shardproof
