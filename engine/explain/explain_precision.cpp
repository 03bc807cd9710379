// Implements explain_precision.h. Steps are found backwards: an instruction leads to the targets if
// it writes a value that a later such instruction reads. Views and merges are followed. Messages
// (send, recv) carry a value to another listing and are not followed.
#include "shardproof/engine/explain/explain_precision.h"

#include <algorithm>
#include <set>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

bool is_narrower(DType dtype, DType floor) {
  return is_floating(dtype) && is_floating(floor) && precision_bits(dtype) < precision_bits(floor);
}

const SpmdValue& spmd_value(const SpmdProgram& program, ValueId id) {
  return program.values[static_cast<size_t>(id)];
}

// Returns "reduces over dp in bf16"; "" if no call is narrower.
std::string narrow_call(const Communicate& calls, DType floor) {
  for (const CallItem& item : calls.items) {
    const Collective& call = item.collective;
    if (reduces(call.kind) && is_narrower(call.dtype, floor))
      return fmt::format("reduces over {} in {}", call.group.name(), name(call.dtype));
  }
  return "";
}

}  // namespace

std::vector<const Instr*> steps_to(const SpmdListing& listing,
                                   const std::vector<ValueId>& targets) {
  std::set<ValueId> wanted(targets.begin(), targets.end());
  std::vector<const Instr*> steps;
  for (auto instr = listing.instrs.rbegin(); instr != listing.instrs.rend(); ++instr) {
    if (const auto* merge = std::get_if<Merge>(&instr->action)) {
      if (wanted.contains(merge->output))
        for (const auto& [lanes, part] : merge->parts) wanted.insert(part);
      continue;
    }
    const Effects effects = effects_of(*instr);
    const bool leads = std::any_of(effects.writes.begin(), effects.writes.end(),
                                   [&](ValueId id) { return wanted.contains(id); });
    if (!leads) continue;
    wanted.insert(effects.reads.begin(), effects.reads.end());
    steps.push_back(&*instr);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

std::string narrow_step(const SpmdProgram& program, const std::vector<ValueId>& targets,
                        DType floor) {
  std::string rounding;
  for (const SpmdListing& listing : program.listings)
    for (const Instr* step : steps_to(listing, targets)) {
      if (const auto* calls = std::get_if<Communicate>(&step->action))
        if (const std::string text = narrow_call(*calls, floor); !text.empty())
          return fmt::format("line {} {}", step->origin.line, text);
      const auto* compute = std::get_if<Compute>(&step->action);
      if (compute == nullptr || !rounding.empty()) continue;
      for (const ValueId output : compute->outputs)
        if (is_narrower(spmd_value(program, output).dtype, floor))
          rounding = fmt::format("line {} rounds to {}", step->origin.line,
                                 name(spmd_value(program, output).dtype));
    }
  return rounding;
}

}  // namespace shardproof
