// Implements release_temporaries.h in one pass over each listing that keeps the last use of every
// value without a name.
#include "shardproof/engine/lower/release_temporaries.h"

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

}  // namespace shardproof
