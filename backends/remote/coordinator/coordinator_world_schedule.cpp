// What the gate lets through becomes orders to those who are in it.
#include "shardproof/backends/remote/coordinator/coordinator_world.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {
namespace {

EventPart part_of(const Party& party, int64_t lane) {
  EventPart part;
  part.ticket = party.flight->ticket;
  part.party = &party - party.flight->parties.data();
  part.lane = lane;
  part.rank = party.call.lanes[lane];
  part.site = party.call.site;
  return part;
}

void describe(GateEvent& event, const Party& party, int64_t lane) {
  const Collective& c = party.call.collective;
  event.collective.kind = c.kind;
  event.collective.group = c.group;
  event.collective.slot = c.slot;
  event.text = call_text(party.call);
  event.call = party.number[lane];
}

}  // namespace

void JudgingWorld::met(const Meeting& meeting) {
  GateEvent& event = events_.emplace_back();
  event.kind = Order::meet;
  describe(event, *meeting.arrivals.front().party, meeting.arrivals.front().lane);
  for (const Arrival& arrival : meeting.arrivals)
    event.parts.push_back(part_of(*arrival.party, arrival.lane));
}

void JudgingWorld::paired(const Channel::End& sender, const Channel::End& receiver) {
  GateEvent& event = events_.emplace_back();
  event.kind = Order::pair;
  describe(event, *receiver.party, receiver.lane);
  event.parts = {part_of(*sender.party, sender.lane), part_of(*receiver.party, receiver.lane)};
}

void JudgingWorld::acted(const Party& party, int64_t lane, int32_t peer) {
  GateEvent& event = events_.emplace_back();
  const bool puts = party.call.collective.kind == CollectiveKind::put;
  event.kind = puts ? Order::put : Order::end_part;
  describe(event, party, lane);
  event.parts = {part_of(party, lane)};
  event.target = peer;
  if (puts) event.bytes = brought_bytes(party, party.call.lanes[lane]);
}

void JudgingWorld::order(int process, const WireWriter& message,
                         std::shared_ptr<const GateEvent> event) {
  Host& host = hosts_[static_cast<size_t>(process)];
  ++host.sent;
  host.under_way.push_back(std::move(event));
  crew_.send(process, message);
}

void JudgingWorld::send_events() {
  // Work in between has its turn among the calls: where the schedule says when, nothing is put off.
  const bool puts_off = options_.schedule.kind == ScheduleKind::fifo;
  while (!events_.empty()) {
    const auto event = std::make_shared<const GateEvent>(std::move(events_.front()));
    events_.pop_front();
    if (puts_off)
      groups_.add(event);
    else
      send_event(event);
  }
  for (auto events = groups_.take_whole(); !events.empty(); events = groups_.take_whole())
    send_together(events);
}

bool JudgingWorld::break_groups() {
  const GroupBook::Together events = groups_.take_all();
  for (const auto& event : events) send_event(event);
  return !events.empty();
}

void JudgingWorld::send_event(const std::shared_ptr<const GateEvent>& event) {
  if (event->kind == Order::meet) form_teams(*event);
  for (const auto& [process, message] : orders_of(*event)) order(process, message, event);
}

void JudgingWorld::send_together(const GroupBook::Together& events) {
  if (events.size() == 1) return send_event(events.front());
  std::map<int, std::vector<WireWriter>> parts;
  for (const auto& event : events) {
    if (event->kind == Order::meet) form_teams(*event);
    for (auto& [process, message] : orders_of(*event)) parts[process].push_back(std::move(message));
  }
  const auto group = std::make_shared<GateEvent>();
  group->kind = Order::group;
  group->together = events;
  for (const auto& [process, messages] : parts) {
    WireWriter message;
    message.add(static_cast<int64_t>(Order::group));
    message.add(static_cast<int64_t>(messages.size()));
    for (const WireWriter& part : messages) message.add(std::string_view(part.bytes()));
    order(process, message, group);
  }
}

JudgingWorld::Orders JudgingWorld::orders_of(const GateEvent& event) {
  switch (event.kind) {
    case Order::run: {
      Orders orders;
      orders[event.process].add(static_cast<int64_t>(Order::run));
      orders[event.process].add(event.work);
      return orders;
    }
    case Order::meet:
    case Order::end_part: return orders_to_parts(event);
    default: return orders_to_ends(event);
  }
}

// To each process the parts that lie there.
JudgingWorld::Orders JudgingWorld::orders_to_parts(const GateEvent& event) {
  std::map<int, std::vector<const EventPart*>> by_process;
  for (const EventPart& part : event.parts)
    by_process[blocks_.process_of(part.rank)].push_back(&part);
  Orders orders;
  for (const auto& [process, parts] : by_process) {
    WireWriter& message = orders[process];
    message.add(static_cast<int64_t>(event.kind));
    if (event.kind == Order::meet) message.add(static_cast<int64_t>(parts.size()));
    for (const EventPart* part : parts) {
      message.add(origins_[static_cast<size_t>(part->ticket)].ticket);
      message.add(part->party);
      message.add(part->lane);
    }
  }
  return orders;
}

// A send and its receive, or a put and its target: to both ends, or once when they are one process.
JudgingWorld::Orders JudgingWorld::orders_to_ends(const GateEvent& event) {
  const bool puts = event.kind == Order::put;
  const int32_t source = event.parts[0].rank, sink = puts ? event.target : event.parts[1].rank;
  const int from = blocks_.process_of(source), to = blocks_.process_of(sink);
  const int64_t number = ++numbers_;
  const bool travels = blocks_.endpoint_of(source) != blocks_.endpoint_of(sink);
  const int64_t offset = puts && travels ? window_offset(event) : -1;
  Orders orders;
  for (const int process : {from, to}) {
    WireWriter& message = orders[process];
    message = {};
    message.add(static_cast<int64_t>(event.kind));
    message.add(number);
    message.add(int64_t{blocks_.endpoint_of(process == to ? source : sink)});
    for (size_t end = 0; end < event.parts.size(); ++end) {
      const bool here = process == (end == 0 ? from : to);
      message.add(int64_t{here});
      if (!here) continue;
      const EventPart& part = event.parts[end];
      message.add(origins_[static_cast<size_t>(part.ticket)].ticket);
      message.add(part.party);
      message.add(part.lane);
    }
    if (puts) {
      message.add(int64_t{process == to});
      message.add(int64_t{event.target});
      message.add(event.collective.slot);
      message.add(event.bytes);
      message.add(offset);
    }
  }
  return orders;
}

}  // namespace shardproof
