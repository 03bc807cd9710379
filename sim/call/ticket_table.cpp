// Implements ticket_table.h. Tickets index a vector; times of lanes that differ are kept apart.
#include <utility>

#include "shardproof/sim/call/ticket_table.h"

namespace shardproof {

Ticket TicketTable::open(Place place) {
  entries_.emplace_back().place = place;
  return static_cast<Ticket>(entries_.size());
}

void TicketTable::end(Ticket ticket, TicketState state) {
  if (ticket == kDone) return;
  Entry& entry = entries_[index(ticket)];
  entry.state = state;
  if (ended_) ended_->push_back(entry.place.cohort);
  if (!entry.awaited) return;
  entry.awaited = false;
  const auto waiters = waiters_.find(ticket);
  woken_.insert(woken_.end(), waiters->second.begin(), waiters->second.end());
  waiters_.erase(waiters);
}

void TicketTable::end(Ticket ticket, TicketState state, const LaneTimes& start,
                      const LaneTimes& finish) {
  if (ticket == kDone) return;
  Entry& entry = entries_[index(ticket)];
  if (start.uniform() && finish.uniform()) {
    entry.start = start[0];
    entry.end = finish[0];
  } else {
    entry.spread = static_cast<int32_t>(spread_.size());
    spread_.push_back({start, finish, TimedBy::world, {}});
  }
  end(ticket, state);
}

std::optional<TicketTimes> TicketTable::times(Ticket ticket) const {
  if (ticket == kDone) return std::nullopt;
  const Entry& entry = entries_[index(ticket)];
  if (entry.state == TicketState::pending) return std::nullopt;
  if (entry.spread >= 0) return spread_[static_cast<size_t>(entry.spread)];
  return TicketTimes{LaneTimes(entry.start), LaneTimes(entry.end), TimedBy::world, {}};
}

void TicketTable::raise(LaneTimes& times, Ticket ticket) const {
  if (ticket == kDone) return;
  const Entry& entry = entries_[index(ticket)];
  if (entry.spread >= 0) {
    times.raise_to(spread_[static_cast<size_t>(entry.spread)].end);
  } else {
    times.for_each([&](Duration& time) { time = std::max(time, entry.end); });
  }
}

std::optional<std::vector<int32_t>> TicketTable::collect_ended_cohorts() {
  return std::exchange(ended_, std::vector<int32_t>{});
}

void TicketTable::wait(Ticket ticket, Place place) {
  entries_[index(ticket)].awaited = true;
  waiters_[ticket].push_back(place);
}

}  // namespace shardproof
