// Implements flight_recorder.h.
//
// Each call or named work becomes an Entry when it is issued. Entries share a CallShape: the fields
// that equal calls of many ranks have in common. Shapes share a CallKind: the fields that the
// passes of a loop have in common. When the world closes, each entry's state and times are read
// from its context. Entries of single ranks that are equal in everything are merged into one
// record.
#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/decorators/flight_recorder.h"
#include "shardproof/backends/decorators/forwarding_context.h"
#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/localtensor/base/pair_table.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/analysis/record_order.h"
#include "shardproof/sim/call/sent_bytes.h"

namespace shardproof {
namespace {

// Copies of a group share their key object.
bool same_group(const Group& a, const Group& b) {
  return &a.key() == &b.key() || (a.name() == b.name() && a.key() == b.key());
}

uint64_t combined_hash(uint64_t hash, int64_t part) {
  return (hash ^ static_cast<uint64_t>(part)) * 0x9E3779B97F4A7C15ull;
}
int64_t hash_of(std::string_view text) {
  return static_cast<int64_t>(std::hash<std::string_view>()(text));
}
int64_t hash_of(double number) { return static_cast<int64_t>(std::hash<double>()(number)); }

// A view of a CallKind, for look-up without a copy. For work, `collective` is null.
struct CallKindView {
  const Collective* collective = nullptr;
  int64_t peer = 0;
  std::string_view work;  // name of the work; empty for a call
  std::string_view stream;

  uint64_t hash() const {
    uint64_t h = combined_hash(0, hash_of(work));
    if (collective == nullptr) return h;
    for (const int64_t part : {static_cast<int64_t>(collective->kind), collective->count,
                               static_cast<int64_t>(collective->dtype), peer, collective->root,
                               hash_of(collective->reduction.scalar)})
      h = combined_hash(h, part);
    return h;
  }
};

// A call without its place in the program: the passes of a loop make calls of one kind.
struct CallKind {
  Collective collective;
  std::string work, stream;

  explicit CallKind(const CallKindView& view) : work(view.work), stream(view.stream) {
    if (view.collective == nullptr) return;
    collective = *view.collective;
    collective.peer = view.peer;
  }
  bool operator==(const CallKindView& view) const {
    if (work != view.work || stream != view.stream) return false;
    if (view.collective == nullptr) return true;
    const Collective &a = collective, &b = *view.collective;
    return a.kind == b.kind && a.count == b.count && a.peer == view.peer && a.root == b.root &&
           a.dtype == b.dtype && a.reduction == b.reduction && same_group(a.group, b.group);
  }
};

// A kind of call and the place of the call, which equal calls of many ranks have in common.
struct CallShape {
  const CallKind* kind = nullptr;
  int line = 0;
  std::string instance;

  bool is(const CallKind* other, const CallSite& site) const {
    return kind == other && line == site.line && instance == site.instance;
  }
};

// The kinds and shapes of a run. Their addresses are stable.
class CallShapes {
 public:
  // Returns the shape of a call that other cohorts make too: those of single ranks.
  const CallShape* intern(const CallKindView& view, const CallSite& site) {
    const CallKind* const kind = intern(view);
    // Ranks at the same line make the same call one after the other.
    if (last_ != nullptr && last_->is(kind, site)) return last_;
    const uint64_t hash = combined_hash(combined_hash(reinterpret_cast<uintptr_t>(kind), site.line),
                                        hash_of(site.instance));
    const auto [first, last] = shapes_.equal_range(hash);
    for (auto at = first; at != last; ++at)
      if (at->second.is(kind, site)) return last_ = &at->second;
    CallShape fresh{kind, site.line, std::string(site.instance)};
    return last_ = &shapes_.emplace(hash, std::move(fresh))->second;
  }
  // Returns the shape of a call of a whole cohort.
  const CallShape* add(const CallKindView& view, const CallSite& site) {
    const CallKind* const kind = intern(view);
    if (last_ != nullptr && last_->is(kind, site)) return last_;
    return last_ =
               &of_cohorts_.emplace_back(CallShape{kind, site.line, std::string(site.instance)});
  }

 private:
  const CallKind* intern(const CallKindView& view) {
    if (last_kind_ != nullptr && *last_kind_ == view) return last_kind_;
    const auto [first, last] = kinds_.equal_range(view.hash());
    for (auto at = first; at != last; ++at)
      if (at->second == view) return last_kind_ = &at->second;
    return last_kind_ = &kinds_.emplace(view.hash(), CallKind(view))->second;
  }

  // Never iterated: unordered.
  std::unordered_multimap<uint64_t, CallKind> kinds_;
  std::unordered_multimap<uint64_t, CallShape> shapes_;
  PooledDeque<CallShape> of_cohorts_;
  const CallKind* last_kind_ = nullptr;
  const CallShape* last_ = nullptr;
};

// Values of calls whose lanes differ, that leave out lanes of their cohort, or that have a table of
// counts.
struct LaneDetails {
  Lanes lanes;
  PerLane<int64_t> sequence, number;  // by lane
  std::vector<int64_t> peers;
  std::vector<std::vector<int64_t>> send_counts;
};

// A call or a work as it was issued.
struct Entry {
  ExecutionContext* context = nullptr;  // the inner context
  const Lanes* cohort = nullptr;
  const CallShape* shape = nullptr;
  Ticket ticket = kDone;
  int64_t sequence = 0, number = 0;
  StreamId stream = 0;
  int32_t rank = 0;  // first rank of the cohort
  int32_t peer = 0;  // of a message or a one-sided call of a cohort of one rank
  std::unique_ptr<LaneDetails> spread;

  const Lanes& lanes() const { return spread ? spread->lanes : *cohort; }
};

// Counts calls on each rank of a cohort separately.
class Counter {
 public:
  int64_t next_of_one() { return ++counts_.at(0, 1); }  // for a cohort of one rank
  PerLane<int64_t> next(const Lanes& lanes, const Lanes& cohort) {
    if (counts_.uniform() && lanes.size() == cohort.size()) {
      counts_.set_all(counts_[0] + 1);
      return counts_;
    }
    PerLane<int64_t> numbers;
    for (int64_t i = 0; i < lanes.size(); ++i)
      numbers.at(i, lanes.size()) = ++counts_.at(cohort.index_of(lanes[i]), cohort.size());
    numbers.collapse();
    return numbers;
  }

 private:
  PerLane<int64_t> counts_;
};

// Numbers of the sends and receives between pairs of ranks, in the order in which a rank issues
// them.
class MessageNumbers {
 public:
  // Returns the number of each lane of a send or receive.
  PerLane<int64_t> next(const Call& call) {
    const bool sends = call.collective.kind == CollectiveKind::send;
    PairTable<int32_t>& counts = counts_of(call.collective.group, sends);
    const int64_t lanes = call.lanes.size();
    PerLane<int64_t> numbers;
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t peer =
          call.peers.empty() ? call.collective.peer : call.peers[static_cast<size_t>(i)];
      const int64_t number = ++counts.at(call.lanes[i], static_cast<int32_t>(peer));
      if (i == 0) numbers.set_all(number);
      if (!numbers.uniform() || number != numbers[0]) numbers.at(i, lanes) = number;
    }
    return numbers;
  }

 private:
  struct GroupCounts {
    Group group;
    PairTable<int32_t> sends, receives;  // by rank and peer, an index in the group
  };
  PairTable<int32_t>& counts_of(const Group& group, bool sends) {
    const auto known =
        std::find_if(groups_.begin(), groups_.end(), [&](const GroupCounts& of_group) {
          return &of_group.group.key() == &group.key() || of_group.group.key() == group.key();
        });
    GroupCounts& counts =
        known != groups_.end() ? *known : groups_.emplace_back(GroupCounts{group, {}, {}});
    return sends ? counts.sends : counts.receives;
  }

  std::deque<GroupCounts> groups_;
};

class Recorder {
 public:
  explicit Recorder(int64_t max_records) : max_records_(static_cast<size_t>(max_records)) {}
  void add(Entry entry) {
    if (max_records_ == 0) return;
    if (entries_.size() == max_records_) entries_.pop_front();
    entries_.push_back(std::move(entry));
  }
  const CallShape* shape_of(const CallKindView& kind, const CallSite& site, const Lanes& cohort) {
    return cohort.size() == 1 ? shapes_->intern(kind, site) : shapes_->add(kind, site);
  }
  MessageNumbers& messages() { return messages_; }
  // Returns everything that was recorded. Nothing is recorded after it.
  std::shared_ptr<RecordSource> release_recording();
  // Returns the same with the times as they are now, and records on.
  std::vector<Record> records() const;
  // Returns the calls that explain a mismatch; nullopt for other findings.
  std::optional<MismatchedCollective> instance_of(const Finding& finding) const;

 private:
  size_t max_records_;
  PooledDeque<Entry> entries_;
  std::shared_ptr<CallShapes> shapes_ = std::make_shared<CallShapes>();
  MessageNumbers messages_;
};

// --- from entries to records ---------------------------------------------------------------------

Record base_record(const CallShape& shape) {
  const CallKind& kind = *shape.kind;
  Record record;
  record.stream = kind.stream;
  record.line = shape.line;
  record.instance = shape.instance;
  if (!kind.work.empty()) {
    record.kind = kind.work;
    return record;
  }
  const Collective& c = kind.collective;
  record.kind = name(c.kind);
  record.group = c.group.name();
  record.members = c.group.size();
  if (reduces(c.kind)) record.reduction = to_string(c.reduction);
  if (has_root(c.kind)) record.root = c.root;
  if (is_point_to_point(c.kind)) record.root = c.peer;
  if (c.kind == CollectiveKind::barrier) return record;
  record.dtype = c.dtype;
  const bool whole = c.kind == CollectiveKind::reduce_scatter || c.kind == CollectiveKind::scatter;
  record.sizes = {whole ? c.count * c.group.size() : c.count};
  if (c.kind == CollectiveKind::recv || c.kind == CollectiveKind::signal ||
      c.kind == CollectiveKind::wait_signal)
    return record;
  record.bytes_sent = bytes_sent(c);
  return record;
}

// Returns the bytes that a rank sends in an uneven exchange, without those for itself.
int64_t bytes_sent_unevenly(const CallShape& shape, int64_t rank,
                            const std::vector<int64_t>& counts) {
  const Collective& c = shape.kind->collective;
  const int64_t self = c.group.index_of(rank);
  int64_t sent = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    if (static_cast<int64_t>(i) != self) sent += counts[i];
  return sent * size_of(c.dtype);
}

bool only_takes(const CallShape& shape, int64_t rank) {
  return shape.kind->work.empty() && only_receives(shape.kind->collective, rank);
}

// A call or work of several ranks, with its state and times.
struct EndedCall {
  const CallShape* shape = nullptr;
  RecordState state = RecordState::issued;
  Lanes cohort;
  int64_t sequence = 0, number = 0;     // of all lanes; not used with `spread`
  std::unique_ptr<LaneDetails> spread;  // null: the record is the same on all lanes
  std::unique_ptr<TicketTimes> times;   // null: it has not ended, or there is no clock

  const Lanes& lanes() const { return spread ? spread->lanes : cohort; }
};

// Sets the fields of a record that may differ between the lanes of one call.
void refine(Record& record, const EndedCall& call, int64_t lane) {
  const LaneDetails* const spread = call.spread.get();
  const int64_t rank = call.lanes()[lane];
  record.sequence = spread ? spread->sequence[lane] : call.sequence;
  record.call = spread ? spread->number[lane] : call.number;
  if (only_takes(*call.shape, rank)) record.bytes_sent = 0;
  if (spread && !spread->peers.empty()) record.root = spread->peers[static_cast<size_t>(lane)];
  if (spread && !spread->send_counts.empty()) {
    record.sizes = spread->send_counts[static_cast<size_t>(lane)];
    record.bytes_sent = bytes_sent_unevenly(*call.shape, rank, record.sizes);
  }
  if (!call.times) return;
  const int64_t at = call.cohort.size() == 1 ? 0 : call.cohort.index_of(rank);
  record.start = call.times->start[at];
  record.end = call.times->end[at];
  record.clock = call.times->clock;
  record.expected = call.times->expected;
}

bool lanes_send_equal_bytes(const EndedCall& call) {
  const CallKind& kind = *call.shape->kind;
  const bool by_role = kind.work.empty() && sends_by_role(kind.collective.kind);
  return !by_role && (!call.spread || call.spread->send_counts.empty());
}

bool lanes_have_equal_records(const EndedCall& call) {
  if (call.lanes().size() == 1) return true;
  const bool same_times = !call.times || (call.times->start.uniform() && call.times->end.uniform());
  if (!lanes_send_equal_bytes(call) || !same_times) return false;
  const LaneDetails* const spread = call.spread.get();
  return !spread ||
         (spread->sequence.uniform() && spread->number.uniform() && spread->peers.empty());
}

// States of calls, in order of issue: a call whose stream has an earlier unfinished one has not
// started.
class Outcomes {
 public:
  RecordState of(const Entry& entry) {
    const TicketState state = entry.context->poll(entry.ticket);
    if (state == TicketState::done) return RecordState::done;
    bool& behind = blocked_[{entry.context, entry.stream}];
    const bool was_behind = std::exchange(behind, true);
    if (state == TicketState::failed) return RecordState::failed;
    return was_behind ? RecordState::issued : RecordState::started;
  }

 private:
  std::map<std::pair<const ExecutionContext*, StreamId>, bool> blocked_;
};

// A call of one rank without its shape: thousands of equal ones become one record.
struct SingleRankCall {
  const CallShape* shape;
  int64_t sequence, number;
  RecordState state;
  Duration start, end;
  int32_t rank, peer;
  TimedBy clock;
  Duration expected;
  bool takes;  // receives only
  auto content() const {
    return std::tie(sequence, number, shape, state, start, end, clock, expected, takes, peer);
  }
  bool operator<(const SingleRankCall& o) const { return content() < o.content(); }
};

// Everything that a run recorded.
class Recording : public RecordSource {
 public:
  explicit Recording(std::shared_ptr<CallShapes> shapes) : shapes_(std::move(shapes)) {}
  void add(SingleRankCall single) { singles_.push_back(std::move(single)); }
  void add(EndedCall call) { calls_.push_back(std::move(call)); }

  std::vector<Record> records() override {
    std::vector<Record> records;
    for (const EndedCall& call : calls_) {
      Record base = base_record(*call.shape);
      base.state = call.state;
      const int64_t parts = lanes_have_equal_records(call) ? 1 : call.lanes().size();
      for (int64_t lane = 0; lane < parts; ++lane) {
        Record& record = records.emplace_back(base);
        record.ranks = parts == 1 ? call.lanes() : Lanes::one(call.lanes()[lane]);
        refine(record, call, lane);
      }
    }
    add_singles(records);
    return in_order(std::move(records));
  }

  std::vector<CallTotal> call_totals() override {
    CallTotals totals;
    std::unordered_map<const CallShape*, KindOfCalls> kinds;
    const auto kind_of = [&](const CallShape& shape) -> const KindOfCalls& {
      const auto [at, fresh] = kinds.try_emplace(&shape);
      if (fresh) at->second = kind_of_calls(shape, totals);
      return at->second;
    };
    for (const SingleRankCall& single : singles_) {
      if (single.state != RecordState::done || !single.shape->kind->work.empty()) continue;
      const KindOfCalls& kind = kind_of(*single.shape);
      totals.add(kind.index, Lanes::one(single.rank), single.takes ? Fraction{} : kind.bytes);
    }
    for (const EndedCall& call : calls_) {
      if (call.state != RecordState::done || !call.shape->kind->work.empty()) continue;
      const KindOfCalls& kind = kind_of(*call.shape);
      if (lanes_send_equal_bytes(call)) {
        totals.add(kind.index, call.lanes(), kind.bytes);
        continue;
      }
      for (int64_t lane = 0; lane < call.lanes().size(); ++lane) {
        Record record;
        record.bytes_sent = kind.bytes;
        refine(record, call, lane);
        totals.add(kind.index, Lanes::one(call.lanes()[lane]), record.bytes_sent);
      }
    }
    return totals.totals();
  }

 private:
  struct KindOfCalls {
    size_t index = 0;
    Fraction bytes;  // sent by a rank
  };
  static KindOfCalls kind_of_calls(const CallShape& shape, CallTotals& totals) {
    const Record record = base_record(shape);
    return {totals.index_of(record.kind, record.group), record.bytes_sent};
  }
  void add_singles(std::vector<Record>& records);

  std::shared_ptr<CallShapes> shapes_;  // that the calls refer to
  std::vector<SingleRankCall> singles_;
  PooledDeque<EndedCall> calls_;  // in the memory of the entries that they replace
};

void Recording::add_singles(std::vector<Record>& records) {
  // Ranks at the same line issued them in this order.
  if (!std::is_sorted(singles_.begin(), singles_.end()))
    std::sort(singles_.begin(), singles_.end());
  for (size_t first = 0, next = 0; first < singles_.size(); first = next) {
    const SingleRankCall& single = singles_[first];
    std::vector<int32_t> ranks;
    for (; next < singles_.size() && singles_[next].content() == single.content(); ++next)
      ranks.push_back(singles_[next].rank);
    Record record = base_record(*single.shape);
    record.ranks = Lanes::of(std::move(ranks));
    record.sequence = single.sequence;
    record.call = single.number;
    record.state = single.state;
    record.start = single.start;
    record.end = single.end;
    record.clock = single.clock;
    record.expected = single.expected;
    if (single.takes) record.bytes_sent = 0;
    const CallKind& kind = *single.shape->kind;
    if (kind.work.empty() && is_point_to_point(kind.collective.kind)) record.root = single.peer;
    records.push_back(std::move(record));
  }
}

// Adds an entry with its state and times as they are now. `spread` are its details.
void add_entry(Recording& recording, const Entry& entry, std::unique_ptr<LaneDetails> spread,
               Outcomes& outcomes) {
  const RecordState state = outcomes.of(entry);
  std::optional<TicketTimes> times = entry.context->times(entry.ticket);
  if (spread || entry.cohort->size() > 1) {
    recording.add(EndedCall{entry.shape, state, *entry.cohort, entry.sequence, entry.number,
                            std::move(spread),
                            times ? std::make_unique<TicketTimes>(std::move(*times)) : nullptr});
    return;
  }
  SingleRankCall single{entry.shape,
                        entry.sequence,
                        entry.number,
                        state,
                        {},
                        {},
                        entry.rank,
                        entry.peer,
                        TimedBy::world,
                        {},
                        only_takes(*entry.shape, entry.rank)};
  if (times) {
    single.start = times->start[0];
    single.end = times->end[0];
    single.clock = times->clock;
    single.expected = times->expected;
  }
  recording.add(single);
}

std::shared_ptr<RecordSource> Recorder::release_recording() {
  auto recording = std::make_shared<Recording>(std::move(shapes_));
  Outcomes outcomes;
  for (; !entries_.empty(); entries_.pop_front()) {
    Entry& entry = entries_.front();
    std::unique_ptr<LaneDetails> spread = std::move(entry.spread);
    add_entry(*recording, entry, std::move(spread), outcomes);
  }
  return recording;
}

std::vector<Record> Recorder::records() const {
  Recording recording(shapes_);
  Outcomes outcomes;
  for (const Entry& entry : entries_)
    add_entry(recording, entry,
              entry.spread ? std::make_unique<LaneDetails>(*entry.spread) : nullptr, outcomes);
  return recording.records();
}

// Finds the group of a finding by its text among the calls that its ranks made.
std::optional<MismatchedCollective> Recorder::instance_of(const Finding& finding) const {
  if (finding.verdict != Verdict::mismatch || finding.ranks.empty()) return std::nullopt;
  const std::string group = finding.group.substr(0, finding.group.find(' '));
  const int64_t rank = finding.ranks[0];
  for (const Entry& entry : entries_) {
    const Group& candidate = entry.shape->kind->collective.group;
    if (candidate.name() != group || !entry.lanes().contains(rank)) continue;
    const Lanes members = Lanes::of(candidate.members(candidate.sibling_of(rank)));
    return MismatchedCollective{members, finding.ranks.intersect(members), group, finding.call};
  }
  return std::nullopt;
}

void add_divergence(Finding& finding, const MismatchedCollective& instance,
                    const std::vector<Record>& records) {
  if (differ_in_order(records, instance)) finding.fix = std::string(kSameOrder);
  const std::string text = first_divergence(records, instance);
  if (!text.empty()) finding.details.push_back("first divergence   " + text);
}

// --- the execution context

class RecordingContext : public ForwardingContext {
 public:
  RecordingContext(ExecutionContext& inner, Lanes lanes, Recorder& recorder)
      : ForwardingContext(inner), lanes_(std::move(lanes)), recorder_(recorder) {}

  StreamId stream(std::string_view name) override {
    const StreamId id = inner().stream(name);
    names_[id] = name;
    return id;
  }

  Ticket submit(std::span<Call> calls, StreamId stream) override {
    if (calls.size() == 1) {
      Entry entry = entry_of(calls[0], stream);
      const Ticket ticket = entry.ticket = inner().submit(calls, stream);
      recorder_.add(std::move(entry));
      return ticket;
    }
    std::vector<Entry> entries;
    entries.reserve(calls.size());
    for (const Call& call : calls) entries.push_back(entry_of(call, stream));
    const Ticket ticket = inner().submit(calls, stream);
    for (Entry& entry : entries) {
      entry.ticket = ticket;
      recorder_.add(std::move(entry));
    }
    return ticket;
  }

  Ticket launch(Work work) override {
    if (work.name.empty()) return inner().launch(std::move(work));
    CallKindView kind;
    kind.work = work.name;
    Entry entry = place(kind, work.lanes, work.stream, work.site);
    const Ticket ticket = entry.ticket = inner().launch(std::move(work));
    recorder_.add(std::move(entry));
    return ticket;
  }

 private:
  Entry place(CallKindView& kind, const Lanes& lanes, StreamId stream, const CallSite& site) {
    kind.stream = stream == kMainStream ? std::string_view("main") : names_.at(stream);
    Entry entry;
    entry.context = &inner();
    entry.cohort = &lanes_;
    entry.rank = lanes_[0];
    entry.shape = recorder_.shape_of(kind, site, lanes_);
    entry.stream = stream;
    if (lanes_.size() == 1) {
      entry.sequence = lanes.empty() ? 0 : sequence_.next_of_one();
      return entry;
    }
    PerLane<int64_t> sequence = sequence_.next(lanes, lanes_);
    if (sequence.uniform() && lanes.size() == lanes_.size()) {
      entry.sequence = sequence[0];
    } else {
      entry.spread = std::make_unique<LaneDetails>();
      entry.spread->lanes = lanes;
      entry.spread->sequence = std::move(sequence);
    }
    return entry;
  }

  Entry entry_of(const Call& call, StreamId stream) {
    CallKindView kind;
    kind.collective = &call.collective;
    const bool is_single = lanes_.size() == 1, has_counts = !call.send_counts.empty();
    // Ranks with different peers share the kind of a call.
    kind.peer = is_single ? 0 : call.collective.peer;
    Entry entry = place(kind, call.lanes, stream, call.site);
    if (is_single)
      entry.peer = static_cast<int32_t>(call.peers.empty() ? call.collective.peer : call.peers[0]);
    if (is_single && !has_counts && !is_point_to_point(call.collective.kind) &&
        !call.lanes.empty()) {
      entry.number = counter(call.collective.group).next_of_one();
      return entry;
    }
    PerLane<int64_t> number = number_of(call);
    if (!entry.spread) {
      entry.number = number[0];
      const bool is_same_on_lanes = is_single || (number.uniform() && call.peers.empty());
      if (is_same_on_lanes && !has_counts) return entry;
      entry.spread = std::make_unique<LaneDetails>();
      entry.spread->lanes = call.lanes;
      entry.spread->sequence.set_all(entry.sequence);
    }
    entry.spread->number = std::move(number);
    if (!is_single) entry.spread->peers = call.peers;
    entry.spread->send_counts = call.send_counts;
    return entry;
  }

  PerLane<int64_t> number_of(const Call& call) {
    const CollectiveKind kind = call.collective.kind;
    if (!is_point_to_point(kind)) return counter(call.collective.group).next(call.lanes, lanes_);
    if (kind != CollectiveKind::send && kind != CollectiveKind::recv) return {};
    return recorder_.messages().next(call);
  }

  Counter& counter(const Group& group) {
    for (auto& [known, counter] : counters_)
      if (same_group(known, group)) return counter;
    return counters_.emplace_back(group, Counter()).second;
  }

  Lanes lanes_;
  Recorder& recorder_;
  Counter sequence_;
  std::map<StreamId, std::string> names_;
  std::vector<std::pair<Group, Counter>> counters_;
};

class RecordedWorld : public World {
 public:
  RecordedWorld(std::unique_ptr<World> world, int64_t max_records)
      : inner_(std::move(world)), recorder_(max_records) {}
  ExecutionContext& open(const Lanes& cohort) override {
    return contexts_.emplace_back(inner_->open(cohort), cohort, recorder_);
  }
  bool progress() override { return inner_->progress(); }
  std::optional<std::vector<int32_t>> collect_ready_ranks() override {
    return inner_->collect_ready_ranks();
  }
  WorldProcesses* processes() override { return inner_->processes(); }
  std::vector<Record> measured_records() const override { return recorder_.records(); }
  WorldReport close() override {
    if (processes() != nullptr) return inner_->close();
    WorldReport report = inner_->close();
    std::vector<std::pair<Finding*, MismatchedCollective>> mismatches;
    for (Finding& finding : report.findings)
      if (std::optional<MismatchedCollective> instance = recorder_.instance_of(finding))
        mismatches.emplace_back(&finding, std::move(*instance));
    report.records = LazyRecords(recorder_.release_recording());
    for (auto& [finding, instance] : mismatches) add_divergence(*finding, instance, report.records);
    return report;
  }

 private:
  std::unique_ptr<World> inner_;
  Recorder recorder_;
  PooledDeque<RecordingContext> contexts_;
};

}  // namespace

std::unique_ptr<World> recorded(std::unique_ptr<World> world, int64_t max_records) {
  return std::make_unique<RecordedWorld>(std::move(world), max_records);
}

}  // namespace shardproof
