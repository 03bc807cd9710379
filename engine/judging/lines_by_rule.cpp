// Implements lines_by_rule.h.
#include "shardproof/engine/judging/lines_by_rule.h"

#include <algorithm>
#include <iterator>

#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/engine/lower/value_lifetimes.h"

namespace shardproof {
namespace {

SpmdListing& listing_of_ranks(Partitioned& parts) { return parts.program.listings[0]; }
const SpmdListing& listing_of_ranks(const Partitioned& parts) { return parts.program.listings[0]; }

// True if the ranks' value holds shards of the value of the global program.
bool holds_shards_of(const Partitioned& parts, ValueId id, ValueId global) {
  const SpmdValue& value = parts.program.values[static_cast<size_t>(id)];
  return value.global == global && parts.placed[static_cast<size_t>(global)] == id && value.spec &&
         !value.spec->has_partial();
}

bool is_by_rule(const Compute& compute, const GlobalInstr& line, const GlobalProgram& program,
                const Partitioned& parts) {
  const auto value = [&](ValueId id) -> const GlobalValue& {
    return program.values[static_cast<size_t>(id)];
  };
  const auto is_input = [&](ValueId id, ValueId of) {
    if (id == kNoValue || of == kNoValue) return id == of;
    return value(of).weak || holds_shards_of(parts, id, of);
  };
  const auto is_result = [&](ValueId id, ValueId of) {
    return holds_shards_of(parts, id, of) && !value(of).weak && !is_narrow_float(value(of).dtype);
  };
  return !line.local && line.op == compute.op.str() && compute.into == kNoValue &&
         std::equal(compute.inputs.begin(), compute.inputs.end(), line.inputs.begin(),
                    line.inputs.end(), is_input) &&
         std::equal(compute.outputs.begin(), compute.outputs.end(), line.outputs.begin(),
                    line.outputs.end(), is_result);
}

template <typename List>
void remove_marked(List& instrs, const std::vector<bool>& marked) {
  List kept;
  for (size_t i = 0; i < instrs.size(); ++i)
    if (!marked[i]) kept.push_back(std::move(instrs[i]));
  instrs = std::move(kept);
}

// Releases each temporary after the last instruction that is left.
void release_again(SpmdProgram& program) {
  for (SpmdListing& listing : program.listings)
    for (Instr& instr : listing.instrs) instr.releases.clear();
  release_temporaries(program);
}

}  // namespace

LinesByRule::LinesByRule(const GlobalProgram& program, const Partitioned& parts)
    : lines_(program.instrs.size(), false), instrs_(listing_of_ranks(parts).instrs.size(), false) {
  std::vector<int> maker(program.values.size(), -1);
  for (size_t i = 0; i < program.instrs.size(); ++i)
    for (const ValueId id : program.instrs[i].outputs)
      maker[static_cast<size_t>(id)] = static_cast<int>(i);
  const Instrs& instrs = listing_of_ranks(parts).instrs;
  for (size_t i = 0; i < instrs.size(); ++i) {
    const Compute* const compute = std::get_if<Compute>(&instrs[i].action);
    if (compute == nullptr || compute->outputs.empty()) continue;
    const ValueId first = parts.program.values[static_cast<size_t>(compute->outputs[0])].global;
    const int line = first == kNoValue ? -1 : maker[static_cast<size_t>(first)];
    if (line < 0) continue;
    const GlobalInstr& instr = program.instrs[static_cast<size_t>(line)];
    if (!is_by_rule(*compute, instr, program, parts)) continue;
    instrs_[i] = lines_[static_cast<size_t>(line)] = true;
    made_.insert(instr.outputs.begin(), instr.outputs.end());
  }
  find_read_by_others(program, parts);
}

void LinesByRule::find_read_by_others(const GlobalProgram& program, const Partitioned& parts) {
  for (size_t i = 0; i < program.instrs.size(); ++i)
    if (!lines_[i]) read_.insert(program.instrs[i].inputs.begin(), program.instrs[i].inputs.end());
  const Instrs& instrs = listing_of_ranks(parts).instrs;
  for (size_t i = 0; i < instrs.size(); ++i)
    if (!instrs_[i] && !std::holds_alternative<Free>(instrs[i].action))
      for (const ValueId id : effects_of(instrs[i]).reads)
        read_.insert(parts.program.values[static_cast<size_t>(id)].global);
  read_.erase(kNoValue);
  std::set_intersection(made_.begin(), made_.end(), read_.begin(), read_.end(),
                        std::back_inserter(results_));
}

std::vector<size_t> LinesByRule::remove_from(GlobalProgram& program, Partitioned& parts) const {
  remove_marked(program.instrs, lines_);
  remove_marked(listing_of_ranks(parts).instrs, instrs_);
  std::vector<size_t> staying;
  std::vector<ValueId> inputs;
  std::set<ValueId> gone = made_;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (!read_.contains(program.inputs[i])) {
      gone.insert(program.inputs[i]);
      continue;
    }
    staying.push_back(i);
    inputs.push_back(program.inputs[i]);
  }
  for (const ValueId id : results_) {
    gone.erase(id);
    inputs.push_back(id);
  }
  const auto placed = [&](ValueId id) { return parts.placed[static_cast<size_t>(id)]; };
  parts.program.inputs.clear();
  for (const ValueId id : inputs) parts.program.inputs.push_back(placed(id));
  // No run makes these values, so none is compared.
  for (const ValueId id : gone)
    parts.program.values[static_cast<size_t>(placed(id))].global = kNoValue;
  program.inputs = std::move(inputs);
  release_again(parts.program);
  return staying;
}

}  // namespace shardproof
