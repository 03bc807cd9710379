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
  if (index(ticket) >= times_.size()) times_.resize(entries_.size());
  Times& times = times_[index(ticket)];
  if (start.uniform() && finish.uniform()) {
    times.start = start[0];
    times.end = finish[0];
  } else {
    times.spread = static_cast<int32_t>(spread_.size());
    spread_.push_back({start, finish, TimedBy::world, {}});
  }
  end(ticket, state);
}

std::optional<TicketTimes> TicketTable::times(Ticket ticket) const {
  if (ticket == kDone) return std::nullopt;
  if (entries_[index(ticket)].state == TicketState::pending) return std::nullopt;
  const Times& times = times_of(ticket);
  if (times.spread >= 0) return spread_[static_cast<size_t>(times.spread)];
  return TicketTimes{LaneTimes(times.start), LaneTimes(times.end), TimedBy::world, {}};
}

void TicketTable::raise(LaneTimes& times, Ticket ticket) const {
  if (ticket == kDone) return;
  const Times& ended = times_of(ticket);
  if (ended.spread >= 0) {
    times.raise_to(spread_[static_cast<size_t>(ended.spread)].end);
  } else {
    times.for_each([&](Duration& time) { time = std::max(time, ended.end); });
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
