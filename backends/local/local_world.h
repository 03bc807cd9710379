// LocalWorld simulates all ranks in this process. LocalContext is the execution context of one
// cohort and holds its streams. The world runs their items: at issue (schedule fifo), or one by one
// when no host can continue (seeded, adversarial). Internal to the local backend; one thread.
#pragma once

#include <array>
#include <deque>
#include <queue>

#include "shardproof/backends/local/local_backend.h"
#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/sim/call/call_terms_store.h"
#include "shardproof/sim/call/stream.h"
#include "shardproof/sim/cost/memory_meter.h"
#include "shardproof/sim/matching/call_matcher.h"

namespace shardproof {

class LocalWorld;

class LocalContext : public ExecutionContext {
 public:
  LocalContext(LocalWorld& world, int32_t index, Lanes lanes);

  StreamId stream(std::string_view name) override;
  Ticket submit(std::span<Call> calls, StreamId stream) override;
  Ticket launch(Work work) override;
  void allocate(const Allocation& allocation) override;
  void release(const Allocation& allocation) override;
  void order(StreamId stream, Ticket ticket) override;
  Ticket last(StreamId stream) override;
  void host_wait(Ticket ticket) override;
  TicketState poll(Ticket ticket) override;
  CohortState state() override { return state_; }
  void finish() override { finished_ = true; }
  std::optional<TicketTimes> times(Ticket ticket) override;
  void read_slot(int64_t slot, LocalTensor& output) override;
  std::shared_ptr<Device> device() override;
  void elapse(Duration time) override;
  void stop(CohortState state) override;

 private:
  friend class LocalWorld;
  friend struct BlockedRanksSurvey;
  bool is_running() const { return state_ == CohortState::running; }
  Stream& at(StreamId stream) {
    return stream == kMainStream ? main_ : *others_[static_cast<size_t>(stream - 1)];
  }
  const Stream& at(StreamId stream) const {
    return stream == kMainStream ? main_ : *others_[static_cast<size_t>(stream - 1)];
  }
  StreamId stream_count() const { return static_cast<StreamId>(others_.size() + 1); }
  bool runs_at_issue(const Stream& stream) const;
  Ticket refuse();
  Ticket open_ticket(StreamId stream);
  void push(StreamId stream, Ticket ticket, std::variant<Work, Submission*, Ticket> what);
  Lanes lanes_of(const StreamItem& item) const;
  // Passing (stream.h): true if an item on these lanes may run before the stream is idle.
  bool passes(const Stream& stream, const Lanes& lanes) const;
  void end_item(Stream& stream, Ticket ticket, EndedItem item);
  void end_ticket(Stream& stream, Ticket ticket, const EndedItem& item);
  void observe_host_waits();
  void pass_work(Stream& stream, const Work& work, const LaneTimes& issued, Ticket ticket);
  std::optional<Ticket> complete_if_whole_group(Call& call, StreamId stream);
  enum class Members { all, some, none };  // none: of one of the calls
  Members drop_non_members(std::span<Call> calls);
  void start_submission(Submission& submission);
  bool is_stuck() const;
  OtherWork work_of_other_streams(StreamId stream) const;
  LaneTimes through() const;

  // Members in order of use: contexts are many, and a call should touch few cache lines.
  LocalWorld& world_;
  int32_t index_;
  CohortState state_ = CohortState::running;
  bool finished_ = false;
  Lanes lanes_;
  std::vector<Ticket> host_waits_;  // tickets the host waits for whose end is not known
  // Blocks and buffers of the last call of one lane. A rank often names its tensors again, so they
  // are prefetched before its next call, and never read by these addresses.
  std::array<const void*, 4> named_{};
  Stream main_;
  LaneTimes host_time_;
  std::vector<std::unique_ptr<Stream>> others_;
  MemoryMeter memory_;
};

class LocalWorld : public World {
 public:
  LocalWorld(const WorldOptions& options, MatchObserver* observer);
  ExecutionContext& open(const Lanes& cohort) override;
  bool progress() override;
  std::optional<std::vector<int32_t>> collect_ready_ranks() override;
  WorldReport close() override;

  bool timed() const { return cost_ != nullptr; }
  // Returns the time of a kernel. Notes work without a price, for the report.
  Duration kernel_time(double flops, double bytes) {
    unpriced_work_ = unpriced_work_ || (!cost_->has_rates() && (flops > 0 || bytes > 0));
    return cost_->kernel(flops, bytes);
  }
  const std::shared_ptr<Device>& device() const { return device_; }
  bool defers() const { return schedule_.defers(); }
  // True if items of a stream may pass each other. Processes run the items of a stream in order.
  bool lets_pass() const { return !observed_ && !defers(); }
  CallMatcher& matcher() { return matcher_; }
  TicketTable& tickets() { return tickets_; }
  Submission& new_submission();
  const std::shared_ptr<const CallTerms>& share(CallTerms&& terms) {
    return terms_.share(std::move(terms));
  }
  // Prefetches the data of the calls that the next ranks make: ranks at the same line call one
  // after the other.
  void prefetch_next_calls(int32_t index);
  // Marks a stream as having an item that may run.
  void list(TicketTable::Place place);
  // Runs everything that may run after the call matcher has changed.
  void settle();

 private:
  friend struct BlockedRanksSurvey;
  LocalContext& context(int32_t index) { return contexts_[static_cast<size_t>(index)]; }
  void end_submission(Submission& submission);
  void end_submission_that_may_pass(Submission& submission);
  void run_work(LocalContext& owner, Stream& stream, const StreamItem& item);
  void wake();
  // Runs the head of a stream. Returns false if it has to wait.
  bool run_head(TicketTable::Place place);
  void run_stream(TicketTable::Place place);
  void run_passing_items(TicketTable::Place place);
  StreamPriority priority_now(TicketTable::Place place);
  void update_main_priority(TicketTable::Place place);
  bool list_heads();
  bool step();
  std::vector<Finding> find_blocked_ranks();
  void report_times(WorldReport& report);
  void report_memory(WorldReport& report);

  int64_t ranks_;
  std::shared_ptr<const CostModel> cost_;
  std::shared_ptr<Device> device_;
  Schedule schedule_;
  CallMatcher matcher_;
  TicketTable tickets_;
  PooledDeque<LocalContext> contexts_;
  PooledDeque<Submission> submissions_;
  std::vector<Submission*> free_submissions_, ending_;  // ending_: those that wake() ends now
  CallTermsStore terms_;
  std::deque<TicketTable::Place> ready_;  // with a schedule that defers: not yet in heads_
  // Streams that may run, by priority; only with a schedule that defers. A stream may have several
  // entries; those with a priority that it no longer has are skipped.
  struct Head {
    StreamPriority priority;
    TicketTable::Place place;
    bool operator<(const Head& other) const { return priority > other.priority; }
  };
  std::priority_queue<Head> heads_;
  std::function<PlannedCalls()> planned_;
  bool observed_ = false, running_ = false, unpriced_work_ = false;
};

}  // namespace shardproof
