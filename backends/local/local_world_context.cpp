#include <algorithm>
#include <utility>

#include "shardproof/backends/local/local_world.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

LocalDoor::LocalDoor(LocalWorld& world, int32_t index, Lanes lanes)
    : world_(world), index_(index), lanes_(std::move(lanes)), memory_(lanes_) {
  main_.name = "main";
}

StreamId LocalDoor::stream(std::string_view name) {
  for (StreamId id = 0; id < stream_count(); ++id)
    if (at(id).name == name) return id;
  others_.emplace_back(std::make_unique<Stream>())->name = name;
  return stream_count() - 1;
}

// --- tickets
// --------------------------------------------------------------------------------------

Ticket LocalDoor::open_ticket(StreamId stream) {
  return at(stream).last = world_.book().open({index_, stream});
}

// A stopped host issues nothing more; what it asks for never ends.
Ticket LocalDoor::refuse() { return world_.book().open({index_, kMainStream}); }

Ticket LocalDoor::last(StreamId stream) { return at(stream).last; }

TicketState LocalDoor::poll(Ticket ticket) { return world_.book().state(ticket); }

std::optional<TicketTimes> LocalDoor::times(Ticket ticket) {
  if (!world_.timed()) return std::nullopt;
  return world_.book().times(ticket);
}

void LocalDoor::host_wait(Ticket ticket) {
  if (world_.book().state(ticket) != TicketState::done) {
    host_waits_.push_back(ticket);
  } else if (world_.timed()) {
    world_.book().raise(host_time_, ticket);
  }
}

// The clock of the host moves when the end of what it waits for is known.
void LocalDoor::observe_host_waits() {
  if (host_waits_.empty()) return;
  std::erase_if(host_waits_, [&](Ticket ticket) {
    if (world_.book().state(ticket) != TicketState::done) return false;
    if (world_.timed()) world_.book().raise(host_time_, ticket);
    return true;
  });
}

void LocalDoor::elapse(Duration time) {
  observe_host_waits();
  host_time_.for_each([&](Duration& host) { host += time; });
}

LaneTimes LocalDoor::through() const {
  LaneTimes all = host_time_;
  for (StreamId id = 0; id < stream_count(); ++id) all.raise_to(at(id).time);
  return all;
}

// --- items
// ----------------------------------------------------------------------------------------

bool LocalDoor::runs_at_issue(const Stream& stream) const {
  return stream.idle() && !world_.defers();
}

void LocalDoor::push(StreamId stream, Ticket ticket, std::variant<Work, Flight*, Ticket> what) {
  Stream& target = at(stream);
  target.push({ticket, std::move(what), host_time_});
  if (target.flying == nullptr) world_.list({index_, stream});
}

Ticket LocalDoor::launch(Work work) {
  Stream& stream = at(work.stream);
  if (runs_at_issue(stream) && goes_on()) {
    if (work.body) work.body();
    if (!world_.timed()) return kDone;
    observe_host_waits();
    const Ticket ticket = open_ticket(work.stream);
    pass_work(stream, work, host_time_, ticket);
    return ticket;
  }
  if (!goes_on()) return refuse();
  observe_host_waits();
  const StreamId id = work.stream;
  const Ticket ticket = open_ticket(id);
  push(id, ticket, std::move(work));
  world_.settle();
  return ticket;
}

void LocalDoor::pass_work(Stream& stream, const Work& work, const LaneTimes& issued,
                          Ticket ticket) {
  stream.time.raise_to(issued);
  const LaneTimes start = stream.time;
  const Duration cost = world_.cost().kernel(work.flops, work.bytes);
  if (work.lanes.size() == lanes_.size()) {
    stream.time.for_each([&](Duration& time) { time += cost; });
  } else if (cost != Duration{}) {
    for (int64_t i = 0; i < work.lanes.size(); ++i)
      stream.time.at(lanes_.index_of(work.lanes[i]), lanes_.size()) += cost;
  }
  world_.book().end(ticket, TicketState::done, start, stream.time);
}

void LocalDoor::order(StreamId id, Ticket ticket) {
  if (ticket == kDone || !goes_on()) return;
  Stream& stream = at(id);
  observe_host_waits();
  if (stream.idle() && world_.book().state(ticket) == TicketState::done) {
    if (world_.timed()) world_.book().raise(stream.time, ticket);
    return;
  }
  push(id, kDone, ticket);
  world_.settle();
}

// --- calls
// ----------------------------------------------------------------------------------------

namespace {

int64_t lanes_of(std::span<const Call> calls) {
  int64_t lanes = 0;
  for (const Call& call : calls) lanes += call.lanes.size();
  return lanes;
}

bool may_pass(const Call& call) { return call.lanes.size() >= call.collective.group.size(); }

// When some lanes of the call were no members.
void restrict_views(Party& party) {
  party.input = party.input.restrict_to(party.call.lanes);
  party.output = party.output.restrict_to(party.call.lanes);
}

}  // namespace

// A call of whole groups that runs at once: no flight. Nothing when it has to wait for others.
std::optional<Ticket> LocalDoor::pass(Call& call, StreamId id) {
  Stream& stream = at(id);
  if (!world_.timed()) {
    if (world_.gate().pass(call, lanes_, nullptr)) return kDone;
    return std::nullopt;
  }
  LaneTimes start = stream.time;
  start.raise_to(host_time_);
  LaneTimes end = start;
  if (!world_.gate().pass(call, lanes_, &end)) return std::nullopt;
  const Ticket ticket = open_ticket(id);
  stream.time = end;
  world_.book().end(ticket, TicketState::done, start, end);
  return ticket;
}

Ticket LocalDoor::submit(std::span<Call> calls, StreamId id) {
  if (!goes_on()) return refuse();
  observe_host_waits();
  Stream& stream = at(id);
  if (calls.size() == 1 && runs_at_issue(stream) && may_pass(calls[0]))
    if (const std::optional<Ticket> ticket = pass(calls[0], id)) return *ticket;
  const int64_t lanes_before = lanes_of(calls);
  const bool admitted = admit(calls);
  const bool any_outside = lanes_of(calls) != lanes_before;
  Flight& flight = world_.new_flight();
  flight.failed = !admitted;
  flight.cohort = index_;
  flight.lanes = lanes_;
  flight.stream = id;
  flight.ticket = open_ticket(id);
  flight.parties.resize(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    Party& party = flight.parties[i];
    party.call = std::move(calls[i]);
    party.flight = &flight;
    party.number = {};
    party.separated = false;
    keep_views(party);
    if (any_outside) restrict_views(party);
    world_.gate().number(party);
  }
  const Ticket ticket = flight.ticket;
  flight.issued = host_time_;
  if (runs_at_issue(stream)) {
    stream.flying = &flight;
    take_off(flight);
  } else {
    push(id, ticket, &flight);
  }
  world_.settle();
  return ticket;
}

// False when the rank itself has no business with one of the calls: there is nothing it could go on
// with.
bool LocalDoor::admit(std::span<Call> calls) {
  bool any_left = true;
  for (Call& call : calls) {
    world_.gate().admit(call);
    any_left = any_left && !call.lanes.empty();
  }
  return any_left || lanes_.size() > 1;
}

void LocalDoor::take_off(Flight& flight) {
  flight.start = at(flight.stream).time;
  flight.start.raise_to(flight.issued);
  world_.gate().start(flight);
}

// --- ends
// -----------------------------------------------------------------------------------------

bool LocalDoor::is_stuck() const {
  for (StreamId id = 0; id < stream_count(); ++id)
    if (at(id).stuck()) return true;
  return false;
}

// A fault happens at its call: what was issued before goes on, whatever the schedule.
void LocalDoor::stop(CohortState state) { state_ = state; }

// --- memory
// ---------------------------------------------------------------------------------------

void LocalDoor::allocate(const Allocation& allocation) {
  memory_.allocate(allocation.lanes, allocation.bytes, allocation.category);
}

void LocalDoor::release(const Allocation& allocation) {
  memory_.release(allocation.lanes, allocation.bytes, allocation.category);
}

std::shared_ptr<Device> LocalDoor::device() { return world_.device(); }

void LocalDoor::read_slot(int64_t slot, LocalTensor& output) {
  const auto window = [&](int64_t rank) { return world_.gate().window(rank, slot); };
  deliver_windows(window, output);
}

}  // namespace shardproof
