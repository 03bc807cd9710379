// Implements value_lifetimes.h. release_temporaries is one pass over each listing that keeps the
// last use of every value without a name.
//
// apply_keep_lifetimes: for each Keep, the instructions before it give the last work of the kept
// stream and the stream that made the value. Then each Free of the value after the keep moves to
// the first instruction that proves the work done.
//
// Example, x made on stream main:
//
//   0  y = all_reduce(x, sum)   on comm
//   1  keep(x, comm)                          the last work of comm is 0
//   2  x = 2 * a                frees the old x: `Free` is here
//   3  z = a + b
//   4  wait(y)                  on main       y was made by 0 on comm: proves it
//   5  s = y + z
//
// The Free moves from 2 to after 4, because until then the call may still read x.
#include "shardproof/engine/lower/value_lifetimes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace shardproof {

namespace {

// Calls `use` with each value that an instruction reads or writes.
template <typename Use>
void for_each_use(const Instr& instr, Use use) {
  if (std::holds_alternative<Free>(instr.action)) return;
  // Most instructions compute; these need no lists.
  if (const Compute* compute = std::get_if<Compute>(&instr.action)) {
    for (const std::vector<ValueId>* ids : {&compute->inputs, &compute->outputs})
      for (const ValueId id : *ids)
        if (id != kNoValue) use(id);
    if (compute->into != kNoValue) use(compute->into);
    return;
  }
  const Effects effects = effects_of(instr);
  for (const std::vector<ValueId>* ids : {&effects.reads, &effects.writes})
    for (const ValueId id : *ids) use(id);
  // A merge reads no memory, so effects_of omits its parts; they are still used.
  if (const Merge* merge = std::get_if<Merge>(&instr.action))
    for (const auto& [lanes, id] : merge->parts) use(id);
}

// The last instruction of a listing that uses each value; one listing after another.
class LastUses {
 public:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();
  explicit LastUses(const SpmdProgram& program) : last_(program.values.size(), kNever) {}
  void read(const SpmdListing& listing) {
    for (const ValueId id : used_) last_[static_cast<size_t>(id)] = kNever;
    used_.clear();
    for (size_t i = 0; i < listing.instrs.size(); ++i)
      for_each_use(listing.instrs[i], [&](ValueId id) {
        size_t& last = last_[static_cast<size_t>(id)];
        if (last == kNever) used_.push_back(id);
        last = i;
      });
    std::sort(used_.begin(), used_.end());
  }
  const std::vector<ValueId>& used() const { return used_; }  // ascending
  size_t of(ValueId id) const { return last_[static_cast<size_t>(id)]; }
  bool is_behind(ValueId id, size_t at) const { return of(id) != kNever && of(id) > at; }

 private:
  std::vector<size_t> last_;
  std::vector<ValueId> used_;
};

// True if a value is used after its Free.
bool has_late_use(const Instrs& instrs, const LastUses& last) {
  for (size_t i = 0; i < instrs.size(); ++i)
    if (const auto* free = std::get_if<Free>(&instrs[i].action))
      if (last.is_behind(free->value, i)) return true;
  return false;
}

// Returns the instructions of a listing with each Free after the last use of its value; nullopt if
// they are in this order already.
std::optional<Instrs> with_later_frees(Instrs& before, const LastUses& last,
                                       const std::set<ValueId>& recomputed) {
  std::map<size_t, std::vector<Instr>> later;
  for (const ValueId id : recomputed)
    if (const size_t used = last.of(id); used != LastUses::kNever) {
      Instr& free = later[used].emplace_back(before[used]);
      free.releases.clear();
      free.action = Free{id};
    }
  if (later.empty() && !has_late_use(before, last)) return std::nullopt;
  Instrs instrs;
  for (size_t i = 0; i < before.size(); ++i) {
    Instr& instr = before[i];
    const Free* free = std::get_if<Free>(&instr.action);
    const bool again = free != nullptr && recomputed.contains(free->value);
    if (again) continue;
    if (free != nullptr && last.is_behind(free->value, i))
      later[last.of(free->value)].push_back(std::move(instr));
    else
      instrs.push_back(std::move(instr));
    if (const auto due = later.find(i); due != later.end())
      for (Instr& moved : due->second) instrs.push_back(std::move(moved));
  }
  return instrs;
}

void add_releases(const SpmdProgram& program, const LastUses& last, SpmdListing& listing) {
  for (const ValueId id : last.used())
    if (program.values[static_cast<size_t>(id)].bound.empty())
      listing.instrs[last.of(id)].releases.push_back(id);
}

}  // namespace

void release_temporaries(SpmdProgram& program) {
  LastUses last(program);
  for (SpmdListing& listing : program.listings) {
    last.read(listing);
    add_releases(program, last, listing);
  }
}

void free_after_last_use(SpmdProgram& program, const std::set<ValueId>& recomputed) {
  LastUses last(program);
  for (SpmdListing& listing : program.listings) {
    last.read(listing);
    if (std::optional<Instrs> moved = with_later_frees(listing.instrs, last, recomputed)) {
      listing.instrs = *std::move(moved);
      last.read(listing);
    }
    add_releases(program, last, listing);
  }
}

namespace {

// Finds the end of one kept value's memory in one listing.
class KeptValue {
 public:
  KeptValue(const SpmdListing& listing, size_t keep)
      : listing_(listing), keep_(keep), what_(std::get<Keep>(listing.instrs[keep].action)) {
    for (size_t i = 0; i < keep; ++i) {
      const Instr& instr = listing.instrs[i];
      const Effects effects = effects_of(instr);
      const std::vector<ValueId>& writes = effects.writes;
      const bool works = (!writes.empty() || !effects.reads.empty()) &&
                         !std::holds_alternative<Snapshot>(instr.action);  // takes no memory
      if (works && instr.stream == what_.stream) last_ = static_cast<int>(i);
      if (std::find(writes.begin(), writes.end(), what_.value) != writes.end())
        owner_ = instr.stream;
    }
  }

  ValueId value() const { return what_.value; }

  // Returns the index after which a Free at `from` may stand; the size of the listing if no wait
  // proves the work done.
  size_t release_at(size_t from) const {
    if (last_ < 0 || from < keep_) return from;
    for (size_t i = keep_ + 1; i < listing_.instrs.size(); ++i)
      if (proves(i)) return std::max(from, i);
    return listing_.instrs.size();
  }

 private:
  bool proves(size_t at) const {
    const Instr& instr = listing_.instrs[at];
    const Wait* wait = std::get_if<Wait>(&instr.action);
    if (!wait || !instr.lanes.contains(listing_.instrs[keep_].lanes)) return false;
    if (wait->who == Wait::Waiter::stream && instr.stream != owner_) return false;
    if (!wait->stream.empty()) return wait->stream == what_.stream;
    // The wait is for the last instruction before it that made the event or the value.
    for (size_t i = at; i-- > 0;) {
      const Effects effects = effects_of(listing_.instrs[i]);
      const auto holds = [](const auto& list, const auto& item) {
        return std::find(list.begin(), list.end(), item) != list.end();
      };
      const bool made = wait->event.empty() ? holds(effects.writes, wait->value)
                                            : holds(effects.signals, wait->event);
      if (made) return listing_.instrs[i].stream == what_.stream && static_cast<int>(i) >= last_;
    }
    return false;
  }

  const SpmdListing& listing_;
  size_t keep_;
  Keep what_;
  int last_ = -1;               // last work of the kept stream before the keep; -1: none
  std::string owner_ = "main";  // stream that made the value
};

void hold_kept_of(SpmdListing& listing) {
  Instrs& instrs = listing.instrs;
  for (size_t keep = 0; keep < instrs.size(); ++keep) {
    if (!std::holds_alternative<Keep>(instrs[keep].action)) continue;
    const KeptValue kept(listing, keep);
    const ValueId value = kept.value();
    for (size_t i = keep + 1; i < instrs.size(); ++i) {
      const Free* free = std::get_if<Free>(&instrs[i].action);
      const size_t last = std::min(kept.release_at(i), instrs.size() - 1);
      if (!free || free->value != value || last <= i) continue;
      std::rotate(instrs.begin() + static_cast<std::ptrdiff_t>(i),
                  instrs.begin() + static_cast<std::ptrdiff_t>(i + 1),
                  instrs.begin() + static_cast<std::ptrdiff_t>(last + 1));
      --i;  // another instruction stands here now
    }
  }
}

}  // namespace

void apply_keep_lifetimes(SpmdProgram& program) {
  for (SpmdListing& listing : program.listings) hold_kept_of(listing);
}

}  // namespace shardproof
