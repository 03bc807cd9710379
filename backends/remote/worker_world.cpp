#include <utility>

#include "shardproof/backends/recorder.h"
#include "shardproof/backends/remote/detail/worker_world.h"
#include "shardproof/sim/deliver.h"

namespace shardproof {

using std::chrono::microseconds;

namespace {

constexpr microseconds kAtOnce{0};
constexpr microseconds kPatience{200000};
constexpr int kSubmitsPerPump = 16;
constexpr microseconds kBetweenTests{10};

}  // namespace

std::unique_ptr<World> worker_world(WorkerLink& link, const WorldOptions& options) {
  auto world = std::make_unique<WorkerWorld>(link, options);
  if (!options.measures) return world;
  return recorded(std::move(world), options.max_records);
}

WorkerWorld::WorkerWorld(WorkerLink& link, const WorldOptions& options)
    : link_(link),
      blocks_(options.ranks, link.transport().processes()),
      defers_(options.schedule.kind != ScheduleKind::fifo),
      timed_(options.cost != nullptr),
      measures_(options.measures) {
  WireWriter message;
  message.add(static_cast<int64_t>(Announce::want));
  write_options(message, options);
  announce(message);
  link_.await(Order::start);
  began_ = std::chrono::steady_clock::now();
  link_.is_about(Activity::computes);
}

Lanes WorkerWorld::here() const { return blocks_.of(link_.transport().self()); }

Door& WorkerWorld::open(const Lanes& cohort) {
  SP_CHECK(!cohort.empty() && here().contains(cohort), "cohort {} in a process of {}",
           to_string(cohort), to_string(here()));
  WireWriter message;
  message.add(static_cast<int64_t>(Announce::open));
  message.add(static_cast<int64_t>(doors_.size()));
  write_lanes(message, cohort);
  announce(message);
  return doors_.emplace_back(*this, static_cast<int32_t>(doors_.size()), cohort);
}

// --- streams
// --------------------------------------------------------------------------------------

void WorkerWorld::list(TicketBook::Place place) {
  Stream& stream = door(place.cohort).at(place.stream);
  if (stream.listed) return;
  stream.listed = true;
  ready_.push_back(place);
}

void WorkerWorld::wake() {
  for (const TicketBook::Place place : tickets_.woken()) list(place);
  tickets_.woken().clear();
}

void WorkerWorld::take_off(Flight& flight) {
  door(flight.cohort).at(flight.stream).flying = &flight;
  flight.started = true;
  if (flight.open == 0 && door(flight.cohort).lanes_.size() > 1) land(flight);
}

Duration WorkerWorld::now() const {
  const auto passed = std::chrono::steady_clock::now() - began_;
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count() * 1000};
}

void WorkerWorld::perform(const Work& work, Ticket ticket) {
  if (!measures_) {
    if (work.body) work.body();
    return tickets_.end(ticket, TicketState::done);
  }
  const Duration start = now();
  if (work.body) work.body();
  tickets_.end(ticket, TicketState::done, LaneTimes(start), LaneTimes(now()));
}

// False when the head has to wait, for a ticket or for an order.
bool WorkerWorld::run_head(TicketBook::Place place) {
  Stream& stream = door(place.cohort).at(place.stream);
  if (const Ticket* ticket = std::get_if<Ticket>(&stream.front().what)) {
    if (tickets_.state(*ticket) == TicketState::pending) {
      tickets_.wait(*ticket, place);
      return false;
    }
    stream.pop();
    return true;
  }
  if (std::holds_alternative<Work>(stream.front().what) && defers_) return false;
  StreamItem item = std::move(stream.front());
  stream.pop();
  if (Flight** flight = std::get_if<Flight*>(&item.what)) {
    take_off(**flight);
    return true;
  }
  perform(std::get<Work>(item.what), item.ticket);
  wake();
  return true;
}

void WorkerWorld::settle() {
  wake();
  if (std::exchange(running_, true)) return;
  while (!ready_.empty()) {
    const TicketBook::Place place = ready_.front();
    ready_.pop_front();
    Stream& stream = door(place.cohort).at(place.stream);
    stream.listed = false;
    while (stream.flying == nullptr && stream.has_items() && run_head(place)) {
    }
  }
  running_ = false;
}

void WorkerWorld::run_work(Ticket ticket) {
  const TicketBook::Place place = tickets_.place(ticket);
  settle();
  Stream& stream = door(place.cohort).at(place.stream);
  SP_CHECK(stream.has_items() && stream.front().ticket == ticket, "work {} is not next", ticket);
  StreamItem item = std::move(stream.front());
  stream.pop();
  perform(std::get<Work>(item.what), ticket);
  list(place);
  settle();
}

void WorkerWorld::land(Flight& flight) {
  const TicketBook::Place place{flight.cohort, flight.stream};
  Stream& stream = door(place.cohort).at(place.stream);
  stream.flying = nullptr;
  if (measures_)
    tickets_.end(flight.ticket, TicketState::done, flight.start, LaneTimes(now()));
  else
    tickets_.end(flight.ticket, TicketState::done);
  list(place);
  flights_.erase(flight.ticket);
}

void WorkerWorld::end_part(Party& party) {
  if (--party.open == 0 && --party.flight->open == 0) land(*party.flight);
}

// What a failed cohort has queued is dropped; its host learns it from its tickets.
void WorkerWorld::fail_ticket(Ticket ticket) {
  const TicketBook::Place place = tickets_.place(ticket);
  if (tickets_.state(ticket) != TicketState::pending) return;
  Stream& stream = door(place.cohort).at(place.stream);
  if (stream.flying != nullptr && stream.flying->ticket == ticket) stream.flying = nullptr;
  tickets_.end(ticket, TicketState::failed);
  door(place.cohort).fail();
  settle();
}

// --- orders
// ---------------------------------------------------------------------------------------

CallPart WorkerWorld::read_part(WireReader& in) {
  const auto flight = flights_.find(in.number());
  const size_t party = static_cast<size_t>(in.number());
  const int64_t lane = in.number();
  SP_CHECK(flight != flights_.end() && party < flight->second->parties.size(),
           "an order names a call that is not under way");
  SP_CHECK(flight->second->started, "an order names a call whose stream is not there yet");
  // The first order of the flight: from here on its contents are on their way.
  if (measures_ && flight->second->start[0] == Duration{}) flight->second->start.set_all(now());
  return {&flight->second->parties[party], lane, 0};
}

// False for what a host waits for: the next message may be for another world.
bool WorkerWorld::carry_out(std::string_view message) {
  WireReader in(message);
  const Order kind = static_cast<Order>(in.number());
  switch (kind) {
    case Order::still: still_ = true; return false;
    case Order::concluded:
      conclusion_.finished = in.number() != 0;
      for (int64_t count = in.number(); count > 0; --count)
        conclusion_.errors.push_back(read_error(in));
      concluded_ = true;
      return false;
    case Order::report:
      report_ = read_report(in);
      reported_ = true;
      return false;
    case Order::run: run_work(in.number()); break;
    case Order::form: form(in); return true;
    case Order::meet: meet(in); break;
    case Order::pair: pair(in); break;
    case Order::put: put(in); break;
    case Order::end_part: end_part(*read_part(in).party); break;
    case Order::fail: fail_ticket(in.number()); break;
    default: SP_UNREACHABLE("order {} in a world", static_cast<int>(kind));
  }
  if (moving_) return true;  // counts when it is done
  ++executed_;
  settle();
  return true;
}

bool WorkerWorld::pump(microseconds time) {
  bool moved = false;
  link_.pipe().flush();
  for (;;) {
    if (moving_) {
      if (!link_.transport().done()) return moved;
      finish_moving();
      moved = true;
      continue;
    }
    std::optional<std::string> message;
    if (!orders_.empty()) {
      message = std::move(orders_.front());
      orders_.pop_front();
    } else {
      message = link_.order(moved ? kAtOnce : time);
    }
    if (!message) return moved;
    moved = true;
    if (!carry_out(*message)) return true;
  }
}

// The host issues without waiting; what may go on meanwhile does.
void WorkerWorld::pump_now_and_then() {
  if (++submitted_ % kSubmitsPerPump == 0) pump(kAtOnce);
}

void WorkerWorld::tell(Announce kind) {
  told_ = executed_;
  WireWriter message;
  message.add(static_cast<int64_t>(kind));
  message.add(executed_);
  announce(message);
}

// Waits for one more order. While contents move it has to wait for its turn; who waits for others
// leaves them the processor, which a test of a young exchange does by itself.
void WorkerWorld::wait_for_order() {
  link_.is_about(Activity::waits);
  if (moving_ && std::chrono::steady_clock::now() < eager_until_) return;
  if (std::optional<std::string> order = link_.order(moving_ ? kBetweenTests : kPatience))
    orders_.push_back(std::move(*order));
}

bool WorkerWorld::progress() {
  bool idle = false;
  while (!pump(kAtOnce)) {
    if (!moving_ && !std::exchange(idle, true)) tell(Announce::idle);
    if (moving_ && told_ != executed_) tell(Announce::at);
    wait_for_order();
  }
  link_.is_about(Activity::computes);
  return !std::exchange(still_, false);
}

// What is ordered meanwhile is carried out, and told.
void WorkerWorld::wait_until(bool WorkerWorld::*condition) {
  while (!(this->*condition)) {
    if (pump(kAtOnce)) continue;
    if (told_ != executed_) tell(Announce::at);
    wait_for_order();
  }
  link_.is_about(Activity::computes);
}

// --- the end
// --------------------------------------------------------------------------------------

void WorkerWorld::publish(Publication kind, int64_t value, const LocalTensor& contents) {
  WireWriter message;
  message.add(
      static_cast<int64_t>(kind == Publication::made ? Announce::value : Announce::final_value));
  message.add(value);
  write_tensor(message, contents);
  announce(message);
}

void WorkerWorld::publish(const std::vector<Record>& measured) {
  WireWriter message;
  message.add(static_cast<int64_t>(Announce::measured));
  message.add(static_cast<int64_t>(measured.size()));
  for (const Record& record : measured) message.add(to_string(record));
  announce(message);
}

Conclusion WorkerWorld::conclude(Conclusion own) {
  WireWriter message;
  message.add(static_cast<int64_t>(Announce::conclude));
  message.add(told_ = executed_);
  message.add(int64_t{own.finished});
  message.add(static_cast<int64_t>(own.errors.size()));
  for (const Error& error : own.errors) write_error(message, error);
  announce(message);
  wait_until(&WorkerWorld::concluded_);
  return conclusion_;
}

WorldReport WorkerWorld::close() {
  tell(Announce::close);
  wait_until(&WorkerWorld::reported_);
  return report_;
}

}  // namespace shardproof
