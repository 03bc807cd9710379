// TicketTable: state and times of every ticket of a world, and the streams that wait for one. Times
// are virtual, in integer picoseconds for each lane and stream, and only ever raised. Not
// thread-safe. Constant time for each operation.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/sim/call/call.h"
#include "shardproof/sim/call/ticket_times.h"

namespace shardproof {

// Tickets count from 1; kDone (0) is always done.
class TicketTable {
 public:
  // The stream of the cohort on which a ticket was issued.
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
  // Returns nullopt before the ticket has ended, or without a clock.
  std::optional<TicketTimes> times(Ticket ticket) const;
  void raise(LaneTimes& times, Ticket ticket) const;  // raises `times` to the ticket's end
  // Adds `place` to woken() when the ticket ends.
  void wait(Ticket ticket, Place place);
  std::vector<Place>& woken() { return woken_; }
  // Returns the cohorts of tickets that have ended since the last call. The first call returns
  // nullopt and starts the recording.
  std::optional<std::vector<int32_t>> collect_ended_cohorts();

 private:
  struct Entry {
    TicketState state = TicketState::pending;
    bool awaited = false;
    Place place;
  };
  struct Times {
    Duration start, end;
    int32_t spread = -1;  // index into spread_ if lanes have different times; else -1
  };
  static size_t index(Ticket ticket) { return static_cast<size_t>(ticket - 1); }
  const Times& times_of(Ticket ticket) const {
    static constexpr Times kNone;
    return index(ticket) < times_.size() ? times_[index(ticket)] : kNone;
  }

  PooledDeque<Entry> entries_;
  PooledDeque<Times> times_;  // as far as tickets have ended with times
  std::deque<TicketTimes> spread_;
  std::unordered_map<Ticket, std::vector<Place>> waiters_;  // never iterated: unordered
  std::vector<Place> woken_;
  std::optional<std::vector<int32_t>> ended_;
};

}  // namespace shardproof
