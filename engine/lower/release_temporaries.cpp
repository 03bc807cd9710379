// Implements release_temporaries.h in one pass over each listing that keeps the last use of every
// value without a name.
#include "shardproof/engine/lower/release_temporaries.h"

#include <map>

namespace shardproof {

namespace {

// Calls `use` with each value that an instruction reads or writes.
template <typename Use>
void for_each_use(const Instr& instr, Use use) {
  const Effects effects = effects_of(instr);
  for (const std::vector<ValueId>* ids : {&effects.reads, &effects.writes})
    for (const ValueId id : *ids) use(id);
  // A merge reads no memory, so it is no effect; it uses its parts all the same.
  if (const Merge* merge = std::get_if<Merge>(&instr.action))
    for (const auto& [lanes, id] : merge->parts) use(id);
}

// True if a value is used behind its Free. `last` has the last uses.
bool has_late_use(const std::vector<Instr>& instrs, const std::map<ValueId, size_t>& last) {
  for (size_t i = 0; i < instrs.size(); ++i)
    if (const auto* free = std::get_if<Free>(&instrs[i].action))
      if (const auto used = last.find(free->value); used != last.end() && used->second > i)
        return true;
  return false;
}

}  // namespace

void release_temporaries(SpmdProgram& program) {
  for (SpmdListing& listing : program.listings) {
    std::map<ValueId, size_t> last;
    for (size_t i = 0; i < listing.instrs.size(); ++i)
      for_each_use(listing.instrs[i], [&](ValueId id) {
        if (program.values[static_cast<size_t>(id)].bound.empty()) last[id] = i;
      });
    for (const auto& [id, i] : last) listing.instrs[i].releases.push_back(id);
  }
}

void free_after_last_use(SpmdProgram& program, const std::set<ValueId>& recomputed) {
  for (SpmdListing& listing : program.listings) {
    std::map<ValueId, size_t> last;
    for (size_t i = 0; i < listing.instrs.size(); ++i)
      if (!std::holds_alternative<Free>(listing.instrs[i].action))
        for_each_use(listing.instrs[i], [&](ValueId id) { last[id] = i; });
    std::map<size_t, std::vector<Instr>> later;
    for (const ValueId id : recomputed)
      if (const auto used = last.find(id); used != last.end()) {
        Instr& free = later[used->second].emplace_back(listing.instrs[used->second]);
        free.releases.clear();
        free.action = Free{id};
      }
    if (later.empty() && !has_late_use(listing.instrs, last)) continue;
    std::vector<Instr> instrs;
    instrs.reserve(listing.instrs.size() + later.size());
    for (size_t i = 0; i < listing.instrs.size(); ++i) {
      Instr& instr = listing.instrs[i];
      const Free* free = std::get_if<Free>(&instr.action);
      const auto used = free != nullptr ? last.find(free->value) : last.end();
      const bool again = free != nullptr && recomputed.contains(free->value);
      if (again) continue;
      if (used != last.end() && used->second > i)
        later[used->second].push_back(std::move(instr));
      else
        instrs.push_back(std::move(instr));
      if (const auto due = later.find(i); due != later.end())
        for (Instr& moved : due->second) instrs.push_back(std::move(moved));
    }
    listing.instrs = std::move(instrs);
  }
}

}  // namespace shardproof
