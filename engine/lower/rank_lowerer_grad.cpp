// Implements what grad needs of rank_lowerer.h: writes in place on the tape, dead instructions, and
// gradients with memory of their own.
//
// A write into x[1:3] makes a new version of the value that owns the memory, x, and of each value
// that shares it. Example: v = x[0]; x[1:3] = y gives the entries
//
//   write(x.0, y; views: slice [1:3]) -> x.1      select(x.1, 0) -> v.1
#include <algorithm>

#include "shardproof/engine/lower/rank_lowerer.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

void RankLowerer::record_write(ValueId target, ValueId source) {
  if (!tape_) return;
  const Lanes all = lanes_;
  for (const auto& [held, owner] : memory_of(target)) {
    lanes_ = all.intersect(held);
    if (!lanes_.empty()) record_write_on(target, source, owner);
  }
  lanes_ = all;
}

std::vector<size_t> RankLowerer::views_to(ValueId id, ValueId owner) {
  std::vector<size_t> views;
  for (ValueId at = id; at != owner;) {
    const int maker = tape_->maker(tape_->present(at));
    SP_CHECK(maker >= 0, "value {} shares memory and was never made", at);
    const TapeEntry& entry = tape_->entry(maker);
    views.push_back(static_cast<size_t>(maker));
    ValueId next = tape_->value(entry.inputs.at(0));
    if (entry.kind == TapeKind::merge)
      for (size_t i = 0; i < entry.parts.size(); ++i)
        if (entry.parts[i].contains(lanes_[0])) next = tape_->value(entry.inputs[i]);
    at = next;
  }
  std::reverse(views.begin(), views.end());
  return views;
}

void RankLowerer::record_write_on(ValueId target, ValueId source, ValueId owner) {
  // The views are found before any version changes.
  std::vector<std::pair<ValueId, size_t>> shared;  // a value and the entry that made it a view
  for (const auto& [id, memory] : memory_)
    if (std::any_of(memory.begin(), memory.end(), [&](const auto& part) {
          return part.second == owner && !part.first.intersect(lanes_).empty();
        })) {
      const int maker = tape_->maker(tape_->present(id));
      if (maker >= 0) shared.emplace_back(id, static_cast<size_t>(maker));
    }
  TapeEntry write = tape_entry(TapeKind::write);
  write.views = views_to(target, owner);
  tape_->record_new_version(std::move(write), {tape_->present(owner), tape_->present(source)},
                            owner);
  // A view is made after the value that it shows, so the order of ids is that of the views.
  for (const auto& [id, maker] : shared) {
    TapeEntry view = tape_->entry(static_cast<int>(maker));
    std::vector<VersionId> inputs;
    for (const VersionId input : view.inputs)
      inputs.push_back(input == kNoVersion ? kNoVersion : tape_->present(tape_->value(input)));
    view.origin = origin();
    tape_->record_new_version(std::move(view), inputs, id);
  }
}

void RankLowerer::remove_dead(size_t first, const std::vector<ValueId>& results) {
  std::set<ValueId> live(results.begin(), results.end());
  std::vector<Instr> kept;
  for (size_t i = listing_.instrs.size(); i-- > first;) {
    Instr& instr = listing_.instrs[i];
    const Compute* compute = std::get_if<Compute>(&instr.action);
    const Merge* merge = std::get_if<Merge>(&instr.action);
    const Effects effects = effects_of(instr);
    const bool pure = (compute != nullptr && compute->into == kNoValue) || merge != nullptr ||
                      std::holds_alternative<NumberValue>(instr.action);
    std::vector<ValueId> made = effects.writes;
    if (merge != nullptr) made.push_back(merge->output);
    if (pure &&
        std::none_of(made.begin(), made.end(), [&](ValueId id) { return live.contains(id); }))
      continue;
    live.insert(effects.reads.begin(), effects.reads.end());
    if (compute != nullptr && compute->into != kNoValue) live.insert(compute->into);
    if (merge != nullptr)
      for (const auto& [lanes, id] : merge->parts) live.insert(id);
    kept.push_back(std::move(instr));
  }
  listing_.instrs.resize(first);
  for (auto instr = kept.rbegin(); instr != kept.rend(); ++instr)
    listing_.instrs.push_back(std::move(*instr));
}

std::vector<ValueId> RankLowerer::in_own_memory(std::vector<ValueId> values, size_t first) {
  std::set<ValueId> taken;
  for (ValueId& id : values) {
    bool shared = false;
    for (const auto& [lanes, owner] : memory_of(id))
      shared = shared || owner < static_cast<ValueId>(first) || !taken.insert(owner).second;
    if (shared) {
      id = copy_of(id);
      taken.insert(id);
    }
  }
  return values;
}

}  // namespace shardproof
