// Implements explain_precision.h. Steps are found backwards: an instruction leads to the targets if
// it writes a value that a later such instruction reads. Views and merges are followed. A call
// leads on to the values that other ranks pass to it, which another listing may compute.
#include "shardproof/engine/explain/explain_precision.h"

#include <algorithm>
#include <set>

#include "shardproof/engine/explain/line_text.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/number_text.h"
#include "shardproof/localtensor/collective/reduction_order.h"

namespace shardproof {
namespace {

bool is_narrower(DType dtype, DType floor) {
  return is_floating(dtype) && is_floating(floor) && precision_bits(dtype) < precision_bits(floor);
}

const SpmdValue& spmd_value(const SpmdProgram& program, ValueId id) {
  return program.values[static_cast<size_t>(id)];
}

std::string reduction_text(const SpmdProgram& program, const Instr& instr, const Collective& call) {
  return fmt::format("{} reduces over {} in {}", line_text(program, instr), call.group.name(),
                     name(call.dtype));
}

bool adds(const Collective& call) {
  return reduces(call.kind) && is_floating(call.dtype) &&
         (call.reduction.op == ReduceOp::sum || call.reduction.op == ReduceOp::avg);
}

bool rounds_after_each(const Collective& call) {
  const FoldOrder order = order_of(call);
  return order != FoldOrder::f32 && order != FoldOrder::exact && order != FoldOrder::symmetric &&
         order != FoldOrder::nvls;
}

// Calls visit(instruction, item) for the calls on the way that add floats over ranks.
template <typename Visit>
void for_each_sum(const SpmdProgram& program, const std::vector<ValueId>& targets,
                  const Visit& visit) {
  for (const Instr* step : steps_to(program, targets))
    if (const auto* calls = std::get_if<Communicate>(&step->action))
      for (const CallItem& item : calls->items)
        if (adds(item.collective)) visit(*step, item);
}

// Adds the instructions of a listing that lead to the wanted values and are not in `seen`, in
// program order. Adds what they read to `wanted`.
void add_steps(const SpmdListing& listing, std::set<ValueId>& wanted, std::set<const Instr*>& seen,
               std::vector<const Instr*>& found) {
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
    if (!leads || !seen.insert(&*instr).second) continue;
    wanted.insert(effects.reads.begin(), effects.reads.end());
    steps.push_back(&*instr);
  }
  found.insert(found.end(), steps.rbegin(), steps.rend());
}

// True if a step may get what another rank passes to a call. A recv gets from a send, a slot from a
// put, and any other call from the same call.
bool gets_from(const Instr& step, const Collective& call) {
  if (std::holds_alternative<SlotRead>(step.action)) return call.kind == CollectiveKind::put;
  const auto* calls = std::get_if<Communicate>(&step.action);
  if (calls == nullptr) return false;
  return std::any_of(calls->items.begin(), calls->items.end(), [&](const CallItem& item) {
    const CollectiveKind own = item.collective.kind;
    const CollectiveKind giver = own == CollectiveKind::recv ? CollectiveKind::send : own;
    return giver == call.kind && item.collective.dtype == call.dtype &&
           item.collective.group == call.group;
  });
}

// Makes the inputs wanted that other ranks may pass to the steps. Ranks of one listing make their
// calls in one order, so a call there gets what an earlier send or put passes. Its own input is
// wanted already.
void add_passed_values(const SpmdProgram& program, const std::vector<const Instr*>& steps,
                       std::set<ValueId>& wanted) {
  std::set<const Instr*> getters;
  for (const Instr* step : steps)
    if (!std::holds_alternative<Compute>(step->action)) getters.insert(step);
  for (const SpmdListing& listing : program.listings) {
    std::set<const Instr*> later = getters, own;
    for (const Instr& instr : listing.instrs)
      if (later.contains(&instr)) own.insert(&instr);
    for (const Instr& instr : listing.instrs) {
      later.erase(&instr);
      const auto* calls = std::get_if<Communicate>(&instr.action);
      if (calls == nullptr) continue;
      for (const CallItem& item : calls->items) {
        const CollectiveKind kind = item.collective.kind;
        const bool sends = kind == CollectiveKind::send || kind == CollectiveKind::put;
        const auto gets = [&](const Instr* step) {
          return (sends || !own.contains(step)) && gets_from(*step, item.collective);
        };
        if (item.input != kNoValue && std::any_of(later.begin(), later.end(), gets))
          wanted.insert(item.input);
      }
    }
  }
}

}  // namespace

std::vector<const Instr*> steps_to(const SpmdProgram& program,
                                   const std::vector<ValueId>& targets) {
  std::set<ValueId> wanted(targets.begin(), targets.end());
  std::set<const Instr*> seen;
  std::vector<const Instr*> steps;
  while (true) {
    std::vector<const Instr*> found;
    for (const SpmdListing& listing : program.listings) add_steps(listing, wanted, seen, found);
    if (found.empty()) return steps;
    // These lead to the steps that are known, so they come before them.
    steps.insert(steps.begin(), found.begin(), found.end());
    add_passed_values(program, found, wanted);
  }
}

std::vector<NarrowStep> narrow_steps(const SpmdProgram& program,
                                     const std::vector<ValueId>& targets, DType floor) {
  std::vector<NarrowStep> found;
  for (const Instr* step : steps_to(program, targets)) {
    if (const auto* calls = std::get_if<Communicate>(&step->action))
      for (const CallItem& item : calls->items) {
        const Collective& call = item.collective;
        if (reduces(call.kind) && is_narrower(call.dtype, floor))
          found.push_back({item.output, call.dtype, true, reduction_text(program, *step, call)});
      }
    // An op without inputs, such as zeros, makes numbers that every dtype has.
    if (const auto* compute = std::get_if<Compute>(&step->action);
        compute && compute->inputs.size())
      for (const ValueId output : compute->outputs)
        if (const DType dtype = spmd_value(program, output).dtype; is_narrower(dtype, floor))
          found.push_back({output, dtype, false,
                           fmt::format("{} rounds to {}", line_text(program, *step), name(dtype))});
  }
  return found;
}

std::string long_sum(const SpmdProgram& program, const std::vector<ValueId>& targets,
                     double error) {
  std::string found;
  int64_t most = 1;
  for_each_sum(program, targets, [&](const Instr& instr, const CallItem& item) {
    const Collective& call = item.collective;
    const int64_t size = call.group.size();
    const double roundings = static_cast<double>(size - 1);
    if (size <= most || !rounds_after_each(call) || roundings * unit_roundoff(call.dtype) < error)
      return;
    most = size;
    found = fmt::format("{} adds {} values over {} in {} and rounds after each",
                        line_text(program, instr), grouped_number(size), call.group.name(),
                        name(call.dtype));
  });
  return found;
}

}  // namespace shardproof
