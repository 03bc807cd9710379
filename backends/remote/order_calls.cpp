// What the gate lets through becomes orders to those who are in it.
#include "shardproof/backends/remote/detail/judging_world.h"
#include "shardproof/sim/deliver.h"
#include "shardproof/sim/mismatch.h"

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
  while (!events_.empty()) {
    const auto event = std::make_shared<const GateEvent>(std::move(events_.front()));
    events_.pop_front();
    send_event(event);
  }
}

void JudgingWorld::send_event(const std::shared_ptr<const GateEvent>& event) {
  switch (event->kind) {
    case Order::run: {
      WireWriter message;
      message.add(static_cast<int64_t>(Order::run));
      message.add(event->work);
      return order(event->process, message, event);
    }
    case Order::meet: form_teams(*event); return send_parts(event);
    case Order::end_part: return send_parts(event);
    default: return send_message(event);
  }
}

// To each process the parts that lie there.
void JudgingWorld::send_parts(const std::shared_ptr<const GateEvent>& event) {
  std::map<int, std::vector<const EventPart*>> by_process;
  for (const EventPart& part : event->parts)
    by_process[blocks_.process_of(part.rank)].push_back(&part);
  for (const auto& [process, parts] : by_process) {
    WireWriter message;
    message.add(static_cast<int64_t>(event->kind));
    if (event->kind == Order::meet) message.add(static_cast<int64_t>(parts.size()));
    for (const EventPart* part : parts) {
      message.add(origins_[static_cast<size_t>(part->ticket)].ticket);
      message.add(part->party);
      message.add(part->lane);
    }
    order(process, message, event);
  }
}

// A send and its receive, or a put and its target: to both ends, or once when they are one process.
void JudgingWorld::send_message(const std::shared_ptr<const GateEvent>& event) {
  const bool puts = event->kind == Order::put;
  const int from = blocks_.process_of(event->parts[0].rank);
  const int to = blocks_.process_of(puts ? event->target : event->parts[1].rank);
  const int64_t number = ++numbers_;
  for (const int process : {from, to}) {
    WireWriter message;
    message.add(static_cast<int64_t>(event->kind));
    message.add(number);
    message.add(int64_t{process == from ? to : from});
    for (size_t end = 0; end < event->parts.size(); ++end) {
      const bool here = process == (end == 0 ? from : to);
      message.add(int64_t{here});
      if (!here) continue;
      const EventPart& part = event->parts[end];
      message.add(origins_[static_cast<size_t>(part.ticket)].ticket);
      message.add(part.party);
      message.add(part.lane);
    }
    if (puts) {
      message.add(int64_t{process == to});
      message.add(int64_t{event->target});
      message.add(event->collective.slot);
      message.add(event->bytes);
    }
    order(process, message, event);
    if (from == to) return;
  }
}

}  // namespace shardproof
