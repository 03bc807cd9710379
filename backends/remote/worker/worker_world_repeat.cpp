// Implements the repetitions of worker_world.h.
//
// 1. While the world runs, each work and each command becomes a step (call_sequence.h).
// 2. repeat() runs the steps one after another: bodies of work, and exchanges of the transport.
//    Each is awaited on the host, or launched in its stream of a device. No messages are sent; the
//    heartbeats of WorkerLink carry how many commands have ended.
// 3. Mode `graph`: worker_world_graph.cpp implements it.
// 4. Mode `each`: the time of each step goes to its tickets. After the last iteration the caller
//    reads the times of each counted one from the contexts.
//    Mode `back_to_back`: one time for all iterations, by events of the devices if all contents
//    stay there.
//
// Example: a process with the steps pack, all_reduce, unpack, repeated 2 times in mode `each`:
// restore, barrier, pack, all_reduce, unpack; restore, barrier, pack, all_reduce, unpack.
#include <algorithm>
#include <utility>

#include "shardproof/backends/remote/worker/worker_world.h"

namespace shardproof {
namespace {

constexpr size_t kMaxStoredSpans = 1 << 20;

}  // namespace

std::optional<TicketTimes> WorkerWorld::repeated_times(Ticket ticket) const {
  if (ticket == kDone || ticket >= std::ssize(*read_)) return std::nullopt;
  const TicketSpan& span = (*read_)[static_cast<size_t>(ticket)];
  TicketTimes times{LaneTimes(span.start), LaneTimes(span.end), span.clock, span.expected};
  return times;
}

// In repetitions the coordinator sends no commands.
int64_t WorkerWorld::commands_ended() const {
  return ordered_.value_or(launched_.commands_ended());
}

// --- one iteration -------------------------------------------------------------------------------

void WorkerWorld::load(ExchangeOperation& moving) {
  if (!moving.message) return restart(moving, link_.transport());
  const std::shared_ptr<DeviceMemory> memory = link_.transport().memory(moving.exchange.self);
  const CollectiveKind kind = moving.exchange.kind;
  if (kind == CollectiveKind::send || kind == CollectiveKind::put)
    send_piece(moving, moving.parts.front(), memory);
  else
    receive_bytes(moving, moving.exchange.count, memory);
}

void WorkerWorld::enter_stream(ExchangeOperation& moving) {
  if (launched_.devices().empty()) return;
  moving.exchange.stream = moving.parts.empty()
                               ? launched_.enter(landed_puts_at(moving.exchange.self))
                               : enter(moving.parts);
}

void WorkerWorld::repeat_exchanges(CallSequence::Step& step) {
  moving_ = std::move(step.moving);
  bool stays = !launched_.devices().empty();
  for (ExchangeOperation& moving : moving_) {
    enter_stream(moving);
    load(moving);
    stays = stays && moving.exchange.side == Side::device;
  }
  link_.set_activity(HeartbeatActivity::waits);
  if (stays) {
    start_moving();
    while (!link_.transport().launched()) {
    }
  } else if (moving_.size() == 1) {
    link_.transport().run({&moving_.front().exchange, 1});
  } else {
    std::vector<Exchange> exchanges;
    for (const ExchangeOperation& moving : moving_) exchanges.push_back(moving.exchange);
    link_.transport().run(exchanges);
  }
  step.moving = std::exchange(moving_, {});
  end_command(write_results(step.moving));
}

void WorkerWorld::repeat_step(CallSequence::Step& step) {
  if (step.line != 0) link_.progress().line.store(step.line, std::memory_order_relaxed);
  if (step.is_command) begin_command();
  for (const std::function<void()>& part : step.local) part();
  if (!step.moving.empty())
    repeat_exchanges(step);
  else if (step.is_command)
    end_command({});
  end_step(step);
}

void WorkerWorld::end_step(const CallSequence::Step& step) {
  if (step.is_command && !launched_.devices().empty())
    for (const Ticket ticket : step.tickets) launched_.add(ticket, tickets_.place(ticket));
  for (const std::shared_ptr<Buffer>& buffer : step.dropped) buffer->bytes = Bytes();
}

// A ticket of several steps takes the time from the first start to the last end.
void WorkerWorld::add_span(const CallSequence::Step& step, Duration start, Duration end) {
  for (const Ticket ticket : step.tickets) {
    if (ticket == kDone) continue;
    const size_t at = static_cast<size_t>(ticket);
    if (spans_.size() <= at) spans_.resize(at + 1);
    TicketSpan& span = spans_[at];
    if (span.end == Duration{}) span.start = start;
    span.end = end;
  }
}

void WorkerWorld::repeat_once() {
  for (CallSequence::Step& step : sequence_->steps()) {
    if (!measures_) {
      repeat_step(step);
      continue;
    }
    const Duration start = now();
    repeat_step(step);
    add_span(step, start, now());
  }
}

// --- between iterations --------------------------------------------------------------------------

void WorkerWorld::await_idle() {
  while (!is_idle()) {
    link_.set_activity(HeartbeatActivity::waits);
    poll_device();
  }
}

Exchange WorkerWorld::exchange_of_all() {
  Transport& transport = link_.transport();
  Exchange exchange;
  for (int endpoint = 0; endpoint < transport.processes() * transport.endpoints_each(); ++endpoint)
    exchange.team.push_back(endpoint);
  return exchange;
}

void WorkerWorld::run_barrier() {
  Transport& transport = link_.transport();
  const int each = transport.endpoints_each();
  std::vector<Exchange> all(static_cast<size_t>(each), exchange_of_all());
  for (int i = 0; i < each; ++i) all[static_cast<size_t>(i)].self = transport.first_endpoint() + i;
  link_.set_activity(HeartbeatActivity::waits);
  transport.run(all);
}

void WorkerWorld::restore_inputs_at_barrier() {
  await_idle();
  link_.set_activity(HeartbeatActivity::computes);
  sequence_->restore();
  for (const std::shared_ptr<Device>& device : launched_.devices()) device->synchronize();
  run_barrier();
}

// Replaces times of the host by those of the devices where there are any.
void WorkerWorld::read_device_times() {
  if (launched_.devices().empty()) return;
  for (size_t at = 1; at < spans_.size(); ++at) {
    TicketSpan& span = spans_[at];
    if (span.end == Duration{}) continue;
    const Ticket ticket = static_cast<Ticket>(at);
    const int32_t cohort = tickets_.place(ticket).cohort;
    const TicketTimes host{LaneTimes(span.start), LaneTimes(span.end), TimedBy::world, {}};
    const TicketTimes times = times_at(context(cohort).endpoint_).of(ticket, host);
    span = {times.start[0], times.end[0], times.clock, times.expected};
  }
  for (DeviceTimes& times : device_times_) times.forget_measured();
}

// --- mode each -----------------------------------------------------------------------------------

void WorkerWorld::read_iterations(std::deque<Iteration>& counted,
                                  const std::function<void()>& measured) {
  for (const Iteration& iteration : counted) {
    read_ = &iteration;
    measured();
  }
  read_ = nullptr;
  counted.clear();
}

// Times are read after the last iteration: the coordinator would compete with the next one for the
// processor. If the times of the iterations so far fill the memory, they are read in between.
double WorkerWorld::time_each(const Repetitions& repetitions) {
  std::deque<Iteration> counted;
  double seconds = 0;
  for (int i = 0; i < repetitions.warmup + repetitions.iterations; ++i) {
    restore_inputs_at_barrier();
    const Duration start = now();
    spans_.assign(spans_.size(), {});
    repeat_once();
    await_idle();
    const Duration end = now();
    link_.set_activity(HeartbeatActivity::computes);
    read_device_times();
    if (i < repetitions.warmup) continue;
    seconds += to_seconds(end - start);
    for (TicketSpan& span : spans_) {
      if (span.end == Duration{}) continue;
      span.start = span.start - start;
      span.end = span.end - start;
    }
    if (!repetitions.measured) continue;
    counted.push_back(spans_);
    if (counted.size() * spans_.size() > kMaxStoredSpans)
      read_iterations(counted, repetitions.measured);
  }
  read_iterations(counted, repetitions.measured);
  return seconds / repetitions.iterations;
}

// --- mode back to back ---------------------------------------------------------------------------

bool WorkerWorld::stays_on_devices() {
  if (launched_.devices().empty()) return false;
  const auto stays = [](const ExchangeOperation& one) { return one.exchange.side == Side::device; };
  bool any = false;
  for (const CallSequence::Step& step : sequence_->steps()) {
    if (!step.local.empty() || !std::all_of(step.moving.begin(), step.moving.end(), stays))
      return false;
    any = any || !step.moving.empty();
  }
  return any;
}

// Records an event in the current stream of each device, which is that of its last exchange.
std::vector<WorkerWorld::DeviceMark> WorkerWorld::mark_devices() {
  std::vector<DeviceMark> marks;
  for (const std::shared_ptr<Device>& device : launched_.devices())
    marks.push_back({device.get(), device->record()});
  return marks;
}

CallSequence::Step* WorkerWorld::step_on_devices() {
  if (!stays_on_devices()) return nullptr;
  CallSequence::Step* found = nullptr;
  for (CallSequence::Step& step : sequence_->steps()) {
    if (step.moving.empty()) continue;
    const bool puts = std::any_of(step.moving.begin(), step.moving.end(), [](const auto& one) {
      return one.exchange.kind == CollectiveKind::put ||
             one.exchange.kind == CollectiveKind::wait_signal;
    });
    if (puts || found != nullptr) return nullptr;
    found = &step;
  }
  return found;
}

// Returns the seconds between the marks, of several devices the longest.
double WorkerWorld::seconds_between(const std::vector<DeviceMark>& first,
                                    const std::vector<DeviceMark>& last) {
  double seconds = 0;
  for (size_t at = 0; at < first.size(); ++at) {
    Device& device = *first[at].device;
    while (!device.event_completed(last[at].event)) {
    }
    seconds = std::max(seconds, device.between(first[at].event, last[at].event).time * 1e-6);
    device.forget(first[at].event);
    device.forget(last[at].event);
  }
  return seconds;
}

// Returns whether a device has reached its mark, and drops the marks.
bool WorkerWorld::are_reached(const std::vector<DeviceMark>& marks) {
  bool any = false;
  for (const DeviceMark& mark : marks) {
    any = any || mark.device->event_completed(mark.event);
    mark.device->forget(mark.event);
  }
  return any;
}

// Repeats the calls on the same memory, as nccl-tests does. A first call, which may make
// communicators, is not timed. If the devices have ended all earlier iterations when the last one
// is launched, the time includes launches.
BenchmarkResult WorkerWorld::time_launches(CallSequence::Step& step, int iterations) {
  std::vector<Exchange> exchanges;
  for (ExchangeOperation& moving : step.moving) {
    enter_stream(moving);
    load(moving);
    exchange_in_place(moving, link_.transport().memory(moving.exchange.self));
    exchanges.push_back(moving.exchange);
  }
  link_.set_activity(HeartbeatActivity::waits);
  link_.transport().launch(exchanges);
  const std::vector<DeviceMark> first = mark_devices();
  for (int i = 0; i + 1 < iterations; ++i) {
    begin_command();
    link_.transport().launch(exchanges);
    end_command({});
  }
  const std::vector<DeviceMark> before_last = mark_devices();
  begin_command();
  link_.transport().launch(exchanges);
  BenchmarkResult result;
  const bool was_idle = are_reached(before_last) || iterations == 1;
  result.clock = was_idle ? TimedBy::device_and_launch : TimedBy::device;
  const std::vector<DeviceMark> last = mark_devices();
  end_command(write_results(step.moving));
  end_step(step);
  await_idle();
  result.seconds = seconds_between(first, last) / iterations;
  return result;
}

// If the device has ended an iteration before the next one is launched, the time includes launches.
BenchmarkResult WorkerWorld::time_together(const Repetitions& repetitions) {
  for (int i = 0; i < repetitions.warmup; ++i) {
    sequence_->drop_results();
    repeat_once();
  }
  restore_inputs_at_barrier();
  if (CallSequence::Step* const step = step_on_devices(); step != nullptr)
    return time_launches(*step, repetitions.iterations);
  const bool on_device = stays_on_devices();
  BenchmarkResult result;
  bool was_idle = repetitions.iterations == 1;
  std::vector<DeviceMark> first, last;
  if (on_device) first = mark_devices();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < repetitions.iterations; ++i) {
    sequence_->drop_results();
    repeat_once();
    if (!on_device) continue;
    was_idle = are_reached(last) || was_idle;
    last = mark_devices();
    poll_device();
  }
  await_idle();
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (on_device) {
    seconds = seconds_between(first, last);
    result.clock = was_idle ? TimedBy::device_and_launch : TimedBy::device;
  }
  result.seconds = seconds / repetitions.iterations;
  return result;
}

// --- all steps -----------------------------------------------------------------------------------

BenchmarkResult WorkerWorld::repeat_in_mode(const Repetitions& repetitions, bool measured) {
  if (repetitions.mode == Repetitions::Mode::back_to_back) return time_together(repetitions);
  BenchmarkResult result;
  if (repetitions.mode == Repetitions::Mode::graph)
    if (std::optional<BenchmarkResult> own = time_graph(repetitions, result.not_captured))
      return *own;
  measures_ = measured;
  result.seconds = time_each(repetitions);
  measures_ = false;
  return result;
}

std::vector<BenchmarkResult> WorkerWorld::repeat(const Repetitions& repetitions) {
  SP_CHECK(sequence_ != nullptr, "the world was not started to be repeated");
  if (std::exchange(recording_, false)) sequence_->end_recording();
  ordered_ = launched_.commands_ended();
  link_.transport().repeat(true);
  const bool measured = std::exchange(measures_, false);
  BenchmarkResult result = repeat_in_mode(repetitions, measured);
  if (repetitions.count_wrong) {
    restore_inputs_at_barrier();
    repeat_once();
    await_idle();
    result.wrong = repetitions.count_wrong();
  }
  link_.transport().repeat(false);
  measures_ = measured;
  for (const CallSequence::Step& step : sequence_->steps())
    for (const ExchangeOperation& one : step.moving)
      if (one.exchange.side == Side::device && !one.parts.empty() && !result.expected_seconds)
        result.expected_seconds =
            times_at(one.exchange.self).expected(one.parts.front().submitted->submission->ticket);
  WireWriter message = message_of(WorkerMessage::repeated);
  write_benchmark_result(message, result);
  announce(message);
  link_.pipe().flush();
  return {result};
}

}  // namespace shardproof
