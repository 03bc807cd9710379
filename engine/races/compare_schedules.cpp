// Implements compare_schedules.h.
//
// 1. Run under fifo and under each schedule of kOthers, and store a hash of each value that a rank
//    makes. The first schedule with a difference makes the finding.
// 2. Walk each listing. The first instruction with a result whose hashes differ is its candidate.
//    A candidate that another stream disturbs (stream_order.h) comes before one that does not have
//    such a cause, because the latter may only use what another rank sent. Among equals the lowest
//    line is chosen. A view accesses no memory, so it is no candidate; the work that uses it is.
//    A candidate may read a message or a slot, and no stream of its rank may disturb it. Then the
//    streams of the sending ranks are searched: a later line may write what a send still reads.
// 3. Run twice more for the contents of that value.
//
// Example:
//   1  on ag: f = all_gather(w, dim=0, group=fsdp)
//   2  y = x @ f
// Under adversarial, line 2 runs first and reads f before the call has written it. The hashes of f
// are equal, those of y differ. Lines 1 and 2 access f without an order, so the finding is about f
// in line 2.
#include "shardproof/engine/races/compare_schedules.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/races/stream_order.h"
#include "shardproof/engine/reference/f64_job.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {
namespace {

uint64_t mix_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xBF58476D1CE4E5B9ull;
  return hash ^ hash >> 29;
}

// Mixes every fourth word into one of four hashes, because each step waits for the step before it.
uint64_t content_hash(const Tensor& dense, int64_t slot) {
  constexpr size_t kWord = sizeof(uint64_t), kLanes = 4;
  uint64_t hashes[kLanes] = {0x9E3779B97F4A7C15ull, 1, 2, 3};
  const std::byte* data = dense.data(slot);
  const auto bytes = static_cast<size_t>(dense.elements() * size_of(dense.dtype));
  size_t at = 0;
  for (; at + kLanes * kWord <= bytes; at += kLanes * kWord)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      uint64_t word;
      std::memcpy(&word, data + at + lane * kWord, kWord);
      hashes[lane] = mix_word(hashes[lane], word);
    }
  for (; at < bytes; at += kWord) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, std::min(kWord, bytes - at));
    hashes[0] = mix_word(hashes[0], word);
  }
  for (size_t lane = 1; lane < kLanes; ++lane) hashes[0] = mix_word(hashes[0], hashes[lane]);
  return hashes[0];
}

// adversarial finds a value that is read before the call that writes it has ended. side_first finds
// a call that reads what main has not written yet, also if an earlier call or wait comes before it
// on its stream. main_first finds the reverse.
constexpr std::array<ScheduleKind, 3> kOthers = {
    ScheduleKind::adversarial, ScheduleKind::side_first, ScheduleKind::main_first};

// The hashes of the values of one run, by value: of each rank in the order in which they were made.
class ValueHashes {
 public:
  explicit ValueHashes(size_t values) : by_value_(values) {}

  void clear() {
    for (std::vector<Made>& made : by_value_) made.clear();
  }
  void add(ValueId id, const LocalTensor& value) {
    for (const Block& block : value.blocks()) {
      if (!has_contents(block.tensor)) continue;
      const Tensor dense = block.tensor.contiguous() ? block.tensor : contiguous_copy(block.tensor);
      std::map<int64_t, uint64_t> of_slot;
      for (int64_t i = 0; i < block.lanes.size(); ++i) {
        const int64_t slot = block.slot(i);
        const auto known = of_slot.find(slot);
        const uint64_t hash = known != of_slot.end() ? known->second : content_hash(dense, slot);
        of_slot.emplace(slot, hash);
        by_value_[static_cast<size_t>(id)].push_back({block.lanes[i], hash});
      }
    }
  }
  // Call it before find().
  void sort() {
    for (std::vector<Made>& made : by_value_)
      std::stable_sort(made.begin(), made.end(),
                       [](const Made& a, const Made& b) { return a.rank < b.rank; });
  }
  // Returns the k-th hash of a value on a rank; nullopt if it was made less often.
  std::optional<uint64_t> find(ValueId id, int32_t rank, int64_t k) const {
    const std::vector<Made>& made = by_value_[static_cast<size_t>(id)];
    auto at = std::lower_bound(made.begin(), made.end(), rank,
                               [](const Made& one, int32_t r) { return one.rank < r; });
    if (made.end() - at <= k) return std::nullopt;
    at += k;
    return at->rank == rank ? std::optional(at->hash) : std::nullopt;
  }

 private:
  struct Made {
    int32_t rank;
    uint64_t hash;
  };
  std::vector<std::vector<Made>> by_value_;
};

// Finds the results of view ops that have memory of their own: a reshape of a transposed value.
class CopiedViews {
 public:
  // `views` has the input of each view op by its result; it must outlive this.
  explicit CopiedViews(const std::map<ValueId, ValueId>& views) : views_(&views) {
    for (const auto& [output, input] : views) followed_.insert(output), followed_.insert(input);
  }
  void clear() { buffers_.clear(), copies_.clear(); }
  void add(ValueId id, const LocalTensor& value) {
    if (!followed_.contains(id)) return;
    const auto view = views_->find(id);
    for (const Block& block : value.blocks())
      for (int64_t i = 0; i < block.lanes.size(); ++i) {
        const Buffer* const own = block.tensor.buffer.get();
        buffers_[{id, block.lanes[i]}] = own;
        if (view == views_->end()) continue;
        const auto of = buffers_.find({view->second, block.lanes[i]});
        if (of != buffers_.end() && of->second != own) copies_.insert(id);
      }
  }
  bool contains(ValueId id) const { return copies_.contains(id); }

 private:
  const std::map<ValueId, ValueId>* views_;
  std::set<ValueId> followed_, copies_;
  std::map<std::pair<ValueId, int32_t>, const Buffer*> buffers_;  // of the last value made
};

struct ScheduledRun {
  ScheduleKind kind = ScheduleKind::fifo;
  ValueHashes hashes;
  CopiedViews copies;
  std::vector<Finding> findings;
  std::string error;  // that ended the run; or empty
};

// A value that differs, and the instruction that made it.
struct Candidate {
  const SpmdListing* listing = nullptr;
  const Instr* instr = nullptr;
  ValueId value = kNoValue;
  std::vector<int32_t> ranks;
  int64_t made = 0;              // how often the value was made before
  const Instr* other = nullptr;  // an instruction of another stream without an order to this one
  bool other_is_later = false;   // in the listing
  ValueId shared = kNoValue;     // the value that both access
  // The send or put of another rank that has the race in place of the candidate; empty: none.
  std::vector<Candidate> sender = {};
};

// An instruction by which a rank sends to another rank.
struct Sending {
  const SpmdListing* listing = nullptr;
  const Instr* instr = nullptr;
  const CallItem* item = nullptr;
  int32_t rank = 0;
};

// Returns the rank to which lane `rank` of a call sends; -1 if it sends to none.
int32_t target_of(const CallItem& item, int32_t rank) {
  const Collective& call = item.collective;
  if (call.kind != CollectiveKind::send && call.kind != CollectiveKind::put) return -1;
  const int64_t sibling = call.group.sibling_of(rank), lane = item.lanes.index_of(rank);
  if (sibling < 0 || lane < 0) return -1;
  const int64_t index = item.peers.empty() ? call.peer : item.peers[static_cast<size_t>(lane)];
  return index < 0 || index >= call.group.size() ? -1 : call.group.member(sibling, index);
}

class ScheduleComparison {
 public:
  ScheduleComparison(const SpmdProgram& program, const Job& job,
                     const std::vector<LocalTensor>& inputs, const Registries& registries)
      : program_(program), job_(on_simulated_ranks(job)), inputs_(inputs), registries_(registries) {
    for (const SpmdListing& listing : program_.listings)
      for (const Instr& instr : listing.instrs) {
        const auto* const compute = std::get_if<Compute>(&instr.action);
        if (compute != nullptr && compute->into == kNoValue && compute->outputs.size() == 1 &&
            !compute->inputs.empty() && compute->inputs[0] != kNoValue &&
            registries_.ops.at(compute->op.str()).view)
          views_.emplace(compute->outputs[0], compute->inputs[0]);
      }
  }

  ScheduleResult run() {
    if (made_values() > kMostMade)
      return {std::nullopt,
              fmt::format("the program was not run under a second schedule, because its ranks make "
                          "more than {} values; races are not proved absent; run it with fewer "
                          "ranks or passes",
                          kMostMade)};
    if (std::optional<Finding> race = compare()) return {std::move(race), ""};
    return {std::nullopt,
            "values and findings are equal under the schedules fifo, adversarial, side-first and "
            "main-first; races are not proved absent"};
  }

 private:
  static constexpr int64_t kMostMade = 10'000'000;  // 16 bytes each in two runs

  int64_t made_values() const {
    int64_t made = 0;
    for (const SpmdListing& listing : program_.listings)
      for (const Instr& instr : listing.instrs) made += instr.lanes.size();
    return made;
  }
  std::optional<Finding> compare() {
    const ScheduledRun fifo = run_under(ScheduleKind::fifo);
    if (!fifo.error.empty()) throw_bad_input("{}", fifo.error);
    for (const ScheduleKind kind : kOthers) {
      const ScheduledRun other = run_under(kind);
      if (const std::optional<Candidate> first = first_difference(fifo, other))
        return finding_of(*first, other);
      if (!other.error.empty() || !alike(fifo.findings, other.findings))
        return finding_of(fifo.findings, other);
    }
    return std::nullopt;
  }
  Job job_under(ScheduleKind kind) const {
    Job job = job_;
    job.schedule = {kind, job_.seed};
    return job;
  }
  ScheduledRun run_under(ScheduleKind kind) const;
  std::optional<Candidate> first_difference(const ScheduledRun& a, const ScheduledRun& b) const;
  std::optional<Candidate> first_in(const SpmdListing& listing, const ScheduledRun& a,
                                    const ScheduledRun& b) const;
  std::map<ValueId, ValueId> owners_of_memory(const SpmdListing& listing, int32_t rank) const;
  void add_cause(Candidate& candidate, const CopiedViews& copies) const;
  bool makes_alias(const Instr& instr, const CopiedViews& copies) const;
  LocalTensor contents_under(ScheduleKind kind, const Candidate& candidate) const;
  std::string element_line(const Candidate& candidate, ScheduleKind other) const;
  std::vector<Sending> sent_to(int32_t rank) const;
  std::vector<Candidate> disturbed_sender(const Candidate& candidate,
                                          const CopiedViews& copies) const;
  std::vector<Sending> puts_read(const Candidate& candidate) const;
  std::string place_text(const SpmdListing& listing, const Origin& origin, int32_t rank) const;
  void explain_puts(const std::vector<Sending>& puts, const std::string& reads,
                    Finding& finding) const;
  Finding finding_of(const Candidate& candidate, const ScheduledRun& other) const;
  Finding finding_of(const std::vector<Finding>& fifo, const ScheduledRun& other) const;
  static bool alike(const std::vector<Finding>& a, const std::vector<Finding>& b);
  const SpmdValue& value(ValueId id) const { return program_.values[static_cast<size_t>(id)]; }
  std::string shown(ValueId id) const;
  std::string shared_text(const Candidate& candidate) const;

  const SpmdProgram& program_;
  const Job job_;
  const std::vector<LocalTensor>& inputs_;
  const Registries& registries_;
  std::map<ValueId, ValueId> views_;  // by result of a view op: its input
};

// Returns the name of a value; "the result of mul" for one inside a line.
std::string ScheduleComparison::shown(ValueId id) const {
  if (!value(id).bound.empty()) return value(id).bound;
  for (const SpmdListing& listing : program_.listings)
    for (const Instr& instr : listing.instrs) {
      const auto* const compute = std::get_if<Compute>(&instr.action);
      if (compute != nullptr &&
          std::find(compute->outputs.begin(), compute->outputs.end(), id) != compute->outputs.end())
        return "the result of " + compute->op.str();
      if (const auto* const call = std::get_if<Communicate>(&instr.action))
        for (const CallItem& item : call->items)
          if (item.output == id) return fmt::format("the result of {}", name(item.collective.kind));
    }
  return "a value without a name";
}

// Returns "v, a view of b" if the candidate accesses a view, else the name of the value.
std::string ScheduleComparison::shared_text(const Candidate& candidate) const {
  ValueId base = candidate.shared;
  for (auto view = views_.find(base); view != views_.end(); view = views_.find(base))
    base = view->second;
  const std::string name = shown(candidate.shared), of = shown(base);
  if (name == of || base == candidate.shared || value(base).bound.empty()) return name;
  return value(candidate.shared).bound.empty() ? of : fmt::format("{}, a view of {}", name, of);
}

ScheduledRun ScheduleComparison::run_under(ScheduleKind kind) const {
  ScheduledRun result{kind, ValueHashes(program_.values.size()), CopiedViews(views_), {}, ""};
  const auto make_probe = [&]() -> ProbeFunction {
    result.hashes.clear();
    result.copies.clear();
    return [&](ValueId id, const LocalTensor& made) {
      result.hashes.add(id, made);
      result.copies.add(id, made);
    };
  };
  try {
    const Job job = job_under(kind);
    ProgramRun run = run_program(program_, job, registries_, {[](ValueId) { return true; }, {}},
                                 make_probe, &inputs_);
    result.findings = std::move(run.outcome.findings);
  } catch (const Error& error) {
    result.error = error.message();
  }
  result.hashes.sort();
  return result;
}

// Returns the values that a reduce or gather writes, with the ranks on which a probe shows other
// contents. On ranks other than the root it shows what a later call has written to the buffer. The
// other call may run before all groups of the candidate's call have ended. A difference there is
// found in the values that are computed from it.
std::set<std::pair<ValueId, int32_t>> not_comparable(const SpmdListing& listing) {
  std::set<std::pair<ValueId, int32_t>> found;
  for (const Instr& instr : listing.instrs) {
    const auto* const call = std::get_if<Communicate>(&instr.action);
    if (call == nullptr) continue;
    for (const CallItem& item : call->items) {
      const Collective& c = item.collective;
      if (c.kind != CollectiveKind::reduce && c.kind != CollectiveKind::gather) continue;
      const bool one_group = instr.lanes.size() == c.group.size();
      for (int64_t i = 0; i < item.lanes.size(); ++i)
        if (!one_group || c.group.index_of(item.lanes[i]) != c.root)
          found.insert({item.output, item.lanes[i]});
    }
  }
  return found;
}

// True if the instruction makes a view: it runs no work and accesses no memory.
bool ScheduleComparison::makes_alias(const Instr& instr, const CopiedViews& copies) const {
  const auto* const compute = std::get_if<Compute>(&instr.action);
  return compute != nullptr && views_.contains(compute->outputs.at(0)) &&
         !copies.contains(compute->outputs[0]);
}

// Returns the first instruction of a listing with a result that differs.
std::optional<Candidate> ScheduleComparison::first_in(const SpmdListing& listing,
                                                      const ScheduledRun& a,
                                                      const ScheduledRun& b) const {
  std::map<std::pair<ValueId, int32_t>, int64_t> made;
  const std::set<std::pair<ValueId, int32_t>> left_out = not_comparable(listing);
  for (const Instr& instr : listing.instrs) {
    if (std::holds_alternative<NumberValue>(instr.action)) continue;  // no work makes it
    // A merge gives a name and writes nothing.
    for (const ValueId id : effects_of(instr).writes) {
      Candidate candidate{&listing, &instr, id, {}, 0, nullptr, false, kNoValue};
      const bool is_alias = makes_alias(instr, a.copies);
      for (int64_t i = 0; i < instr.lanes.size(); ++i) {
        const int32_t rank = instr.lanes[i];
        const int64_t k = made[{id, rank}]++;
        if (left_out.contains({id, rank}) || is_alias) continue;
        if (a.hashes.find(id, rank, k) == b.hashes.find(id, rank, k)) continue;
        candidate.ranks.push_back(rank);
        candidate.made = k;
      }
      if (candidate.ranks.empty()) continue;
      add_cause(candidate, a.copies);
      return candidate;
    }
  }
  return std::nullopt;
}

// Returns the value whose memory each value of a rank has: `b = a` and views have that of `a`.
std::map<ValueId, ValueId> ScheduleComparison::owners_of_memory(const SpmdListing& listing,
                                                                int32_t rank) const {
  std::map<ValueId, ValueId> owners;
  const auto add = [&](ValueId id, ValueId of) {
    const auto known = owners.find(of);
    owners[id] = known == owners.end() ? of : known->second;
  };
  for (const Instr& instr : listing.instrs) {
    if (!instr.lanes.contains(rank)) continue;
    if (const auto* merge = std::get_if<Merge>(&instr.action))
      for (const auto& [lanes, part] : merge->parts)
        if (lanes.contains(rank)) add(merge->output, part);
    const auto* compute = std::get_if<Compute>(&instr.action);
    const auto view = compute != nullptr ? views_.find(compute->outputs.at(0)) : views_.end();
    if (view != views_.end()) add(view->first, view->second);
  }
  return owners;
}

// Finds an access of another stream to the memory that the candidate reads or writes. One of both
// is a write, and neither waits for the other. The latest access before the candidate comes first.
void ScheduleComparison::add_cause(Candidate& candidate, const CopiedViews& copies) const {
  const SpmdListing& listing = *candidate.listing;
  const int32_t rank = candidate.ranks.front();
  const StreamOrder order(listing, rank);
  const std::map<ValueId, ValueId> owners = owners_of_memory(listing, rank);
  const auto owner_of = [&](ValueId id) {
    const auto known = owners.find(id);
    return known == owners.end() ? id : known->second;
  };
  const Effects own = effects_of(*candidate.instr);
  std::map<ValueId, std::pair<ValueId, bool>> used;  // by memory: a value, and if it is written
  for (const ValueId id : own.reads) used.emplace(owner_of(id), std::pair(id, false));
  for (const ValueId id : own.writes) {
    const auto [at, fresh] = used.emplace(owner_of(id), std::pair(id, true));
    at->second.second = true;
  }
  size_t self = 0;
  while (&listing.instrs[self] != candidate.instr) ++self;
  const auto conflict = [&](size_t i) -> std::optional<ValueId> {
    const Instr& other = listing.instrs[i];
    if (i == self || !other.lanes.contains(rank) || other.stream == candidate.instr->stream ||
        makes_alias(other, copies) || order.are_ordered(i, self))
      return std::nullopt;
    const Effects effects = effects_of(other);
    for (const ValueId id : effects.writes)
      if (const auto at = used.find(owner_of(id)); at != used.end()) return at->second.first;
    for (const ValueId id : effects.reads)
      if (const auto at = used.find(owner_of(id)); at != used.end() && at->second.second)
        return at->second.first;
    return std::nullopt;
  };
  const auto take = [&](size_t i) {
    const std::optional<ValueId> shared = conflict(i);
    if (!shared) return false;
    candidate.other = &listing.instrs[i];
    candidate.other_is_later = i > self;
    candidate.shared = *shared;
    return true;
  };
  for (size_t i = self; i-- > 0;)
    if (take(i)) return;
  for (size_t i = self + 1; i < listing.instrs.size(); ++i)
    if (take(i)) return;
}

std::optional<Candidate> ScheduleComparison::first_difference(const ScheduledRun& a,
                                                              const ScheduledRun& b) const {
  std::optional<Candidate> first;
  const auto rank_of = [](const Candidate& one) {
    return std::pair(one.other == nullptr && one.sender.empty(), one.instr->origin.line);
  };
  for (const SpmdListing& listing : program_.listings) {
    std::optional<Candidate> candidate = first_in(listing, a, b);
    if (candidate && candidate->other == nullptr)
      candidate->sender = disturbed_sender(*candidate, a.copies);
    if (candidate && (!first || rank_of(*candidate) < rank_of(*first))) first = candidate;
  }
  return first;
}

// Returns the contents on the candidate's first rank under a schedule; empty if it made no such
// value.
LocalTensor ScheduleComparison::contents_under(ScheduleKind kind,
                                               const Candidate& candidate) const {
  const int32_t rank = candidate.ranks.front();
  LocalTensor contents;
  int64_t made = 0;
  const auto make_probe = [&]() -> ProbeFunction {
    contents = {};
    made = 0;
    return [&](ValueId id, const LocalTensor& value) {
      if (id != candidate.value || value.find(rank) == nullptr) return;
      if (made++ == candidate.made) contents = LocalTensor(value.of_rank(rank));
    };
  };
  try {
    const Job job = job_under(kind);
    run_program(program_, job, registries_, {[](ValueId) { return true; }, {}}, make_probe,
                &inputs_);
  } catch (const Error&) {
    // The value may have been made before the error.
  }
  return contents;
}

// Returns "y[0, 1] on rank 0: 5 under fifo, nan under adversarial"; empty without two values.
std::string ScheduleComparison::element_line(const Candidate& candidate, ScheduleKind other) const {
  const LocalTensor a = contents_under(ScheduleKind::fifo, candidate);
  const LocalTensor b = contents_under(other, candidate);
  if (a.empty() || b.empty()) return "";
  const Tensor &left = a.blocks()[0].tensor, &right = b.blocks()[0].tensor;
  const std::vector<double> under_fifo = values_of(left), under_other = values_of(right);
  for (size_t i = 0; i < std::min(under_fifo.size(), under_other.size()); ++i) {
    const double x = under_fifo[i], y = under_other[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    std::vector<int64_t> at;
    int64_t rest = static_cast<int64_t>(i);
    for (int dim = left.shape.size(); dim-- > 0;) {
      at.insert(at.begin(), rest % left.shape[dim]);
      rest /= left.shape[dim];
    }
    const bool named = !value(candidate.value).bound.empty();
    return fmt::format("{}[{}]{} on rank {}: {:g} under fifo, {:g} under {}",
                       named ? shown(candidate.value) : "element ", fmt::join(at, ", "),
                       named ? "" : " of " + shown(candidate.value), candidate.ranks.front(), x, y,
                       name(other));
  }
  return "";
}

// Returns the sends and puts to a rank in program order.
std::vector<Sending> ScheduleComparison::sent_to(int32_t rank) const {
  std::vector<Sending> sent;
  for (const SpmdListing& listing : program_.listings)
    for (const Instr& instr : listing.instrs) {
      const auto* const call = std::get_if<Communicate>(&instr.action);
      if (call == nullptr) continue;
      for (const CallItem& item : call->items)
        for (int64_t i = 0; i < item.lanes.size(); ++i)
          if (target_of(item, item.lanes[i]) == rank)
            sent.push_back({&listing, &instr, &item, item.lanes[i]});
    }
  return sent;
}

// Returns the send or put to the candidate's rank whose contents another stream of the sender
// overwrites. None if the candidate reads neither a message nor a slot.
std::vector<Candidate> ScheduleComparison::disturbed_sender(const Candidate& candidate,
                                                            const CopiedViews& copies) const {
  const auto* const read = std::get_if<SlotRead>(&candidate.instr->action);
  const auto* const call = std::get_if<Communicate>(&candidate.instr->action);
  const bool receives =
      call != nullptr &&
      std::any_of(call->items.begin(), call->items.end(), [](const CallItem& item) {
        return item.collective.kind == CollectiveKind::recv;
      });
  if (read == nullptr && !receives) return {};
  for (const Sending& sending : sent_to(candidate.ranks.front())) {
    const Collective& sent = sending.item->collective;
    const bool fits = read == nullptr ? sent.kind == CollectiveKind::send
                                      : sent.kind == CollectiveKind::put && sent.slot == read->slot;
    if (!fits) continue;
    Candidate sender{
        sending.listing, sending.instr, sending.item->input, {sending.rank}, 0, nullptr,
        false,           kNoValue};
    add_cause(sender, copies);
    if (sender.other != nullptr) return {std::move(sender)};
  }
  return {};
}

// Returns the puts into the slot that a candidate reads, in program order.
std::vector<Sending> ScheduleComparison::puts_read(const Candidate& candidate) const {
  const auto* const read = std::get_if<SlotRead>(&candidate.instr->action);
  if (read == nullptr) return {};
  std::vector<Sending> puts = sent_to(candidate.ranks.front());
  std::erase_if(puts, [&](const Sending& one) {
    return one.item->collective.kind != CollectiveKind::put ||
           one.item->collective.slot != read->slot;
  });
  return puts;
}

// Returns "line 4", or "line 4 of rank 0" if ranks have several listings.
std::string ScheduleComparison::place_text(const SpmdListing& listing, const Origin& origin,
                                           int32_t rank) const {
  const std::string line = line_text(origin.line, origin.instance.str());
  const bool all = program_.listings.size() == 1 || listing.lanes.size() == program_.world;
  return all ? line : fmt::format("{} of rank {}", line, rank);
}

// Explains a slot that a put overwrites. The put that the reader waited for has landed
// (check_slots.h), so it is a later one, or the put of another rank. `reads` is the place of the
// reader.
void ScheduleComparison::explain_puts(const std::vector<Sending>& puts, const std::string& reads,
                                      Finding& finding) const {
  const Sending &first = puts.front(), &last = puts.back();
  finding.line = last.instr->origin.line;
  finding.instance = last.instr->origin.instance;
  if (!last.listing->lanes.contains(finding.ranks)) finding.ranks = Lanes::one(last.rank);
  const std::string place = place_text(*last.listing, last.instr->origin, last.rank);
  const bool is_one_each = puts.size() == 2 && first.rank != last.rank;
  if (is_one_each) {
    finding.details.push_back(
        fmt::format("{} and {} put into slot {}, and nothing orders them before {} reads",
                    place_text(*first.listing, first.instr->origin, first.rank), place,
                    last.item->collective.slot, reads));
    finding.fix = fmt::format("put into another slot on {}, or wait for a signal before it", place);
    return;
  }
  finding.details.push_back(
      fmt::format("a later put of {} may land before {} reads", place, reads));
  finding.fix = fmt::format(
      "let the reader signal that it has read, and wait for that signal before {}", place);
}

Finding ScheduleComparison::finding_of(const Candidate& candidate, const ScheduledRun& run) const {
  const Candidate& cause = candidate.sender.empty() ? candidate : candidate.sender.front();
  const Instr *first = cause.other, *second = cause.instr;
  if (cause.other_is_later) std::swap(first, second);
  Finding finding;
  finding.verdict = Verdict::race;
  finding.line = second->origin.line;
  finding.instance = second->origin.instance;
  finding.ranks = Lanes::of(cause.ranks);
  finding.name = value(first != nullptr ? cause.shared : candidate.value).bound;
  const std::string differs =
      place_text(*candidate.listing, candidate.instr->origin, candidate.ranks.front());
  finding.headline =
      fmt::format("race: {} of {} has other values under schedule {} than under fifo",
                  shown(candidate.value), differs, name(run.kind));
  if (const std::string element = element_line(candidate, run.kind); !element.empty())
    finding.details.push_back(element);
  if (!run.error.empty())
    finding.details.push_back(fmt::format("under {} the run ends: {}", name(run.kind), run.error));
  if (const std::vector<Sending> puts = puts_read(candidate); first == nullptr && !puts.empty()) {
    explain_puts(puts, differs, finding);
  } else if (first == nullptr) {
    finding.fix =
        "order the work of its streams with wait(..), or that of other ranks with wait_signal(..)";
  } else {
    finding.details.push_back(
        fmt::format("{} on stream {} and {} on stream {} access {}, and nothing orders them",
                    line_text(first->origin.line, first->origin.instance.str()), first->stream,
                    line_text(second->origin.line, second->origin.instance.str()), second->stream,
                    shared_text(cause)));
    finding.fix = fmt::format("write wait({}) on stream {} before line {}", first->stream,
                              second->stream, second->origin.line);
  }
  return finding;
}

bool ScheduleComparison::alike(const std::vector<Finding>& a, const std::vector<Finding>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Finding& x, const Finding& y) {
    return x.verdict == y.verdict && x.line == y.line && x.name == y.name && x.ranks == y.ranks &&
           x.instance == y.instance && x.group == y.group && x.call == y.call;
  });
}

Finding ScheduleComparison::finding_of(const std::vector<Finding>& fifo,
                                       const ScheduledRun& other) const {
  const auto words = [](const std::vector<Finding>& findings) {
    return findings.empty()
               ? "nothing is found"
               : fmt::format("{}, line {}", name(findings[0].verdict), findings[0].line);
  };
  Finding finding;
  finding.verdict = Verdict::race;
  for (const std::vector<Finding>* found : {&other.findings, &fifo}) {
    if (found->empty() || finding.line != 0) continue;
    finding.line = found->front().line;
    finding.instance = found->front().instance;
    finding.ranks = found->front().ranks;
    finding.name = found->front().name;
  }
  if (finding.ranks.empty()) finding.ranks = Lanes::range(0, program_.world);
  finding.headline = "race: the findings depend on the schedule";
  finding.details.push_back("under fifo: " + words(fifo));
  finding.details.push_back(
      fmt::format("under {}: {}", name(other.kind),
                  other.error.empty() ? words(other.findings) : "the run ends: " + other.error));
  finding.fix = "order the work of its streams with wait(..)";
  return finding;
}

}  // namespace

bool depends_on_schedule(const SpmdProgram& program) {
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs)
      if (std::holds_alternative<SlotRead>(instr.action) ||
          !(instr.stream == listing.instrs.front().stream))
        return true;
  return false;
}

ScheduleResult compare_schedules(const SpmdProgram& program, const Job& job,
                                 const std::vector<LocalTensor>& inputs,
                                 const Registries& registries) {
  return ScheduleComparison(program, job, inputs, registries).run();
}

}  // namespace shardproof
