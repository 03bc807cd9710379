// What hosts announce is done at the physics' doors in their place.
#include "shardproof/backends/remote/coordinator/coordinator_world.h"

namespace shardproof {

namespace {

// The sizes that an announcement holds may be anything when a process writes nonsense.
Lanes known_lanes(WireReader& in, const Lanes& own) {
  Lanes lanes = read_lanes(in);
  if (!own.contains(lanes)) throw Error(ErrorKind::io, "a process speaks for ranks of another");
  return lanes;
}

}  // namespace

Ticket& JudgingWorld::ticket_of(int process, Ticket ticket) {
  std::vector<Ticket>& tickets = hosts_[static_cast<size_t>(process)].tickets;
  const size_t at = static_cast<size_t>(ticket);
  if (tickets.size() <= at) tickets.resize(at + 1, kDone);
  return tickets[at];
}

void JudgingWorld::remember(int process, Ticket own, Ticket theirs) {
  ticket_of(process, theirs) = own;
  const size_t at = static_cast<size_t>(own);
  if (origins_.size() <= at) origins_.resize(at + 1);
  origins_[at] = {process, theirs};
}

void JudgingWorld::hear(int process, WireReader& in) {
  Host& host = hosts_[static_cast<size_t>(process)];
  moved_ = crew_.now();
  const Announce kind = static_cast<Announce>(in.number());
  switch (kind) {
    case Announce::want: {
      const WorldOptions wanted = read_options(in);
      if (wanted.ranks != options_.ranks || wanted.faults != options_.faults)
        throw Error(ErrorKind::io, fmt::format("process {} reads another scenario", process));
      return;
    }
    case Announce::open: {
      const int64_t index = in.number();
      if (index != static_cast<int64_t>(host.doors.size()))
        throw Error(ErrorKind::io, "a process opens its cohorts out of order");
      host.doors.push_back(&physics_->open(known_lanes(in, blocks_.of(process))));
      return;
    }
    case Announce::value: return hear_value(Publication::made, in);
    case Announce::final_value: return hear_value(Publication::at_end, in);
    case Announce::measured: return hear_measured(in);
    case Announce::window: crew_.window_words = in.text(); return;
    case Announce::idle:
    case Announce::at:
    case Announce::conclude:
    case Announce::close: return hear_of_progress(kind, process, in);
    case Announce::case_done:
      throw Error(ErrorKind::io,
                  fmt::format("process {} left the case before its end: {}", process, in.text()));
    default:
      if (host.phase == Phase::idle) host.phase = Phase::running;
      hear_of_door(kind, process, in);
  }
}

void JudgingWorld::hear_value(Publication kind, WireReader& in) {
  const int64_t value = in.number();
  if (reader_) reader_(kind, value, read_tensor(in));
}

void JudgingWorld::hear_measured(WireReader& in) {
  for (int64_t count = in.number(); count > 0; --count)
    measured_.push_back(parse_record(in.text()));
}

// How far it has come with its orders, and whether its hosts can go on.
void JudgingWorld::hear_of_progress(Announce kind, int process, WireReader& in) {
  Host& host = hosts_[static_cast<size_t>(process)];
  crew_.members()[static_cast<size_t>(process)].executed = in.number();
  if (kind == Announce::close) host.phase = Phase::closing;
  if (kind == Announce::idle && host.phase == Phase::running) host.phase = Phase::idle;
  if (kind == Announce::at && host.phase == Phase::idle) host.phase = Phase::running;
  if (kind != Announce::conclude) return;
  conclusions_.emplace_back(process, read_conclusion(in));
  host.phase = Phase::concluding;
}

void JudgingWorld::hear_of_door(Announce kind, int process, WireReader& in) {
  Door& door = *hosts_[static_cast<size_t>(process)].doors.at(static_cast<size_t>(in.number()));
  switch (kind) {
    case Announce::stream: door.stream(in.text()); return;
    case Announce::submit: return hear_submit(process, door, in);
    case Announce::launch: return hear_launch(process, door, in);
    case Announce::allocate:
    case Announce::release: {
      Allocation allocation;
      allocation.lanes = known_lanes(in, blocks_.of(process));
      allocation.bytes = in.number();
      allocation.category = static_cast<int>(in.number());
      if (kind == Announce::allocate) return door.allocate(allocation);
      return door.release(allocation);
    }
    case Announce::order: {
      const StreamId stream = static_cast<StreamId>(in.number());
      groups_.wait(&door, stream);
      return door.order(stream, ticket_of(process, in.number()));
    }
    case Announce::host_wait: return door.host_wait(ticket_of(process, in.number()));
    case Announce::elapse: return door.elapse(Duration{in.number()});
    case Announce::stop: return door.stop(static_cast<CohortState>(in.number()));
    case Announce::finish: return door.finish();
    default: throw Error(ErrorKind::io, "a process says what nobody understands");
  }
}

void JudgingWorld::hear_submit(int process, Door& door, WireReader& in) {
  const StreamId stream = static_cast<StreamId>(in.number());
  const Ticket theirs = in.number();
  std::deque<LocalTensor> tensors;
  std::vector<Call> calls;
  for (int64_t count = in.number(); count > 0; --count)
    calls.push_back(read_call(in, hosts_[static_cast<size_t>(process)].book, tensors));
  int64_t parts = 0;
  for (const Call& call : calls)
    parts += call.lanes.intersect(call.collective.group.lanes()).size();
  const Ticket own = door.submit(calls, stream);
  remember(process, own, theirs);
  groups_.issue(&door, stream, own, parts);
  open_.emplace_back(own, &door);
}

// Work that has to wait its turn: the turn is ordered.
void JudgingWorld::hear_launch(int process, Door& door, WireReader& in) {
  Work work;
  work.stream = static_cast<StreamId>(in.number());
  const Ticket theirs = in.number();
  work.lanes = known_lanes(in, blocks_.of(process));
  work.flops = in.real();
  work.bytes = in.real();
  WireBook& book = hosts_[static_cast<size_t>(process)].book;
  work.name = book.read_text(in);
  work.site.line = static_cast<int>(in.number());
  work.site.instance = book.read_text(in);
  if (options_.schedule.kind != ScheduleKind::fifo)
    work.body = [this, process, theirs] {
      GateEvent& event = events_.emplace_back();
      event.kind = Order::run;
      event.process = process;
      event.work = theirs;
    };
  const Ticket own = door.launch(std::move(work));
  if (own != kDone)
    remember(process, own, theirs);
  else
    ticket_of(process, theirs) = kDone;
}

}  // namespace shardproof
