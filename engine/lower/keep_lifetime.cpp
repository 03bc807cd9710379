// Implements keep_lifetime.h.
//
// For each Keep, the instructions before it give the last work of the kept stream and the stream
// that made the value. Then each Free of the value after the keep moves to the first instruction
// that proves the work done.
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
#include "shardproof/engine/lower/keep_lifetime.h"

#include <algorithm>

namespace shardproof {
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
