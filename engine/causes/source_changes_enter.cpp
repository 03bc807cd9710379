// Implements right_enter of source_changes.h: writes enter(x, group=tp) where ranks that hold the
// same x compute different parts from it.
//
// Example: a is the same on all ranks of tp, and w1 is cut. h = relu(a @ w1) is each rank's own
// part, so each rank has a part of the gradient by a. enter(a, group=tp) adds the parts up.
#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/causes/same_lines.h"
#include "shardproof/engine/causes/source_changes.h"

namespace shardproof {
namespace {

// True if the text sends gradients back itself: by enter(..) or a call with backward=.
bool writes_backwards(const Job& job) {
  bool any = false;
  Job copy = job;
  visit_expressions(copy, [&](const TextPlace&, Expr& call) {
    any = any || (call.kind == ExprKind::call &&
                  (call.symbol == "enter" || argument_of(call, "backward") != nullptr));
  });
  return any;
}

// Returns the axes over which all ranks differentiate the same value. Over other axes each rank has
// its part of the loss, and the author adds gradients up after grad.
std::vector<int> axes_of_whole_losses(const RankCase& about, const Provenance& provenance) {
  std::set<std::pair<size_t, std::string>> names;  // of losses, or of the gradients by them
  Job copy = about.job;
  visit_expressions(copy, [&](const TextPlace& place, Expr& call) {
    if (call.kind != ExprKind::call || call.symbol != "grad" || call.args.empty()) return;
    const Expr* const by = argument_of(call, "with");
    const Expr& loss = by != nullptr ? *by : call.args[0];
    if (loss.kind == ExprKind::name && loss.name.plain())
      names.emplace(place.listing, loss.name.texts[0]);
  });
  const SpmdProgram& program = about.ranks.program;
  std::vector<int> axes;
  for (int axis = 0; axis < provenance.mesh().axis_count(); ++axis) {
    bool any = false, all = true;
    for (size_t l = 0; l < program.listings.size(); ++l)
      for (const Instr& instr : program.listings[l].instrs)
        for (const ValueId id : effects_of(instr).writes) {
          if (!names.contains({l, program.values[static_cast<size_t>(id)].bound.str()})) continue;
          any = true;
          all = all && provenance.state(id, axis).kind == AxisKind::replicated;
        }
    if (any && all) axes.push_back(axis);
  }
  return axes;
}

// A name that is the same on all ranks of an axis, and lines that compute each rank's own part of
// it.
struct EntryOfName {
  std::string name;
  int axis = 0;
  std::set<ListedLine> lines = {};
};

std::vector<EntryOfName> entries_of(const RankCase& about, const Provenance& provenance,
                                    EnteredNames which) {
  const SpmdProgram& program = about.ranks.program;
  const std::vector<int> axes = axes_of_whole_losses(about, provenance);
  std::map<std::pair<std::string, int>, EntryOfName> found;
  for (size_t l = 0; l < program.listings.size(); ++l)
    for (size_t i = 0; i < program.listings[l].instrs.size(); ++i) {
      const Instr& instr = program.listings[l].instrs[i];
      const auto* compute = std::get_if<Compute>(&instr.action);
      const Step step{l, i, {l, instr.origin.line, 0}, &instr};
      if (compute == nullptr || compute->outputs.empty() || is_made_by_grad(about.ranks, step))
        continue;
      for (size_t slot = 0; slot < compute->inputs.size(); ++slot) {
        const ValueId id = compute->inputs[slot];
        if (id == kNoValue || program.values[static_cast<size_t>(id)].weak) continue;
        const SpmdValue& value = program.values[static_cast<size_t>(id)];
        const bool is_input = std::count(program.inputs.begin(), program.inputs.end(), id) > 0;
        const std::string name = value.bound.empty() ? value.name : value.bound.str();
        if (is_input != (which == EnteredNames::inputs)) continue;
        for (const int axis : axes)
          if (provenance.state_read(l, i, slot, axis).kind == AxisKind::replicated &&
              provenance.state(compute->outputs[0], axis).kind != AxisKind::replicated)
            found.emplace(std::pair(name, axis), EntryOfName{name, axis})
                .first->second.lines.insert({l, instr.origin.line});
      }
    }
  std::vector<EntryOfName> entries;
  for (auto& [key, entry] : found) entries.push_back(std::move(entry));
  return entries;
}

// Returns the numbers of the expressions that are this name, in lines.
std::set<int> reads_of_name(const Job& job, const std::string& name,
                            const std::set<ListedLine>& lines) {
  std::set<int> numbers;
  Job copy = job;
  visit_expressions(copy, [&](const TextPlace& place, Expr& expr) {
    if (expr.kind == ExprKind::name && expr.name.plain() && expr.name.texts[0] == name &&
        lines.contains({place.listing, expr.place.line}))
      numbers.insert(place.number);
  });
  return numbers;
}

}  // namespace

std::optional<SourceCause> right_enter(const RankCase& about, const Provenance& provenance,
                                       EnteredNames which, Confirmation& confirmation) {
  if (!calls_grad(about.job) || !writes_backwards(about.job)) return std::nullopt;
  size_t tried = 0;
  std::optional<SourceCause> best;
  for (const EntryOfName& entry : entries_of(about, provenance, which)) {
    const std::string over = provenance.mesh().axes()[static_cast<size_t>(entry.axis)].name;
    std::vector<std::set<ListedLine>> choices;
    for (const ListedLine& line : entry.lines) choices.push_back({line});
    if (entry.lines.size() > 1) choices.push_back(entry.lines);
    for (const std::set<ListedLine>& lines : choices) {
      const std::set<int> numbers = reads_of_name(about.job, entry.name, lines);
      if (numbers.empty() || ++tried > kMostChanges) continue;
      const auto enter = [&over](Expr& name) {
        Expr call = parse_expression(fmt::format("enter(x, group={})", over));
        call.place = name.place;
        call.args[0] = std::move(name);
        name = std::move(call);
      };
      if (!confirmation.confirms_job(change_of(numbers, enter), {entry.axis})) continue;
      if (best && confirmation.made_right().size() <= best->made_right.size()) continue;
      const std::string text = lines_text(about.ranks.program, lines);
      best = SourceCause{
          fmt::format("{0} is the same on all ranks of {1}, and {2} each rank's own part from it; "
                      "no call adds the gradients by {0} up over {1}",
                      entry.name, over, lines_with_verb(text, "computes")),
          fmt::format("enter({0}, group={1}) in place of {0} on {2}", entry.name, over, text),
          lines, confirmation.made_right()};
    }
  }
  return best;
}

}  // namespace shardproof
