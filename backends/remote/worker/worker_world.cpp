// Implements worker_world.h: life of the world, streams, commands, the device, and the end.
//
// progress() repeats until something has happened: execute commands that arrived, poll the exchange
// and the devices, report ended commands, and wait. The wait is short when an exchange has just
// begun, and grows with the time in which nothing moved.
#include <thread>
#include <utility>

#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/decorators/flight_recorder.h"
#include "shardproof/backends/remote/worker/worker_world.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

using std::chrono::microseconds;

namespace {

constexpr microseconds kNoWait{0};
constexpr microseconds kCommandWait{200000};
constexpr int kSubmitsPerCommandCheck = 16;
// Pauses between two polls of an exchange; they grow while nothing moves.
constexpr microseconds kShortPause{10}, kLongPause{1000};
constexpr int kPausesInAWait = 128;
constexpr size_t kMaxUnsentBytes = size_t{1} << 26;          // bytes of values not yet sent
constexpr std::chrono::milliseconds kProgressInterval{250};  // between reports of device progress
// A device is polled without pauses for this time.
constexpr std::chrono::milliseconds kSpinTime{5};

microseconds pause_after(std::chrono::nanoseconds waited) {
  return std::clamp(std::chrono::duration_cast<microseconds>(waited) / kPausesInAWait, kShortPause,
                    kLongPause);
}

// Returns the devices of the endpoints here, in order; empty if contents lie on the host.
std::vector<std::shared_ptr<Device>> devices_of(WorkerLink& link) {
  Transport& transport = link.transport();
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < transport.endpoints_each(); ++i)
    if (auto device =
            std::dynamic_pointer_cast<Device>(transport.memory(transport.first_endpoint() + i)))
      devices.push_back(std::move(device));
  return devices;
}

}  // namespace

std::unique_ptr<World> worker_world(WorkerLink& link, const WorldOptions& options) {
  std::vector<Fault> faults = faults_of(options);
  std::unique_ptr<World> world = std::make_unique<WorkerWorld>(link, options);
  if (options.measures) world = recorded(std::move(world), options.max_records);
  return faults.empty() ? std::move(world) : faulty(std::move(world), std::move(faults));
}

WorkerWorld::WorkerWorld(WorkerLink& link, const WorldOptions& options)
    : link_(link),
      blocks_(options.ranks, link.transport().processes(), link.transport().endpoints_each()),
      defers_(options.schedule.kind != ScheduleKind::fifo),
      timed_(options.cost != nullptr),
      measures_(options.measures),
      launched_(devices_of(link)),
      device_times_(static_cast<size_t>(link.transport().endpoints_each())),
      sequence_(options.repeats ? std::make_unique<CallSequence>() : nullptr),
      recording_(options.repeats) {
  WireWriter message = message_of(WorkerMessage::want);
  write_options(message, options);
  announce(message);
  link_.await(CoordinatorCommand::start);
  link_.progress().begun = link_.progress().done = 0;
  link_.progress().line = 0;
  began_ = std::chrono::steady_clock::now();
  for (size_t i = 0; i < device_times_.size(); ++i) {
    const int endpoint = link_.transport().first_endpoint() + static_cast<int>(i);
    const std::shared_ptr<Device> device =
        launched_.assign_device(i, landed_puts_at(endpoint).cohort);
    if (device != nullptr)
      device->call_while_waiting([this](auto waited) { wait_on_device(waited); },
                                 [this] { link_.set_activity(*std::exchange(before_wait_, {})); });
    if (measures_) device_times_[i].start(device, now());
  }
  link_.set_activity(HeartbeatActivity::computes);
}

WorkerWorld::~WorkerWorld() {
  for (const std::shared_ptr<Device>& device : launched_.devices()) device->call_while_waiting({});
}

Lanes WorkerWorld::local_ranks() const { return blocks_.of(link_.transport().self()); }

std::vector<Lanes> WorkerWorld::local_ranks_by_device() const {
  const Transport& transport = link_.transport();
  std::vector<Lanes> all;
  for (int i = 0; i < transport.endpoints_each(); ++i)
    all.push_back(blocks_.of_endpoint(transport.first_endpoint() + i));
  return all;
}

DeviceTimes& WorkerWorld::times_at(int endpoint) {
  return device_times_[static_cast<size_t>(endpoint - link_.transport().first_endpoint())];
}

ExecutionContext& WorkerWorld::open(const Lanes& cohort) {
  SP_CHECK(!cohort.empty() && local_ranks().contains(cohort), "cohort {} in a process of {}",
           to_string(cohort), to_string(local_ranks()));
  const int endpoint = blocks_.endpoint_of(cohort[0]);
  SP_CHECK(blocks_.of_endpoint(endpoint).contains(cohort), "cohort {} on several devices",
           to_string(cohort));
  WireWriter message = message_of(WorkerMessage::open);
  message.add(static_cast<int64_t>(contexts_.size()));
  write_lanes(message, cohort);
  announce(message);
  const int32_t index = static_cast<int32_t>(contexts_.size());
  const int device = endpoint - link_.transport().first_endpoint();
  launched_.assign_device(static_cast<size_t>(device), index);
  return contexts_.emplace_back(*this, index, endpoint, cohort);
}

// --- streams -------------------------------------------------------------------------------------

void WorkerWorld::list(Place place) {
  Stream& stream = context(place.cohort).at(place.stream);
  if (stream.listed) return;
  stream.listed = true;
  ready_.push_back(place);
}

void WorkerWorld::wake() {
  for (const Place place : tickets_.woken()) list(place);
  tickets_.woken().clear();
}

void WorkerWorld::start_submission(Submission& submission) {
  context(submission.cohort).at(submission.stream).submission = &submission;
  submission.started = true;
  if (submission.open == 0 && !submission.failed) end_submission(submission);
}

Duration WorkerWorld::now() const {
  const auto passed = std::chrono::steady_clock::now() - began_;
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count() * 1000};
}

void WorkerWorld::run_body(const std::function<void()>& body, Ticket ticket, Place place) {
  link_.set_activity(HeartbeatActivity::computes);
  launched_.enter(place);
  if (measures_)
    times_at(context(place.cohort).endpoint_).watch(ticket, body);
  else
    body();
  launched_.add(ticket, place);
}

void WorkerWorld::run_work(const Work& work, Ticket ticket, Place place) {
  const Duration start = now();
  if (work.body) run_body(work.body, ticket, place);
  if (recording_) {
    CallSequence::Step& step = sequence_->add_step();
    step.line = work.site.line;
    step.tickets = {ticket};
    if (work.body)
      step.local.push_back(
          [this, body = work.body, ticket, place] { run_body(body, ticket, place); });
    sequence_->add_use(work.buffers);
  }
  if (measures_)
    tickets_.end(ticket, TicketState::done, LaneTimes(start), LaneTimes(now()));
  else
    tickets_.end(ticket, TicketState::done);
}

void WorkerWorld::follow(Place place, Ticket ticket) {
  const auto follows = [this, place, ticket] {
    launched_.follow(place, ticket, tickets_.place(ticket));
  };
  follows();
  if (recording_ && !launched_.devices().empty()) sequence_->add_step().local.push_back(follows);
}

// Runs the head of a stream. Returns false if it has to wait for a ticket or a command.
bool WorkerWorld::run_head(Place place) {
  Stream& stream = context(place.cohort).at(place.stream);
  if (const Ticket* ticket = std::get_if<Ticket>(&stream.front().what)) {
    if (tickets_.state(*ticket) != TicketState::done) {
      tickets_.wait(*ticket, place);
      return false;
    }
    follow(place, *ticket);
    stream.pop();
    return true;
  }
  if (std::holds_alternative<Work>(stream.front().what) && defers_) return false;
  StreamItem item = std::move(stream.front());
  stream.pop();
  if (Submission** submission = std::get_if<Submission*>(&item.what)) {
    start_submission(**submission);
    return true;
  }
  run_work(std::get<Work>(item.what), item.ticket, place);
  wake();
  return true;
}

void WorkerWorld::settle() {
  wake();
  if (std::exchange(running_, true)) return;
  while (!ready_.empty()) {
    const Place place = ready_.front();
    ready_.pop_front();
    Stream& stream = context(place.cohort).at(place.stream);
    stream.listed = false;
    while (stream.submission == nullptr && stream.has_items() && run_head(place)) {
    }
  }
  running_ = false;
}

void WorkerWorld::run_work(Ticket ticket) {
  const Place place = tickets_.place(ticket);
  settle();
  Stream& stream = context(place.cohort).at(place.stream);
  SP_CHECK(stream.has_items() && stream.front().ticket == ticket, "work {} is not next", ticket);
  StreamItem item = std::move(stream.front());
  stream.pop();
  run_work(std::get<Work>(item.what), ticket, place);
  list(place);
  settle();
}

void WorkerWorld::end_submission(Submission& submission) {
  const Place place{submission.cohort, submission.stream};
  Stream& stream = context(place.cohort).at(place.stream);
  stream.submission = nullptr;
  launched_.add(submission.ticket, place);
  if (measures_)
    tickets_.end(submission.ticket, TicketState::done, submission.start, LaneTimes(now()));
  else
    tickets_.end(submission.ticket, TicketState::done);
  list(place);
  const auto ended = submissions_.find(submission.ticket);
  if (recording_) {
    sequence_->add_use(buffers_of(submission));
    sequence_->retain(std::move(ended->second));
  }
  submissions_.erase(ended);
}

void WorkerWorld::end_part(SubmittedCall& submitted) {
  if (recording_ && submitted.open == 1)
    sequence_->command().tickets.push_back(submitted.submission->ticket);
  if (--submitted.open == 0 && --submitted.submission->open == 0 && !submitted.submission->failed)
    end_submission(*submitted.submission);
}

// The stream never gets past the failed submission; the host reads the state of the ticket.
void WorkerWorld::fail_ticket(Ticket ticket) {
  if (tickets_.state(ticket) != TicketState::pending) return;
  tickets_.end(ticket, TicketState::failed);
  settle();
}

// --- commands
// -------------------------------------------------------------------------------------

CallShare WorkerWorld::read_part(WireReader& in) {
  const auto submission = submissions_.find(in.number());
  const size_t submitted = static_cast<size_t>(in.number());
  const int64_t lane = in.number();
  SP_CHECK(submission != submissions_.end() && submitted < submission->second->calls.size(),
           "a command names a call that is not under way");
  SP_CHECK(submission->second->started, "a command names a call whose stream does not exist yet");
  // The first command of a submission starts its transfer.
  if (measures_ && submission->second->start[0] == Duration{})
    submission->second->start.set_all(now());
  return {&submission->second->calls[submitted], lane, 0};
}

void WorkerWorld::run_part_command(CoordinatorCommand kind, WireReader& in) {
  switch (kind) {
    case CoordinatorCommand::collective: return execute_collective(in);
    case CoordinatorCommand::message: return execute_message(in);
    case CoordinatorCommand::put: return execute_put(in);
    case CoordinatorCommand::end_part: return end_without_contents(read_part(in));
    default: SP_UNREACHABLE("command {} in a world", static_cast<int>(kind));
  }
}

// A wait for a signal follows the puts that landed before it.
void WorkerWorld::end_without_contents(const CallShare& part) {
  run_locally([this, part] { wait_for_landed_puts(part); });
  end_part(*part.submitted);
}

void WorkerWorld::run_group_command(WireReader& in) {
  const bool siblings = in.number() != 0;
  for (int64_t count = in.number(); count > 0; --count) {
    WireReader part(in.text());
    const CoordinatorCommand kind = static_cast<CoordinatorCommand>(part.number());
    run_part_command(kind, part);
  }
  for (ExchangeOperation& moving : moving_) moving.exchange.alone = siblings;
}

// Returns false for messages that a host waits for: the next one may belong to another world.
bool WorkerWorld::run_command(std::string_view message) {
  WireReader in(message);
  const CoordinatorCommand kind = static_cast<CoordinatorCommand>(in.number());
  switch (kind) {
    case CoordinatorCommand::stalled: stalled_ = true; return false;
    case CoordinatorCommand::concluded:
      conclusion_ = read_conclusion(in);
      concluded_ = true;
      return false;
    case CoordinatorCommand::report:
      report_ = read_report(in);
      reported_ = true;
      return false;
    case CoordinatorCommand::form: form(in); return true;
    case CoordinatorCommand::window: open_window(in); return true;
    default: break;
  }
  begin_command();
  if (recording_) sequence_->add_command();
  switch (kind) {
    case CoordinatorCommand::run: run_work(in.number()); break;
    case CoordinatorCommand::group: run_group_command(in); break;
    case CoordinatorCommand::fail: fail_ticket(in.number()); break;
    default: run_part_command(kind, in);
  }
  if (!moving_.empty()) {
    request_estimates();
    start_moving();
    return true;  // finish_moving() ends the command
  }
  end_command({});
  settle();
  return true;
}

void WorkerWorld::begin_command() {
  link_.progress().begun.store(launched_.commands_launched() + 1, std::memory_order_relaxed);
}

void WorkerWorld::end_command(const std::vector<Place>& places) {
  launched_.end_command(places);
  link_.progress().done.store(launched_.commands_ended(), std::memory_order_relaxed);
}

// A worker counts as waiting during an exchange: only local work counts as computing.
bool WorkerWorld::run_commands(microseconds time) {
  bool moved = false;
  for (;;) {
    link_.set_activity(HeartbeatActivity::waits);
    if (!moving_.empty()) {
      if (!has_moved()) return moved;
      finish_moving();
      moved = true;
      continue;
    }
    std::optional<std::string> message;
    if (!commands_.empty()) {
      message = std::move(commands_.front());
      commands_.pop_front();
    } else {
      message = link_.receive(moved ? kNoWait : time);
    }
    if (!message) return moved;
    moved = true;
    if (!run_command(*message)) return true;
  }
}

// The host submits without waiting; at every 16th submission, the worker executes the received
// commands.
void WorkerWorld::run_received_commands() {
  if (++submitted_ % kSubmitsPerCommandCheck != 0) return;
  link_.pipe().flush();
  run_commands(kNoWait);
  poll_device();
  link_.set_activity(HeartbeatActivity::computes);
}

void WorkerWorld::report_progress(WorkerMessage kind) {
  reported_ended_ = commands_ended();
  reported_at_ = Clock::now();
  WireWriter message;
  message.add(static_cast<int64_t>(kind));
  message.add(reported_ended_);
  announce(message);
}

// Waits for one more command. During an exchange it pauses between polls and leaves the processor
// to other processes; an exchange that has just begun is polled without pauses. Flushes first, so
// that the coordinator is woken once for all announcements.
void WorkerWorld::wait_for_command(Clock::time_point quiet_since) {
  link_.pipe().flush();
  microseconds pause = kCommandWait;
  if (!is_idle()) {
    const auto now = Clock::now();
    if (now < eager_until_) return;
    pause = pause_after(now - quiet_since);
  }
  if (std::optional<std::string> command = link_.receive(pause))
    commands_.push_back(std::move(*command));
}

bool WorkerWorld::progress() {
  const Clock::time_point began = Clock::now();
  bool idle = false;
  while (!run_commands(kNoWait) && !poll_device()) {
    if (is_idle() && !std::exchange(idle, true)) report_progress(WorkerMessage::idle);
    if (!is_idle() && reported_ended_ != commands_ended()) {
      report_progress(WorkerMessage::at);
      idle = false;
    }
    wait_for_command(began);
  }
  link_.pipe().flush();
  link_.set_activity(HeartbeatActivity::computes);
  return !std::exchange(stalled_, false);
}

// Carries out commands, and reports those that have ended, until the condition holds.
void WorkerWorld::wait_until(const std::function<bool()>& condition) {
  Clock::time_point moved = Clock::now();
  while (!condition()) {
    if (run_commands(kNoWait) || poll_device()) {
      moved = Clock::now();
      continue;
    }
    if (reported_ended_ != commands_ended()) report_progress(WorkerMessage::at);
    wait_for_command(moved);
  }
  link_.set_activity(HeartbeatActivity::computes);
}

// --- the device ----------------------------------------------------------------------------------

TicketState WorkerWorld::state_of(Ticket ticket) const {
  const TicketState state = tickets_.state(ticket);
  if (state != TicketState::done || ticket == kDone) return state;
  return launched_.has_ended(ticket, tickets_.place(ticket)) ? state : TicketState::pending;
}

// The streams of aborted communicators run on with undefined contents, so their events mean
// nothing. Reports progress during long device work, so that the worker does not seem lost in the
// next call.
bool WorkerWorld::poll_device() {
  if (launched_.all_ended() || !link_.transport().can_complete()) return false;
  const bool moved = launched_.poll();
  link_.progress().done.store(launched_.commands_ended(), std::memory_order_relaxed);
  if (moved && Clock::now() > reported_at_ + kProgressInterval) report_progress(WorkerMessage::at);
  return moved;
}

// Called while the host waits for a stream, whose work may need other processes. The coordinator
// needs the progress of this worker for them. If one of them is lost, the coordinator ends the
// case.
void WorkerWorld::wait_on_device(std::chrono::nanoseconds waited) {
  if (!before_wait_) before_wait_ = link_.activity();
  link_.set_activity(HeartbeatActivity::waits);
  poll_device();
  if (reported_ended_ != commands_ended()) report_progress(WorkerMessage::at);
  link_.pipe().flush();
  while (!link_.transport().can_complete()) link_.receive(kCommandWait);
  waited < kSpinTime ? std::this_thread::yield() : std::this_thread::sleep_for(pause_after(waited));
}

TicketTable::Place WorkerWorld::place_of(const CallShare& part) {
  return {part.submitted->submission->cohort, part.submitted->submission->stream};
}

// Inputs of several ranks here are read when all of their streams have reached the call.
int WorkerWorld::enter(const std::vector<CallShare>& parts) {
  std::vector<Place> places;
  for (const CallShare& part : parts) places.push_back(place_of(part));
  for (const CallShare& part : parts) wait_for_landed_puts(part);
  const int stream = launched_.enter(places.front());
  launched_.join(places);
  return stream;
}

// A barrier may announce a put as a signal does, so every call waits for the puts that landed.
void WorkerWorld::wait_for_landed_puts(const CallShare& part) {
  if (landed_puts_ == kDone) return;
  launched_.enter(place_of(part));
  launched_.join({landed_puts_at(blocks_.endpoint_of(part.rank()))});
}

// --- the end -------------------------------------------------------------------------------------

// Limits the unsent bytes: the coordinator compares values one by one, and may be slower.
void WorkerWorld::publish(ValueEvent kind, int64_t value, const LocalTensor& contents) {
  WireWriter message;
  message.add(static_cast<int64_t>(kind == ValueEvent::made ? WorkerMessage::value
                                                            : WorkerMessage::final_value));
  message.add(value);
  write_tensor(message, contents);
  announce(message);
  link_.pipe().wait_until_sent(kMaxUnsentBytes);
}

void WorkerWorld::publish(const std::vector<Record>& measured) {
  WireWriter message = message_of(WorkerMessage::measured);
  message.add(static_cast<int64_t>(measured.size()));
  for (const Record& record : measured) message.add(to_string(record));
  announce(message);
}

// Waits until nothing changes the values any more.
HostResult WorkerWorld::conclude(HostResult own) {
  wait_until([this] { return is_idle(); });
  WireWriter message = message_of(WorkerMessage::conclude);
  message.add(reported_ended_ = commands_ended());
  write_conclusion(message, own);
  announce(message);
  wait_until([this] { return concluded_; });
  return conclusion_;
}

WorldReport WorkerWorld::close() {
  report_progress(WorkerMessage::close);
  wait_until([this] { return reported_ && is_idle(); });
  return report_;
}

}  // namespace shardproof
