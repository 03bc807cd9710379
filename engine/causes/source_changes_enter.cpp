// Implements right_enter of source_changes.h: writes enter(x, group=tp) where ranks that hold the
// same x compute different parts from it.
//
// Example: a is the same on all ranks of tp, and w1 is cut. h = relu(a @ w1) is each rank's own
// part, so each rank has a part of the gradient by a. enter(a, group=tp) adds the parts up.
#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/causes/rank_text.h"
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

// The axes and the values that the author enters somewhere, and the axes by line.
struct WrittenEntries {
  std::set<std::string> axes = {}, values = {};
  std::map<ListedLine, std::set<std::string>> by_line = {};
};

WrittenEntries written_entries(const Job& job) {
  WrittenEntries written;
  Job copy = job;
  visit_expressions(copy, [&](const TextPlace& place, Expr& call) {
    const Expr* const group = call.kind == ExprKind::call && call.symbol == "enter"
                                  ? argument_of(call, "group")
                                  : nullptr;
    if (group == nullptr) return;
    const auto add_names = [](const Expr& expr, std::set<std::string>& names) {
      visit_parts(expr, [&](const Expr& part) {
        if (part.kind == ExprKind::name && part.name.plain()) names.insert(part.name.texts[0]);
      });
    };
    std::set<std::string>& of_line = written.by_line[{place.listing, call.place.line}];
    add_names(*group, of_line);
    written.axes.insert(of_line.begin(), of_line.end());
    add_names(call.args[0], written.values);
  });
  return written;
}

// Returns the axes over which all ranks differentiate the same value, and those that the author
// enters. Over other axes each rank has its part of the loss, and the author adds gradients up
// after grad.
std::vector<int> axes_to_enter(const RankCase& about, const Provenance& provenance,
                               const std::set<std::string>& entered) {
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
    const MeshAxis& of_mesh = provenance.mesh().axes()[static_cast<size_t>(axis)];
    bool any = false, all = true;
    for (size_t l = 0; l < program.listings.size(); ++l)
      for (const Instr& instr : program.listings[l].instrs)
        for (const ValueId id : effects_of(instr).writes) {
          if (!names.contains({l, program.values[static_cast<size_t>(id)].bound.str()})) continue;
          any = true;
          all = all && provenance.state(id, axis).kind == AxisKind::replicated;
        }
    if ((any && all) || entered.contains(of_mesh.name)) axes.push_back(axis);
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

// The named values that each value without a name is computed from, in one listing.
class NamedSources {
 public:
  explicit NamedSources(const SpmdProgram& program) : program_(program) {}
  std::set<ValueId> of(ValueId id) const {
    const auto found = sources_.find(id);
    return found == sources_.end() ? std::set<ValueId>{id} : found->second;
  }
  void add(const Compute& compute) {
    std::set<ValueId> all;
    for (const ValueId input : compute.inputs)
      if (input != kNoValue) all.merge(of(input));
    for (const ValueId output : compute.outputs)
      if (output != kNoValue && program_.values[static_cast<size_t>(output)].bound.empty())
        sources_[output] = all;
  }

 private:
  const SpmdProgram& program_;
  std::map<ValueId, std::set<ValueId>> sources_;
};

std::vector<EntryOfName> entries_of(const RankCase& about, const Provenance& provenance,
                                    EnteredNames which) {
  const SpmdProgram& program = about.ranks.program;
  const WrittenEntries written = written_entries(about.job);
  const std::vector<int> axes = axes_to_enter(about, provenance, written.axes);
  std::set<std::pair<ValueId, int>> entered;  // results of enter(..), by axis
  const auto note_entered = [&](const Instr& instr, size_t listing) {
    const auto* merge = std::get_if<Merge>(&instr.action);
    const auto line = written.by_line.find({listing, instr.origin.line});
    if (merge == nullptr || line == written.by_line.end()) return;
    for (const int axis : axes)
      if (line->second.contains(provenance.mesh().axes()[static_cast<size_t>(axis)].name))
        entered.emplace(merge->output, axis);
  };
  std::map<std::pair<std::string, int>, EntryOfName> found;
  const auto add = [&](ValueId id, int axis, const ListedLine& line) {
    const SpmdValue& value = program.values[static_cast<size_t>(id)];
    const bool is_input = std::count(program.inputs.begin(), program.inputs.end(), id) > 0;
    const std::string name = value.bound.empty() ? value.name : value.bound.str();
    // An input that another line enters is an activation, not a weight.
    const bool is_weight = is_input && !written.values.contains(name);
    if (value.weak || entered.contains({id, axis}) || is_weight != (which == EnteredNames::inputs))
      return;
    found.emplace(std::pair(name, axis), EntryOfName{name, axis}).first->second.lines.insert(line);
  };
  for (size_t l = 0; l < program.listings.size(); ++l) {
    NamedSources sources(program);
    for (size_t i = 0; i < program.listings[l].instrs.size(); ++i) {
      const Instr& instr = program.listings[l].instrs[i];
      const auto* compute = std::get_if<Compute>(&instr.action);
      const Step step{l, i, {l, instr.origin.line, 0}, &instr};
      note_entered(instr, l);
      if (compute == nullptr || compute->outputs.empty() || is_made_by_grad(about.ranks, step))
        continue;
      for (size_t slot = 0; slot < compute->inputs.size(); ++slot)
        for (const int axis : axes) {
          const ValueId id = compute->inputs[slot];
          if (id == kNoValue ||
              provenance.state_read(l, i, slot, axis).kind != AxisKind::replicated ||
              provenance.state(compute->outputs[0], axis).kind == AxisKind::replicated)
            continue;
          for (const ValueId source : sources.of(id)) add(source, axis, {l, instr.origin.line});
        }
      sources.add(*compute);
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
