// Implements LocalContext of local_world.h.
//
// An item (work, call, wait for a ticket) runs at issue if its stream is empty and the schedule is
// fifo. Otherwise it is queued, and the world runs it. A call of whole groups without pending calls
// completes at once; all others become submissions that the call matcher holds.
//
// In a cohort of several ranks, an item may pass earlier ones of its stream that have none of its
// lanes (stream.h). So ranks of different branches need not wait for each other. Example: ranks 0-3
// issue send on 0 2, recv on 0 2, recv on 1 3, send on 1 3. The send of 0 2 waits for its peers,
// and the recv of 0 2 waits for the send. The recv of 1 3 passes both and ends the send.
//
// Time: an item starts at the later of its stream's time and the host's time when it was issued.
#include <algorithm>
#include <utility>

#include "shardproof/backends/local/local_world.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

namespace {

// Raises times of a cohort on some of its lanes.
void raise_on(const Lanes& lanes, const Lanes& cohort, LaneTimes& times, const LaneTimes& other) {
  if (lanes.size() == cohort.size()) times.raise_to(other);
  for (int64_t i = 0; lanes.size() < cohort.size() && i < lanes.size(); ++i) {
    const int64_t at = cohort.index_of(lanes[i]);
    Duration& time = times.at(at, cohort.size());
    time = std::max(time, other[at]);
  }
  times.collapse();
}

}  // namespace

LocalContext::LocalContext(LocalWorld& world, int32_t index, Lanes lanes)
    : world_(world), index_(index), lanes_(std::move(lanes)), memory_(lanes_) {
  main_.name = "main";
  if (lanes_.size() > 1 && world_.lets_pass()) main_.passing = std::make_unique<PassingItems>();
}

StreamId LocalContext::stream(std::string_view name) {
  for (StreamId id = 0; id < stream_count(); ++id)
    if (at(id).name == name) return id;
  Stream& fresh = *others_.emplace_back(std::make_unique<Stream>());
  fresh.name = name;
  if (main_.passing != nullptr) fresh.passing = std::make_unique<PassingItems>();
  return stream_count() - 1;
}

// --- tickets -------------------------------------------------------------------------------------

Ticket LocalContext::open_ticket(StreamId stream) {
  return at(stream).last = world_.tickets().open({index_, stream});
}

// A stopped host issues nothing: its tickets never end.
Ticket LocalContext::refuse() { return world_.tickets().open({index_, kMainStream}); }

Ticket LocalContext::last(StreamId stream) { return at(stream).last; }

TicketState LocalContext::poll(Ticket ticket) { return world_.tickets().state(ticket); }

std::optional<TicketTimes> LocalContext::times(Ticket ticket) {
  if (!world_.timed()) return std::nullopt;
  return world_.tickets().times(ticket);
}

void LocalContext::host_wait(Ticket ticket) {
  if (world_.tickets().state(ticket) != TicketState::done) {
    host_waits_.push_back(ticket);
  } else if (world_.timed()) {
    world_.tickets().raise(host_time_, ticket);
  }
}

// The host's clock moves once the end of a ticket it waits for is known.
void LocalContext::observe_host_waits() {
  if (host_waits_.empty()) return;
  std::erase_if(host_waits_, [&](Ticket ticket) {
    if (world_.tickets().state(ticket) != TicketState::done) return false;
    if (world_.timed()) world_.tickets().raise(host_time_, ticket);
    return true;
  });
}

void LocalContext::elapse(Duration time) {
  observe_host_waits();
  host_time_.for_each([&](Duration& host) { host += time; });
}

LaneTimes LocalContext::through() const {
  LaneTimes all = host_time_;
  for (StreamId id = 0; id < stream_count(); ++id) all.raise_to(at(id).time);
  return all;
}

// --- items ---------------------------------------------------------------------------------------

bool LocalContext::runs_at_issue(const Stream& stream) const {
  return stream.idle() && !world_.defers();
}

void LocalContext::push(StreamId stream, Ticket ticket,
                        std::variant<Work, Submission*, Ticket> what) {
  Stream& target = at(stream);
  const bool was_idle = target.idle();
  target.push({ticket, std::move(what), host_time_});
  if (target.passing != nullptr) {
    PassingItems& passing = *target.passing;
    const Lanes lanes = lanes_of(target.items().back());
    passing.busy = was_idle ? lanes : passing.busy.unite(lanes);
    if (target.items().size() > PassingItems::kMostSearched)
      passing.later = passing.later.unite(lanes);
    else
      passing.later = {};
  }
  if (target.submission == nullptr) world_.list({index_, stream});
}

Lanes LocalContext::lanes_of(const StreamItem& item) const {
  if (const Work* work = std::get_if<Work>(&item.what)) return work->lanes;
  Submission* const* submission = std::get_if<Submission*>(&item.what);
  return submission == nullptr ? lanes_ : (*submission)->callers;
}

Ticket LocalContext::launch(Work work) {
  Stream& stream = at(work.stream);
  if ((runs_at_issue(stream) || passes(stream, work.lanes)) && is_running()) {
    if (work.body) work.body();
    if (!world_.timed()) return kDone;
    observe_host_waits();
    const Ticket ticket = open_ticket(work.stream);
    pass_work(stream, work, host_time_, ticket);
    return ticket;
  }
  if (!is_running()) return refuse();
  observe_host_waits();
  const StreamId id = work.stream;
  const Ticket ticket = open_ticket(id);
  push(id, ticket, std::move(work));
  world_.settle();
  return ticket;
}

void LocalContext::pass_work(Stream& stream, const Work& work, const LaneTimes& issued,
                             Ticket ticket) {
  if (stream.passing != nullptr)
    raise_on(work.lanes, lanes_, stream.time, issued);
  else
    stream.time.raise_to(issued);
  const LaneTimes start = stream.time;
  const Duration cost = world_.kernel_time(work.flops, work.bytes);
  if (work.lanes.size() == lanes_.size()) {
    stream.time.for_each([&](Duration& time) { time += cost; });
  } else if (cost != Duration{}) {
    for (int64_t i = 0; i < work.lanes.size(); ++i)
      stream.time.at(lanes_.index_of(work.lanes[i]), lanes_.size()) += cost;
  }
  if (stream.passing != nullptr)
    end_item(stream, ticket, {work.lanes, start, stream.time});
  else
    world_.tickets().end(ticket, TicketState::done, start, stream.time);
}

void LocalContext::order(StreamId id, Ticket ticket) {
  if (ticket == kDone || !is_running()) return;
  Stream& stream = at(id);
  observe_host_waits();
  if (stream.idle() && world_.tickets().state(ticket) == TicketState::done) {
    if (world_.timed()) world_.tickets().raise(stream.time, ticket);
    return;
  }
  push(id, kDone, ticket);
  world_.settle();
}

// --- calls ---------------------------------------------------------------------------------------

namespace {

const void* blocks_of(const LocalTensor* tensor) {
  return tensor == nullptr ? nullptr : tensor->blocks().data();
}

bool may_cover_groups(const Call& call) {
  return call.lanes.size() >= call.collective.group.size();
}

Lanes callers_of(const PooledVector<SubmittedCall>& calls) {
  if (calls.size() == 1) return calls[0].lanes;
  std::vector<int32_t> ranks;
  for (const SubmittedCall& call : calls)
    for (int64_t i = 0; i < call.lanes.size(); ++i) ranks.push_back(call.lanes[i]);
  return Lanes::of(std::move(ranks));
}

// Restricts the views after lanes that are not members were removed.
void restrict_views(SubmittedCall& submitted) {
  submitted.input = submitted.input.restrict_to(submitted.lanes);
  submitted.output = submitted.output.restrict_to(submitted.lanes);
}

}  // namespace

// Fast path: completes a call that covers whole groups and returns its ticket; nullopt if the call
// has to wait for others.
std::optional<Ticket> LocalContext::complete_if_whole_group(Call& call, StreamId id) {
  Stream& stream = at(id);
  if (!world_.timed()) {
    if (world_.matcher().complete_if_whole_group(call, lanes_, nullptr)) return kDone;
    return std::nullopt;
  }
  LaneTimes start = stream.time;
  start.raise_to(host_time_);
  LaneTimes end = start;
  if (!world_.matcher().complete_if_whole_group(call, lanes_, &end)) return std::nullopt;
  const Ticket ticket = open_ticket(id);
  if (stream.passing != nullptr) {
    end_item(stream, ticket, {call.lanes, std::move(start), std::move(end)});
  } else {
    stream.time = end;
    world_.tickets().end(ticket, TicketState::done, start, end);
  }
  return ticket;
}

Ticket LocalContext::submit(std::span<Call> calls, StreamId id) {
  if (!is_running()) return refuse();
  if (lanes_.size() == 1) world_.prefetch_next_calls(index_);
  observe_host_waits();
  Stream& stream = at(id);
  if (calls.size() == 1 && runs_at_issue(stream) && may_cover_groups(calls[0]))
    if (const std::optional<Ticket> ticket = complete_if_whole_group(calls[0], id)) return *ticket;
  const Members members = drop_non_members(calls);
  Submission& submission = world_.new_submission();
  // A rank that runs alone and is no member of the group of one of its calls never completes them.
  submission.failed = members == Members::none && lanes_.size() == 1;
  submission.cohort = index_;
  submission.lanes = &lanes_;
  submission.stream = id;
  submission.ticket = open_ticket(id);
  submission.calls.resize(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    SubmittedCall& submitted = submission.calls[i];
    submitted.submission = &submission;
    submitted.number = {};
    submitted.separated = false;
    submitted.lanes = calls[i].lanes;
    const std::shared_ptr<const CallTerms>& terms = world_.share(std::move(calls[i]));
    if (submitted.terms != terms) submitted.terms = terms;
    world_.matcher().number(submitted);
    copy_views(submitted, calls[i]);
    if (lanes_.size() == 1)
      named_ = {blocks_of(calls[i].input), blocks_of(calls[i].output), submitted.in.buffer.get(),
                submitted.out.buffer.get()};
    if (members != Members::all) restrict_views(submitted);
  }
  const Ticket ticket = submission.ticket;
  if (world_.timed()) submission.issued = host_time_;
  submission.may_pass = stream.passing != nullptr;
  if (submission.may_pass) submission.callers = callers_of(submission.calls);
  if (runs_at_issue(stream)) {
    stream.submission = &submission;
    if (submission.may_pass) stream.passing->busy = submission.callers;
    start_submission(submission);
  } else if (passes(stream, submission.callers)) {
    push(id, ticket, &submission);
    start_submission(submission);
  } else {
    push(id, ticket, &submission);
  }
  world_.settle();
  return ticket;
}

// Removes lanes that are not members of the group of their call, and returns which were.
LocalContext::Members LocalContext::drop_non_members(std::span<Call> calls) {
  Members members = Members::all;
  for (Call& call : calls) {
    if (world_.matcher().drop_non_members(call) && members == Members::all) members = Members::some;
    if (call.lanes.empty()) members = Members::none;
  }
  return members;
}

void LocalContext::start_submission(Submission& submission) {
  if (world_.timed()) {
    submission.start = at(submission.stream).time;
    submission.start.raise_to(submission.issued);
  }
  world_.matcher().start(submission);
}

// --- ends ----------------------------------------------------------------------------------------

bool LocalContext::is_stuck() const {
  for (StreamId id = 0; id < stream_count(); ++id)
    if (at(id).has_failed()) return true;
  return false;
}

bool LocalContext::passes(const Stream& stream, const Lanes& lanes) const {
  return stream.passing != nullptr && !stream.idle() &&
         lanes.intersect(stream.passing->busy).empty();
}

// Ends the ticket of an item, and those of later items that wait for it. Requires that the item is
// not in the stream any more.
void LocalContext::end_item(Stream& stream, Ticket ticket, EndedItem item) {
  PassingItems& passing = *stream.passing;
  if (world_.timed()) raise_on(item.lanes, lanes_, stream.time, item.end);
  if (!stream.is_oldest(ticket)) {
    passing.ended.emplace(ticket, std::move(item));
    return;
  }
  end_ticket(stream, ticket, item);
  while (!passing.ended.empty() && stream.is_oldest(passing.ended.begin()->first)) {
    const auto first = passing.ended.begin();
    end_ticket(stream, first->first, first->second);
    passing.ended.erase(first);
  }
}

// A wait for the ticket waits for all items up to it, so the ticket has the times of all of them.
void LocalContext::end_ticket(Stream& stream, Ticket ticket, const EndedItem& item) {
  if (!world_.timed()) return world_.tickets().end(ticket, TicketState::done);
  LaneTimes& time = stream.passing->ticket_time;
  raise_on(item.lanes, lanes_, time, item.end);
  world_.tickets().end(ticket, TicketState::done, item.start, time);
}

// Items issued before the fault still run, with every schedule.
void LocalContext::stop(CohortState state) { state_ = state; }

// --- memory --------------------------------------------------------------------------------------

void LocalContext::allocate(const Allocation& allocation) {
  memory_.allocate(allocation.lanes, allocation.bytes, allocation.category);
}

void LocalContext::release(const Allocation& allocation) {
  memory_.release(allocation.lanes, allocation.bytes, allocation.category);
}

std::shared_ptr<Device> LocalContext::device() { return world_.device(); }

void LocalContext::read_slot(int64_t slot, LocalTensor& output) {
  const auto window = [&](int64_t rank) { return world_.matcher().window(rank, slot); };
  deliver_windows(window, output);
}

}  // namespace shardproof
