// Implements the receiving part of coordinator_world.h: every message of a worker becomes a call of
// the same function on the local world's context. Tickets are translated: each worker numbers its
// own, the local world numbers them again.
#include "shardproof/backends/remote/coordinator/coordinator_world.h"

namespace shardproof {

namespace {

// Reads lanes and throws Error(io) if they are not ranks of the sender.
Lanes known_lanes(WireReader& in, const Lanes& own) {
  Lanes lanes = read_lanes(in);
  if (!own.contains(lanes))
    throw Error(ErrorKind::io, "a process sent a message about ranks of another process");
  return lanes;
}

}  // namespace

Ticket& CoordinatorWorld::ticket_of(int process, Ticket ticket) {
  std::vector<Ticket>& tickets = hosts_[static_cast<size_t>(process)].tickets;
  const size_t at = static_cast<size_t>(ticket);
  if (tickets.size() <= at) tickets.resize(at + 1, kDone);
  return tickets[at];
}

void CoordinatorWorld::link_tickets(int process, Ticket own, Ticket theirs) {
  ticket_of(process, theirs) = own;
  const size_t at = static_cast<size_t>(own);
  if (origins_.size() <= at) origins_.resize(at + 1);
  origins_[at] = {process, theirs};
}

void CoordinatorWorld::handle_message(int process, WireReader& in) {
  Host& host = hosts_[static_cast<size_t>(process)];
  moved_ = pool_.now();
  const WorkerMessage kind = static_cast<WorkerMessage>(in.number());
  switch (kind) {
    case WorkerMessage::want: {
      const WorldOptions wanted = read_options(in);
      if (wanted.ranks != options_.ranks || wanted.faults != options_.faults)
        throw Error(ErrorKind::io,
                    fmt::format("process {} runs another scenario than process 0", process));
      return;
    }
    case WorkerMessage::open: {
      const int64_t index = in.number();
      if (index != static_cast<int64_t>(host.contexts.size()))
        throw Error(ErrorKind::io, "a process opens its cohorts out of order");
      host.contexts.push_back(&local_world_->open(known_lanes(in, blocks_.of(process))));
      return;
    }
    case WorkerMessage::value: return handle_value(ValueEvent::made, in);
    case WorkerMessage::final_value: return handle_value(ValueEvent::at_end, in);
    case WorkerMessage::measured: return handle_measured(process, in);
    case WorkerMessage::repeated:
      repeated_.emplace_back(process, read_benchmark_result(in));
      return;
    case WorkerMessage::window: pool_.window_words = in.text(); return;
    case WorkerMessage::idle:
    case WorkerMessage::at:
    case WorkerMessage::conclude:
    case WorkerMessage::close: return handle_progress(kind, process, in);
    case WorkerMessage::case_done:
      throw Error(ErrorKind::io,
                  fmt::format("process {} left the case before its end: {}", process, in.text()));
    default:
      if (host.phase == Phase::idle) host.phase = Phase::running;
      handle_context_message(kind, process, in);
  }
}

void CoordinatorWorld::handle_value(ValueEvent kind, WireReader& in) {
  const int64_t value = in.number();
  if (reader_) reader_(kind, value, read_tensor(in));
}

// The i-th list of each process is of the same repetition.
void CoordinatorWorld::handle_measured(int process, WireReader& in) {
  const size_t list = hosts_[static_cast<size_t>(process)].published++;
  if (measured_.size() <= list) measured_.resize(list + 1);
  for (int64_t count = in.number(); count > 0; --count)
    measured_[list].push_back(parse_record(in.text()));
}

// Handles messages about how many commands have ended and whether the hosts can continue.
void CoordinatorWorld::handle_progress(WorkerMessage kind, int process, WireReader& in) {
  Host& host = hosts_[static_cast<size_t>(process)];
  pool_.members()[static_cast<size_t>(process)].executed = in.number();
  if (kind == WorkerMessage::close) host.phase = Phase::closing;
  if (kind == WorkerMessage::idle && host.phase == Phase::running) host.phase = Phase::idle;
  if (kind == WorkerMessage::at && host.phase == Phase::idle) host.phase = Phase::running;
  if (kind != WorkerMessage::conclude) return;
  conclusions_.emplace_back(process, read_conclusion(in));
  host.phase = Phase::concluding;
}

void CoordinatorWorld::handle_context_message(WorkerMessage kind, int process, WireReader& in) {
  ExecutionContext& context =
      *hosts_[static_cast<size_t>(process)].contexts.at(static_cast<size_t>(in.number()));
  switch (kind) {
    case WorkerMessage::stream: context.stream(in.text()); return;
    case WorkerMessage::submit: return handle_submit(process, context, in);
    case WorkerMessage::launch: return handle_launch(process, context, in);
    case WorkerMessage::allocate:
    case WorkerMessage::release: {
      Allocation allocation;
      allocation.lanes = known_lanes(in, blocks_.of(process));
      allocation.bytes = in.number();
      allocation.category = static_cast<int>(in.number());
      if (kind == WorkerMessage::allocate) return context.allocate(allocation);
      return context.release(allocation);
    }
    case WorkerMessage::order: {
      const StreamId stream = static_cast<StreamId>(in.number());
      groups_.wait(&context, stream);
      return context.order(stream, ticket_of(process, in.number()));
    }
    case WorkerMessage::host_wait: return context.host_wait(ticket_of(process, in.number()));
    case WorkerMessage::elapse: return context.elapse(Duration{in.number()});
    case WorkerMessage::stop: return context.stop(static_cast<CohortState>(in.number()));
    case WorkerMessage::finish: return context.finish();
    default: throw Error(ErrorKind::io, "a process sent a message of unknown kind");
  }
}

void CoordinatorWorld::handle_submit(int process, ExecutionContext& context, WireReader& in) {
  const StreamId stream = static_cast<StreamId>(in.number());
  const Ticket theirs = in.number();
  std::deque<LocalTensor> tensors;
  std::vector<Call> calls;
  for (int64_t count = in.number(); count > 0; --count)
    calls.push_back(read_call(in, hosts_[static_cast<size_t>(process)].dictionary, tensors));
  int64_t parts = 0;
  for (const Call& call : calls)
    parts += call.lanes.intersect(call.collective.group.lanes()).size();
  const Ticket own = context.submit(calls, stream);
  link_tickets(process, own, theirs);
  groups_.issue(&context, stream, own, parts);
  open_.emplace_back(own, &context);
}

// Work runs in the worker. If the schedule is not fifo, the local world decides when it
// runs; its body then sends the command to run it.
void CoordinatorWorld::handle_launch(int process, ExecutionContext& context, WireReader& in) {
  Work work;
  work.stream = static_cast<StreamId>(in.number());
  const Ticket theirs = in.number();
  work.lanes = known_lanes(in, blocks_.of(process));
  work.flops = in.real();
  work.bytes = in.real();
  WireDictionary& dictionary = hosts_[static_cast<size_t>(process)].dictionary;
  work.name = dictionary.read_text(in);
  work.site.line = static_cast<int>(in.number());
  work.site.instance = dictionary.read_text(in);
  if (options_.schedule.kind != ScheduleKind::fifo)
    work.body = [this, process, theirs] {
      MatchedCall& event = events_.emplace_back();
      event.kind = CoordinatorCommand::run;
      event.process = process;
      event.work = theirs;
    };
  const Ticket own = context.launch(std::move(work));
  if (own != kDone)
    link_tickets(process, own, theirs);
  else
    ticket_of(process, theirs) = kDone;
}

}  // namespace shardproof
