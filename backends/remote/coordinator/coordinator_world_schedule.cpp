// Implements the sending part of coordinator_world.h: calls that the call matcher completes become
// commands to the workers whose ranks take part.
#include <algorithm>

#include "shardproof/backends/remote/coordinator/coordinator_world.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {
namespace {

MatchedCallPart part_of(const SubmittedCall& submitted, int64_t lane) {
  MatchedCallPart part;
  part.ticket = submitted.submission->ticket;
  part.submitted = &submitted - submitted.submission->calls.data();
  part.lane = lane;
  part.rank = submitted.lanes[lane];
  part.alone = submitted.submission->calls.size() == 1;
  part.site = submitted.terms->site;
  return part;
}

void describe(MatchedCall& event, const SubmittedCall& submitted, int64_t lane) {
  const Collective& c = submitted.terms->collective;
  event.collective.kind = c.kind;
  event.collective.group = c.group;
  event.collective.slot = c.slot;
  event.text = call_text(*submitted.terms);
  event.call = submitted.number[lane];
}

// True for the collectives of sibling groups that ranks of one process make by one call, unless the
// program groups it with others.
bool are_siblings(const std::vector<std::shared_ptr<const MatchedCall>>& events) {
  return std::all_of(events.begin(), events.end(), [](const auto& event) {
    return event->kind == CoordinatorCommand::collective &&
           std::all_of(event->parts.begin(), event->parts.end(),
                       [](const MatchedCallPart& part) { return part.alone; });
  });
}

}  // namespace

void CoordinatorWorld::on_collective(const CollectiveInstance& instance) {
  MatchedCall& event = events_.emplace_back();
  event.kind = CoordinatorCommand::collective;
  describe(event, *instance.arrivals.front().submitted, instance.arrivals.front().lane);
  for (const Arrival& arrival : instance.arrivals)
    event.parts.push_back(part_of(*arrival.submitted, arrival.lane));
}

void CoordinatorWorld::on_send_recv(const Channel::End& sender, const Channel::End& receiver) {
  MatchedCall& event = events_.emplace_back();
  event.kind = CoordinatorCommand::message;
  describe(event, *receiver.submitted, receiver.lane);
  event.parts = {part_of(*sender.submitted, sender.lane),
                 part_of(*receiver.submitted, receiver.lane)};
}

void CoordinatorWorld::on_one_sided(const SubmittedCall& submitted, int64_t lane, int32_t peer) {
  MatchedCall& event = events_.emplace_back();
  const bool puts = submitted.terms->collective.kind == CollectiveKind::put;
  event.kind = puts ? CoordinatorCommand::put : CoordinatorCommand::end_part;
  describe(event, submitted, lane);
  event.parts = {part_of(submitted, lane)};
  event.target = peer;
  if (puts) event.bytes = input_bytes(submitted, submitted.lanes[lane]);
}

void CoordinatorWorld::send_command(int process, const WireWriter& message,
                                    std::shared_ptr<const MatchedCall> event) {
  Host& host = hosts_[static_cast<size_t>(process)];
  ++host.sent;
  if (options_.repeats) host.sequence.push_back(event);
  host.under_way.push_back(std::move(event));
  pool_.send(process, message);
}

void CoordinatorWorld::send_events() {
  // With other schedules, deferred work has its turn between calls: no call is held back then.
  const bool puts_off = options_.schedule.kind == ScheduleKind::fifo;
  while (!events_.empty()) {
    const auto event = std::make_shared<const MatchedCall>(std::move(events_.front()));
    events_.pop_front();
    if (puts_off)
      groups_.add(event);
    else
      send_event(event);
  }
  for (auto events = groups_.remove_whole(); !events.empty(); events = groups_.remove_whole())
    send_together(events);
}

bool CoordinatorWorld::send_pending_groups() {
  const PendingGroups::Together events = groups_.remove_all();
  for (const auto& event : events) send_event(event);
  return !events.empty();
}

void CoordinatorWorld::send_event(const std::shared_ptr<const MatchedCall>& event) {
  if (event->kind == CoordinatorCommand::collective) make_communicators(*event);
  for (const auto& [process, message] : commands_of(*event)) send_command(process, message, event);
}

void CoordinatorWorld::send_together(const PendingGroups::Together& events) {
  if (events.size() == 1) return send_event(events.front());
  std::map<int, std::vector<WireWriter>> parts;
  for (const auto& event : events) {
    if (event->kind == CoordinatorCommand::collective) make_communicators(*event);
    for (auto& [process, message] : commands_of(*event))
      parts[process].push_back(std::move(message));
  }
  const auto group = std::make_shared<MatchedCall>();
  group->kind = CoordinatorCommand::group;
  group->together = events;
  for (const auto& [process, messages] : parts) {
    WireWriter message = message_of(CoordinatorCommand::group);
    message.add(int64_t{are_siblings(events)});
    message.add(static_cast<int64_t>(messages.size()));
    for (const WireWriter& part : messages) message.add(std::string_view(part.bytes()));
    send_command(process, message, group);
  }
}

CoordinatorWorld::Commands CoordinatorWorld::commands_of(const MatchedCall& event) {
  switch (event.kind) {
    case CoordinatorCommand::run: {
      Commands commands;
      commands[event.process].add(static_cast<int64_t>(CoordinatorCommand::run));
      commands[event.process].add(event.work);
      return commands;
    }
    case CoordinatorCommand::collective:
    case CoordinatorCommand::end_part: return commands_to_parts(event);
    default: return commands_to_ends(event);
  }
}

// Sends each process its parts.
CoordinatorWorld::Commands CoordinatorWorld::commands_to_parts(const MatchedCall& event) {
  std::map<int, std::vector<const MatchedCallPart*>> by_process;
  for (const MatchedCallPart& part : event.parts)
    by_process[blocks_.process_of(part.rank)].push_back(&part);
  Commands commands;
  for (const auto& [process, parts] : by_process) {
    WireWriter& message = commands[process];
    message.add(static_cast<int64_t>(event.kind));
    if (event.kind == CoordinatorCommand::collective)
      message.add(static_cast<int64_t>(parts.size()));
    for (const MatchedCallPart* part : parts) {
      message.add(origins_[static_cast<size_t>(part->ticket)].ticket);
      message.add(part->submitted);
      message.add(part->lane);
    }
  }
  return commands;
}

// A message or a put: sends both ends, or one command if both lie in one process.
CoordinatorWorld::Commands CoordinatorWorld::commands_to_ends(const MatchedCall& event) {
  const bool puts = event.kind == CoordinatorCommand::put;
  const int32_t source = event.parts[0].rank, sink = puts ? event.target : event.parts[1].rank;
  const int from = blocks_.process_of(source), to = blocks_.process_of(sink);
  const int64_t number = ++numbers_;
  const bool travels = blocks_.endpoint_of(source) != blocks_.endpoint_of(sink);
  const int64_t offset = puts && travels ? window_offset(event) : -1;
  Commands commands;
  for (const int process : {from, to}) {
    WireWriter& message = commands[process];
    message = {};
    message.add(static_cast<int64_t>(event.kind));
    message.add(number);
    message.add(int64_t{blocks_.endpoint_of(process == to ? source : sink)});
    for (size_t end = 0; end < event.parts.size(); ++end) {
      const bool here = process == (end == 0 ? from : to);
      message.add(int64_t{here});
      if (!here) continue;
      const MatchedCallPart& part = event.parts[end];
      message.add(origins_[static_cast<size_t>(part.ticket)].ticket);
      message.add(part.submitted);
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
  return commands;
}

}  // namespace shardproof
