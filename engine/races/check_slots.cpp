// Implements check_slots.h.
//
// 1. List for each pair of ranks the puts and signals from one to the other, in program order.
// 2. Walk each rank that reads a slot. Each of its streams stores how many signals of each source
//    and slot it has waited for. A wait for a value, an event, a stream or by the host adds the
//    counts of its target.
// 3. At a read, a put has landed if the rank waited for a signal that follows it on its stream of
//    the source.
//
// Example: rank 0 makes put(a, slot=0), put(b, slot=1) to rank 1, and rank 1 makes
// wait_signal(slot=1), c = slot(0). The signal of b comes after that of a on one stream, so a has
// landed and c is a.
#include "shardproof/engine/races/check_slots.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {
namespace {

// A put or a signal from one rank to another.
struct Signal {
  int64_t slot = 0;
  const Instr* instr = nullptr;
  const CallItem* item = nullptr;
  bool is_put() const { return item->collective.kind == CollectiveKind::put; }
  const Origin& origin() const { return item->origin.line > 0 ? item->origin : instr->origin; }
};
using RankPair = std::pair<int32_t, int32_t>;                  // source, target
using Known = std::map<std::pair<int32_t, int64_t>, int64_t>;  // source, slot -> signals
using SharedKnown = std::shared_ptr<const Known>;

// Returns the rank that lane `rank` of a one-sided call names; -1 if it is outside the group.
int32_t peer_of(const CallItem& item, int32_t rank) {
  const Collective& call = item.collective;
  const int64_t sibling = call.group.sibling_of(rank);
  if (sibling < 0) return -1;
  const int64_t lane = item.lanes.index_of(rank);
  const int64_t index = item.peers.empty() ? call.peer : item.peers[static_cast<size_t>(lane)];
  return index < 0 || index >= call.group.size() ? -1 : call.group.member(sibling, index);
}

std::string source_text(const SpmdListing& listing, int line) {
  if (line <= 0 || line > std::ssize(listing.lines)) return "";
  std::string text = listing.lines[static_cast<size_t>(line - 1)];
  text.erase(0, text.find_first_not_of(' '));
  return text;
}

std::string amount_text(DType dtype, int64_t count) {
  return fmt::format("{} {}", count, name(dtype));
}

const SpmdListing& listing_of(const SpmdProgram& program, int32_t rank) {
  for (const SpmdListing& listing : program.listings)
    if (listing.lanes.contains(rank)) return listing;
  SP_UNREACHABLE("rank {} has no listing", rank);
}

class SlotCheck {
 public:
  explicit SlotCheck(const SpmdProgram& program) : program_(program) {}

  std::vector<Finding> run() {
    if (!reads_slots()) return {};
    list_signals();
    for (const SpmdListing& listing : program_.listings)
      for (int64_t i = 0; i < listing.lanes.size(); ++i) walk(listing, listing.lanes[i]);
    std::vector<Finding> findings;
    for (auto& [place, finding] : found_) findings.push_back(std::move(finding));
    return findings;
  }

 private:
  struct Streams {
    std::map<std::string, SharedKnown> known;
    std::map<ValueId, SharedKnown> values;
    std::map<std::string, SharedKnown> events;
    SharedKnown host;
    Known waited;  // signals that any stream has waited for or will wait for
    // By slot: the number of puts of each source that had landed at the last read.
    std::map<int64_t, std::map<int32_t, size_t>> read;
  };

  bool reads_slots() const {
    for (const SpmdListing& listing : program_.listings)
      for (const Instr& instr : listing.instrs)
        if (std::holds_alternative<SlotRead>(instr.action)) return true;
    return false;
  }
  void list_signals();
  void walk(const SpmdListing& listing, int32_t rank);
  void note_waits(const Communicate& call, const std::string& stream, int32_t rank,
                  Streams& streams) const;
  void pass_on(const Wait& wait, const std::string& stream, Streams& streams) const;
  std::vector<const Signal*> landed(const Known& known, int32_t source, int32_t rank,
                                    int64_t slot) const;
  void check_read(const SpmdListing& listing, const Instr& instr, const SlotRead& read,
                  int32_t rank, Streams& streams);
  void add_race(const SpmdListing& listing, const Instr& instr, const SlotRead& read, int32_t rank);
  void add_mismatch(const SpmdListing& listing, const Instr& instr, const SlotRead& read,
                    int32_t rank, int32_t source, const Signal& put, int64_t count);
  void add(Finding finding);

  const SpmdProgram& program_;
  std::map<RankPair, std::vector<Signal>> signals_;
  std::map<int32_t, std::set<int32_t>> sources_;  // of each target
  std::map<std::pair<int, Verdict>, Finding> found_;
};

void SlotCheck::list_signals() {
  for (const SpmdListing& listing : program_.listings)
    for (const Instr& instr : listing.instrs) {
      const auto* const call = std::get_if<Communicate>(&instr.action);
      if (call == nullptr) continue;
      for (const CallItem& item : call->items) {
        const CollectiveKind kind = item.collective.kind;
        if (kind != CollectiveKind::put && kind != CollectiveKind::signal) continue;
        for (int64_t i = 0; i < item.lanes.size(); ++i) {
          const int32_t source = item.lanes[i], target = peer_of(item, source);
          if (target < 0 || !instr.lanes.contains(source)) continue;
          signals_[{source, target}].push_back({item.collective.slot, &instr, &item});
          sources_[target].insert(source);
        }
      }
    }
}

SharedKnown united(const SharedKnown& a, const SharedKnown& b) {
  if (!a || !b || a == b) return a ? a : b;
  auto both = std::make_shared<Known>(*a);
  for (const auto& [key, count] : *b) (*both)[key] = std::max((*both)[key], count);
  return both;
}

void SlotCheck::note_waits(const Communicate& call, const std::string& stream, int32_t rank,
                           Streams& streams) const {
  for (const CallItem& item : call.items) {
    if (item.collective.kind != CollectiveKind::wait_signal || !item.lanes.contains(rank)) continue;
    const int32_t source = peer_of(item, rank);
    if (source < 0) continue;
    int64_t& waited = streams.waited[{source, item.collective.slot}];
    waited += item.collective.repeat;
    auto now = std::make_shared<Known>();
    (*now)[{source, item.collective.slot}] = waited;
    streams.known[stream] = united(streams.known[stream], now);
  }
}

void SlotCheck::pass_on(const Wait& wait, const std::string& stream, Streams& streams) const {
  SharedKnown learned;
  if (wait.value != kNoValue) learned = streams.values[wait.value];
  if (!wait.event.empty()) learned = streams.events[wait.event];
  if (!wait.stream.empty()) learned = streams.known[wait.stream];
  if (wait.who == Wait::Waiter::host)
    streams.host = united(streams.host, learned);
  else
    streams.known[stream] = united(streams.known[stream], learned);
}

void SlotCheck::walk(const SpmdListing& listing, int32_t rank) {
  Streams streams;
  for (const Instr& instr : listing.instrs) {
    if (!instr.lanes.contains(rank)) continue;
    // Work is issued after everything that the host has waited for.
    SharedKnown& known = streams.known[instr.stream];
    known = united(known, streams.host);
    if (const auto* call = std::get_if<Communicate>(&instr.action))
      note_waits(*call, instr.stream, rank, streams);
    else if (const auto* wait = std::get_if<Wait>(&instr.action))
      pass_on(*wait, instr.stream, streams);
    else if (const auto* record = std::get_if<RecordEvent>(&instr.action))
      streams.events[record->event] = streams.known[instr.stream];
    else if (const auto* read = std::get_if<SlotRead>(&instr.action))
      check_read(listing, instr, *read, rank, streams);
    for (const ValueId id : effects_of(instr).writes)
      streams.values[id] = united(streams.values[id], streams.known[instr.stream]);
  }
}

// Returns the puts of a source into a slot that have landed for a stream with these counts.
std::vector<const Signal*> SlotCheck::landed(const Known& known, int32_t source, int32_t rank,
                                             int64_t slot) const {
  const auto found = signals_.find({source, rank});
  if (found == signals_.end()) return {};
  const std::vector<Signal>& signals = found->second;
  std::map<std::string, size_t> behind;  // by stream of the source: signals up to here have arrived
  for (const auto& [key, count] : known) {
    if (key.first != source) continue;
    int64_t left = count;
    for (size_t i = 0; i < signals.size() && left > 0; ++i) {
      if (signals[i].slot != key.second || --left > 0) continue;
      size_t& end = behind[signals[i].instr->stream];
      end = std::max(end, i + 1);
    }
  }
  std::vector<const Signal*> puts;
  for (size_t i = 0; i < signals.size(); ++i) {
    const auto end = behind.find(signals[i].instr->stream);
    if (signals[i].is_put() && signals[i].slot == slot && end != behind.end() && i < end->second)
      puts.push_back(&signals[i]);
  }
  return puts;
}

void SlotCheck::check_read(const SpmdListing& listing, const Instr& instr, const SlotRead& read,
                           int32_t rank, Streams& streams) {
  const SharedKnown& shared = streams.known[instr.stream];
  const Known known = shared ? *shared : Known();
  const bool waited = std::any_of(known.begin(), known.end(), [&](const auto& one) {
    return one.first.second == read.slot && one.second > 0;
  });
  const SpmdValue& value = program_.values[static_cast<size_t>(read.output)];
  int64_t count = 0;
  for (const LocalShape& shape : value.shapes)
    if (shape.lanes.contains(rank)) count = element_count(shape.shape);
  std::map<int32_t, size_t>& before = streams.read[read.slot];
  bool any = false, any_fresh = false, fresh_fits = true, any_fits = false;
  std::pair<int32_t, const Signal*> unfit{-1, nullptr};
  for (const int32_t source : sources_[rank]) {
    const std::vector<const Signal*> puts = landed(known, source, rank, read.slot);
    if (puts.empty()) continue;
    any = true;
    const bool fresh = puts.size() > before[source];
    before[source] = puts.size();
    const Collective& put = puts.back()->item->collective;
    const bool fits = put.dtype == value.dtype && put.count == count;
    any_fits = any_fits || fits;
    any_fresh = any_fresh || fresh;
    if (fresh && !fits) fresh_fits = false;
    if (!fits && (unfit.second == nullptr || fresh)) unfit = {source, puts.back()};
  }
  if (!any && !waited) return add_race(listing, instr, read, rank);
  const bool wrong = any_fresh ? !fresh_fits : any && !any_fits;
  if (wrong) add_mismatch(listing, instr, read, rank, unfit.first, *unfit.second, count);
}

void SlotCheck::add_race(const SpmdListing& listing, const Instr& instr, const SlotRead& read,
                         int32_t rank) {
  Finding finding;
  finding.verdict = Verdict::race;
  finding.line = instr.origin.line;
  finding.instance = instr.origin.instance;
  finding.name = program_.values[static_cast<size_t>(read.output)].bound;
  finding.headline =
      fmt::format("race: slot {} is read without a wait for the put into it", read.slot);
  std::vector<std::vector<std::string>> rows;
  std::vector<int32_t> concerned{rank};
  for (const int32_t source : sources_[rank]) {
    const std::vector<Signal>& signals = signals_.at({source, rank});
    const auto put = std::find_if(signals.begin(), signals.end(), [&](const Signal& one) {
      return one.is_put() && one.slot == read.slot;
    });
    if (put == signals.end()) continue;
    const Origin& origin = put->origin();
    const SpmdListing& from = listing_of(program_, source);
    rows.push_back({fmt::format("rank {}", source), source_text(from, origin.line),
                    line_text(origin.line, origin.instance.str())});
    if (source != rank) concerned.push_back(source);
    // The line of a race is that of the later access.
    if (&from == &listing) finding.line = std::max(finding.line, origin.line);
  }
  rows.push_back({fmt::format("rank {}", rank), source_text(listing, instr.origin.line),
                  line_text(instr.origin.line, instr.origin.instance.str())});
  std::sort(concerned.begin(), concerned.end());
  finding.ranks = Lanes::of(std::move(concerned));
  finding.details = aligned(std::move(rows));
  finding.fix = fmt::format("write wait_signal(from=.., slot={}) before line {}", read.slot,
                            instr.origin.line);
  add(std::move(finding));
}

void SlotCheck::add_mismatch(const SpmdListing& listing, const Instr& instr, const SlotRead& read,
                             int32_t rank, int32_t source, const Signal& put, int64_t count) {
  const DType dtype = program_.values[static_cast<size_t>(read.output)].dtype;
  const Collective& sent = put.item->collective;
  const Origin& origin = put.origin();
  const SpmdListing& from = listing_of(program_, source);
  Finding finding;
  finding.verdict = Verdict::mismatch;
  const bool reads_first = instr.origin.line < origin.line;
  finding.line = std::min(instr.origin.line, origin.line);
  finding.instance = reads_first ? instr.origin.instance : origin.instance;
  finding.name = program_.values[static_cast<size_t>(read.output)].bound;
  finding.ranks = Lanes::of(
      source == rank ? std::vector<int32_t>{rank}
                     : std::vector<int32_t>{std::min(source, rank), std::max(source, rank)});
  finding.group = fmt::format("slot {}", read.slot);
  finding.headline =
      fmt::format("mismatch in slot {} of rank {}, put from rank {}", read.slot, rank, source);
  finding.details = aligned(
      {{fmt::format("rank {}", source), source_text(from, origin.line),
        amount_text(sent.dtype, sent.count), line_text(origin.line, origin.instance.str())},
       {fmt::format("rank {}", rank), source_text(listing, instr.origin.line),
        amount_text(dtype, count), line_text(instr.origin.line, instr.origin.instance.str())}});
  finding.fix = sent.dtype != dtype ? "put and read the same dtype"
                                    : "put and read the same number of elements";
  add(std::move(finding));
}

// Keeps the first finding of a line and unites the ranks of the others with it.
void SlotCheck::add(Finding finding) {
  const auto [at, fresh] = found_.emplace(std::pair(finding.line, finding.verdict), finding);
  if (!fresh) at->second.ranks = at->second.ranks.unite(finding.ranks);
}

}  // namespace

std::vector<Finding> check_slots(const SpmdProgram& program) { return SlotCheck(program).run(); }

}  // namespace shardproof
