// Implements worker_context.h. Each function reports the action of the host to the coordinator,
// unless it concerns only this worker and no clock runs.
#include "shardproof/backends/cuda/device.h"
#include "shardproof/backends/remote/worker/worker_world.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

WorkerContext::WorkerContext(WorkerWorld& world, int32_t index, int endpoint, Lanes lanes)
    : world_(world), index_(index), endpoint_(endpoint), lanes_(std::move(lanes)) {
  streams_.emplace_back().name = "main";
}

WireWriter WorkerContext::announcement(WorkerMessage kind) const {
  WireWriter message;
  message.add(static_cast<int64_t>(kind));
  message.add(int64_t{index_});
  return message;
}

StreamId WorkerContext::stream(std::string_view name) {
  for (size_t id = 0; id < streams_.size(); ++id)
    if (streams_[id].name == name) return static_cast<StreamId>(id);
  streams_.emplace_back().name = name;
  WireWriter message = announcement(WorkerMessage::stream);
  message.add(name);
  world_.announce(message);
  return static_cast<StreamId>(streams_.size() - 1);
}

// --- tickets and items ---------------------------------------------------------------------------

Ticket WorkerContext::open_ticket(StreamId stream) {
  return at(stream).last = world_.tickets_.open({index_, stream});
}

// A stopped host issues nothing: its tickets never end.
Ticket WorkerContext::refuse() { return world_.tickets_.open({index_, kMainStream}); }

TicketState WorkerContext::poll(Ticket ticket) { return world_.state_of(ticket); }

bool WorkerContext::runs_at_issue(Stream& stream) const { return stream.idle() && !world_.defers_; }

void WorkerContext::push(StreamId stream, Ticket ticket,
                         std::variant<Work, Submission*, Ticket> what) {
  at(stream).push({ticket, std::move(what), {}});
  world_.list({index_, stream});
  world_.settle();
}

// Work that runs at once needs no announcement, unless a clock runs.
Ticket WorkerContext::launch(Work work) {
  if (!is_running()) return refuse();
  if (world_.recording_) world_.sequence_->issue(work.buffers);
  world_.link_.progress().line.store(work.site.line, std::memory_order_relaxed);
  const StreamId stream = work.stream;
  const bool now = runs_at_issue(at(stream));
  if (now && !world_.timed_) {
    const bool lasts = world_.measures_ || device() != nullptr;
    const Ticket ticket = lasts ? open_ticket(stream) : kDone;
    world_.run_work(work, ticket, {index_, stream});
    return ticket;
  }
  const Ticket ticket = open_ticket(stream);
  WireWriter message = announcement(WorkerMessage::launch);
  message.add(int64_t{stream});
  message.add(ticket);
  write_lanes(message, work.lanes);
  message.add_real(work.flops);
  message.add_real(work.bytes);
  // Without a clock only some work is announced, so none is recorded in the coordinator.
  world_.dictionary_.write_text(message, world_.timed_ ? work.name : "");
  message.add(int64_t{work.site.line});
  world_.dictionary_.write_text(message, work.site.instance);
  world_.announce(message);
  push(stream, ticket, std::move(work));
  return ticket;
}

void WorkerContext::order(StreamId stream, Ticket ticket) {
  if (ticket == kDone || !is_running()) return;
  const bool launched = world_.tickets_.state(ticket) == TicketState::done;
  if (!launched || world_.timed_) {
    WireWriter message = announcement(WorkerMessage::order);
    message.add(int64_t{stream});
    message.add(ticket);
    world_.announce(message);
  }
  if (!launched || !at(stream).idle()) return push(stream, kDone, ticket);
  world_.follow({index_, stream}, ticket);
}

// --- calls ---------------------------------------------------------------------------------------

namespace {

// Removes lanes that are not members of the call's group. Returns true if there were any.
bool restrict_to_members(Call& call) {
  const Lanes members = call.lanes.intersect(call.collective.group.lanes());
  if (members == call.lanes) return false;
  std::vector<int64_t> peers;
  std::vector<std::vector<int64_t>> send_counts, recv_counts;
  for (int64_t i = 0; i < call.lanes.size(); ++i) {
    if (!members.contains(call.lanes[i])) continue;
    const size_t at = static_cast<size_t>(i);
    if (!call.peers.empty()) peers.push_back(call.peers[at]);
    if (!call.send_counts.empty()) send_counts.push_back(call.send_counts[at]);
    if (!call.recv_counts.empty()) recv_counts.push_back(call.recv_counts[at]);
  }
  call.lanes = members;
  call.peers = std::move(peers);
  call.send_counts = std::move(send_counts);
  call.recv_counts = std::move(recv_counts);
  return true;
}

}  // namespace

void WorkerContext::queue_calls(Submission& submission, std::span<Call> calls) {
  submission.calls.resize(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    SubmittedCall& submitted = submission.calls[i];
    Call& call = calls[i];
    submitted.submission = &submission;
    const bool cut = restrict_to_members(call);
    copy_views(submitted, call);
    submitted.terms = std::make_shared<const CallTerms>(std::move(call));
    if (cut) {
      submitted.input = submitted.input.restrict_to(submitted.lanes);
      submitted.output = submitted.output.restrict_to(submitted.lanes);
    }
    submitted.open = submitted.lanes.size();
    if (submitted.open != 0) ++submission.open;
    // A rank outside the group of one of its calls never completes the submission.
    submission.failed = submission.failed || (submitted.open == 0 && lanes_.size() == 1);
  }
}

// A call is announced even if its host has just been stopped: it counts as made.
Ticket WorkerContext::submit(std::span<Call> calls, StreamId stream) {
  if (!calls.empty())
    world_.link_.progress().line.store(calls.front().site.line, std::memory_order_relaxed);
  const Ticket ticket = is_running() ? open_ticket(stream) : refuse();
  WireWriter message = announcement(WorkerMessage::submit);
  message.add(int64_t{stream});
  message.add(ticket);
  message.add(static_cast<int64_t>(calls.size()));
  for (const Call& call : calls) write_call(message, world_.dictionary_, call);
  world_.announce(message);
  if (!is_running()) return ticket;
  auto submission = std::make_unique<Submission>();
  submission->cohort = index_;
  submission->lanes = &lanes_;
  submission->stream = stream;
  submission->ticket = ticket;
  queue_calls(*submission, calls);
  if (world_.recording_) world_.sequence_->issue(buffers_of(*submission));
  Submission* const kept = submission.get();
  world_.submissions_.emplace(ticket, std::move(submission));
  push(stream, ticket, kept);
  world_.run_received_commands();
  return ticket;
}

// --- announcements without an effect here

void WorkerContext::announce(const Allocation& allocation, WorkerMessage kind) {
  WireWriter message = announcement(kind);
  write_lanes(message, allocation.lanes);
  message.add(allocation.bytes);
  message.add(int64_t{allocation.category});
  world_.announce(message);
}

void WorkerContext::allocate(const Allocation& allocation) {
  announce(allocation, WorkerMessage::allocate);
}
void WorkerContext::release(const Allocation& allocation) {
  announce(allocation, WorkerMessage::release);
}

void WorkerContext::host_wait(Ticket ticket) {
  const bool ended = world_.tickets_.state(ticket) == TicketState::done;
  if (ticket == kDone || (ended && !world_.timed_)) return;
  WireWriter message = announcement(WorkerMessage::host_wait);
  message.add(ticket);
  world_.announce(message);
}

std::optional<TicketTimes> WorkerContext::times(Ticket ticket) {
  if (world_.read_ != nullptr) return world_.repeated_times(ticket);
  if (!world_.measures_) return std::nullopt;
  const std::optional<TicketTimes> times = world_.tickets_.times(ticket);
  return times ? world_.times_at(endpoint_).of(ticket, *times) : times;
}

void WorkerContext::elapse(Duration time) {
  WireWriter message = announcement(WorkerMessage::elapse);
  message.add(time.ps);
  world_.announce(message);
}

void WorkerContext::stop(CohortState state) {
  state_ = state;
  WireWriter message = announcement(WorkerMessage::stop);
  message.add(static_cast<int64_t>(state));
  world_.announce(message);
}

void WorkerContext::provide(const LocalTensor& value) {
  if (world_.recording_) world_.sequence_->provide(value, device());
}

void WorkerContext::discard(const LocalTensor& value) {
  if (world_.recording_) world_.sequence_->discard(value);
}

std::shared_ptr<Device> WorkerContext::device() { return world_.launched_.device_of(index_); }

void WorkerContext::finish() { world_.announce(announcement(WorkerMessage::finish)); }

void WorkerContext::read_slot(int64_t slot, LocalTensor& output) {
  const auto window = [&](int64_t rank) {
    const auto found = world_.windows_.find({rank, slot});
    return found == world_.windows_.end() ? nullptr : &found->second;
  };
  deliver_windows(window, output);
}

}  // namespace shardproof
