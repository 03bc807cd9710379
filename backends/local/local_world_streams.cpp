// Implements the streams of local_world.h.
//
// Streams whose head may run are in ready_. With fifo, settle() runs all of them whenever something
// is issued or ends. With the other schedules, progress() moves them to heads_ and runs one item of
// the first stream there, when no host can continue. Waits are no items of heads_: they do no work,
// so their age must not decide which stream goes first.
#include <algorithm>
#include <span>
#include <utility>

#include "shardproof/backends/local/local_world.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/prefetch.h"

namespace shardproof {
namespace {

// Bytes that a call of one lane reads. Times are stored after the other members; a world with a
// clock reads them.
constexpr size_t kOneLaneCallBytes = sizeof(SubmittedCall) - 2 * sizeof(LocalTensor);
constexpr size_t context_bytes(bool timed) { return timed ? 320 : 192; }
constexpr size_t stream_bytes(bool timed) { return timed ? 88 : 48; }
constexpr size_t submission_bytes(bool timed) { return timed ? sizeof(Submission) : 64; }

}  // namespace

LocalWorld::LocalWorld(const WorldOptions& options, MatchObserver* observer)
    : ranks_(options.ranks),
      cost_(options.cost),
      device_(options.device),
      schedule_(options.schedule),
      matcher_(options.cost, observer),
      planned_(options.planned),
      observed_(observer != nullptr) {}

ExecutionContext& LocalWorld::open(const Lanes& cohort) {
  SP_CHECK(!cohort.empty() && cohort[cohort.size() - 1] < ranks_,
           "cohort {} in a world of {} ranks", to_string(cohort), ranks_);
  return contexts_.emplace_back(*this, static_cast<int32_t>(contexts_.size()), cohort);
}

Submission& LocalWorld::new_submission() {
  if (free_submissions_.empty()) return submissions_.emplace_back();
  Submission& submission = *free_submissions_.back();
  free_submissions_.pop_back();
  // Submissions of thousands of ranks leave the cache between two calls. The submissions that the
  // next ranks will use are prefetched.
  const size_t left = free_submissions_.size();
  if (left >= 8) prefetch(free_submissions_[left - 8], submission_bytes(timed()));
  if (left >= 4) prefetch(free_submissions_[left - 4]->calls.data(), kOneLaneCallBytes);
  submission.started = submission.ended = submission.failed = false;
  return submission;
}

void LocalWorld::prefetch_next_calls(int32_t index) {
  constexpr int32_t kTensorsAhead = 2, kContextsAhead = 4;
  constexpr size_t kNamedBytes = 128;  // read of a block of one or two dims
  if (static_cast<size_t>(index + kContextsAhead) >= contexts_.size()) return;
  prefetch(&context(index + kContextsAhead), context_bytes(timed()));
  for (const void* const named : context(index + kTensorsAhead).named_)
    prefetch(named, kNamedBytes);
}

void LocalWorld::list(TicketTable::Place place) {
  Stream& stream = context(place.cohort).at(place.stream);
  if (stream.listed) return;
  stream.listed = true;
  ready_.push_back(place);
}

void LocalWorld::end_submission(Submission& submission) {
  // A failed submission stays in its stream: the call matcher may point at its other calls, and
  // later work of the stream never runs.
  if (submission.failed) return tickets_.end(submission.ticket, TicketState::failed);
  if (submission.may_pass) return end_submission_that_may_pass(submission);
  Stream& stream = context(submission.cohort).at(submission.stream);
  stream.submission = nullptr;
  if (timed()) {
    stream.time.raise_to(submission.end);
    tickets_.end(submission.ticket, TicketState::done, submission.start, submission.end);
  } else {
    tickets_.end(submission.ticket, TicketState::done);
  }
  free_submissions_.push_back(&submission);
  const TicketTable::Place place{submission.cohort, submission.stream};
  if (stream.has_items()) list(place);
  if (defers()) update_main_priority(place);
}

void LocalWorld::end_submission_that_may_pass(Submission& submission) {
  const TicketTable::Place place{submission.cohort, submission.stream};
  LocalContext& owner = context(place.cohort);
  Stream& stream = owner.at(place.stream);
  if (stream.submission == &submission) {
    stream.submission = nullptr;
  } else {
    // It is near the end of the queue if it has passed many items.
    const std::span<StreamItem> items = stream.items();
    size_t place = items.size() - 1;
    while (items[place].ticket != submission.ticket) --place;
    stream.remove(place);
  }
  owner.end_item(stream, submission.ticket, {submission.callers, submission.start, submission.end});
  free_submissions_.push_back(&submission);
  if (!stream.idle()) list(place);
}

void LocalWorld::wake() {
  while (!matcher_.ended().empty()) {
    ending_.clear();
    ending_.swap(matcher_.ended());
    // Submissions of thousands of ranks do not fit into the cache.
    constexpr size_t kAhead = 6;
    for (size_t i = 0; i < ending_.size(); ++i) {
      if (i + 2 * kAhead < ending_.size())
        prefetch(ending_[i + 2 * kAhead], submission_bytes(timed()));
      if (i + kAhead < ending_.size()) {
        const Submission& ahead = *ending_[i + kAhead];
        prefetch(&context(ahead.cohort).at(ahead.stream), stream_bytes(timed()));
      }
      end_submission(*ending_[i]);
    }
  }
  for (const TicketTable::Place place : tickets_.woken()) list(place);
  tickets_.woken().clear();
}

bool LocalWorld::run_head(TicketTable::Place place) {
  LocalContext& owner = context(place.cohort);
  Stream& stream = owner.at(place.stream);
  StreamItem item = std::move(stream.front());
  if (const Ticket* ticket = std::get_if<Ticket>(&item.what)) {
    if (tickets_.state(*ticket) != TicketState::done) {
      tickets_.wait(*ticket, place);
      stream.front() = std::move(item);
      return false;
    }
    stream.pop();
    if (timed()) tickets_.raise(stream.time, *ticket);
    return true;
  }
  stream.pop();
  if (Submission** submission = std::get_if<Submission*>(&item.what)) {
    stream.submission = *submission;
    if (!(*submission)->started) owner.start_submission(**submission);
  } else {
    run_work(owner, stream, item);
  }
  wake();
  return true;
}

void LocalWorld::run_work(LocalContext& owner, Stream& stream, const StreamItem& item) {
  const Work& work = std::get<Work>(item.what);
  if (work.body) work.body();
  if (timed()) {
    owner.pass_work(stream, work, item.issued, item.ticket);
  } else if (stream.passing != nullptr) {
    owner.end_item(stream, item.ticket, {work.lanes, {}, {}});
  } else {
    tickets_.end(item.ticket, TicketState::done);
  }
}

void LocalWorld::run_stream(TicketTable::Place place) {
  Stream& stream = context(place.cohort).at(place.stream);
  while (stream.submission == nullptr && stream.has_items())
    if (!run_head(place)) break;
  if (stream.passing != nullptr && !stream.idle()) run_passing_items(place);
}

// Runs items whose lanes are not in earlier items that have not ended.
void LocalWorld::run_passing_items(TicketTable::Place place) {
  LocalContext& owner = context(place.cohort);
  Stream& stream = owner.at(place.stream);
  Lanes busy = stream.submission != nullptr ? stream.submission->callers : Lanes();
  const auto is_full = [&] { return busy.size() == owner.lanes_.size(); };
  size_t at = 0;
  while (at < std::min(stream.items().size(), PassingItems::kMostSearched) && !is_full()) {
    StreamItem& item = stream.items()[at];
    const Lanes lanes = owner.lanes_of(item);
    const bool runs = !item.is_running() && !std::holds_alternative<Ticket>(item.what) &&
                      lanes.intersect(busy).empty();
    if (runs && std::holds_alternative<Work>(item.what)) {
      run_work(owner, stream, stream.remove(at));
      continue;
    }
    if (runs) owner.start_submission(*std::get<Submission*>(item.what));
    busy = busy.unite(lanes);
    ++at;
  }
  PassingItems& passing = *stream.passing;
  passing.busy = is_full() || at == stream.items().size() ? busy : busy.unite(passing.later);
  wake();
}

void LocalWorld::settle() {
  wake();
  if (defers() || running_) return;
  running_ = true;
  while (!ready_.empty()) {
    const TicketTable::Place place = ready_.front();
    ready_.pop_front();
    context(place.cohort).at(place.stream).listed = false;
    run_stream(place);
  }
  running_ = false;
}

OtherWork LocalContext::work_of_other_streams(StreamId stream) const {
  OtherWork work = OtherWork::none;
  for (StreamId other = 0; other < stream_count(); ++other) {
    if (other == stream) continue;
    if (at(other).submission != nullptr)
      work = OtherWork::in_call;
    else if (at(other).has_items())
      return OtherWork::queued;
  }
  return work;
}

StreamPriority LocalWorld::priority_now(TicketTable::Place place) {
  LocalContext& owner = context(place.cohort);
  return priority_of({owner.at(place.stream).front().ticket, place.stream,
                      owner.work_of_other_streams(place.stream)},
                     schedule_);
}

// Updates the priority of the cohort's main stream, after a call of its stream at `place` has ended
// or the stream has become idle.
void LocalWorld::update_main_priority(TicketTable::Place place) {
  if (schedule_.kind != ScheduleKind::side_first || place.stream == kMainStream) return;
  const TicketTable::Place main{place.cohort, kMainStream};
  const Stream& stream = context(place.cohort).at(kMainStream);
  if (stream.listed && stream.submission == nullptr && stream.has_items())
    heads_.push({priority_now(main), main});
}

// Moves ready streams to heads_, behind the waits at their heads whose tickets have ended. Returns
// true if it passed a wait.
bool LocalWorld::list_heads() {
  bool passed = false;
  while (!ready_.empty()) {
    const TicketTable::Place place = ready_.front();
    ready_.pop_front();
    Stream& stream = context(place.cohort).at(place.stream);
    bool waits = false;
    while (!waits && stream.submission == nullptr && stream.has_items() &&
           std::holds_alternative<Ticket>(stream.front().what)) {
      waits = !run_head(place);
      passed = passed || !waits;
    }
    if (!waits && stream.submission == nullptr && stream.has_items()) {
      heads_.push({priority_now(place), place});
    } else {
      stream.listed = false;
      if (!stream.has_items()) update_main_priority(place);
    }
  }
  return passed;
}

// Runs one item of one stream, because this may already let a host continue.
bool LocalWorld::step() {
  const bool passed = list_heads();
  while (!heads_.empty()) {
    const Head head = heads_.top();
    heads_.pop();
    Stream& stream = context(head.place.cohort).at(head.place.stream);
    if (!stream.listed || stream.submission != nullptr || !stream.has_items()) continue;
    if (const StreamPriority now = priority_now(head.place); now != head.priority) {
      heads_.push({now, head.place});
      continue;
    }
    stream.listed = false;
    run_head(head.place);
    if (stream.submission != nullptr) return true;
    if (stream.has_items())
      list(head.place);
    else
      update_main_priority(head.place);
    return true;
  }
  return passed;
}

std::optional<std::vector<int32_t>> LocalWorld::collect_ready_ranks() {
  std::optional<std::vector<int32_t>> cohorts = tickets_.collect_ended_cohorts();
  if (!cohorts) return std::nullopt;
  std::sort(cohorts->begin(), cohorts->end());
  cohorts->erase(std::unique(cohorts->begin(), cohorts->end()), cohorts->end());
  std::vector<int32_t> ranks;
  ranks.reserve(cohorts->size());
  for (const int32_t cohort : *cohorts) {
    const Lanes& lanes = context(cohort).lanes_;
    for (int64_t i = 0; i < lanes.size(); ++i) ranks.push_back(lanes[i]);
  }
  // Ranks of one collective end in ascending order, so the list is usually sorted.
  if (!std::is_sorted(ranks.begin(), ranks.end())) std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

bool LocalWorld::progress() {
  if (defers()) return step();
  const bool moved = !ready_.empty();
  settle();
  return moved;
}

}  // namespace shardproof
