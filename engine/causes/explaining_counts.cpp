// Implements explaining.h: values that count too often, or not often enough.
#include <algorithm>
#include <cmath>

#include "shardproof/engine/causes/explaining.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

std::string number_text(double value) {
  if (value == std::floor(value)) return fmt::format("{:.0f}", value);
  // A factor near 1 keeps all its digits.
  const std::string text = fmt::format("{:.6g}", value);
  return text == "1" ? fmt::format("{}", value) : text;
}

// Returns a term as a fix names it: its name, its text, or "the term of line 3".
std::string term_text(const RankCase& about, const WayToValue& way, ValueId id,
                      const std::string& line) {
  const SpmdValue& value = about.ranks.program.values[static_cast<size_t>(id)];
  if (!value.bound.empty()) return value.bound.str();
  if (const std::optional<double> number = number_of(about.ranks, id)) return number_text(*number);
  for (const Step& step : way.steps)
    for (size_t slot = 0; made_by(*step.instr, slot) != kNoValue; ++slot)
      if (made_by(*step.instr, slot) == id)
        if (const std::string text = expression_at(about, step, slot); !text.empty()) return text;
  return fmt::format("the term of {}", line);
}

// Returns the word of the first all_reduce of a line, such as "avg"; "" if it has none.
std::string reduction_named(const Expr& value) {
  std::string word;
  visit_parts(value, [&](const Expr& part) {
    if (word.empty() && part.symbol == "all_reduce" && part.args.size() > 1)
      word = to_string(part.args[1]);
  });
  return word;
}

std::set<std::string> made_right_by_each(const std::vector<ConfirmedCause>& found) {
  std::set<std::string> keys = found.front().made_right;
  for (const ConfirmedCause& one : found)
    std::erase_if(keys, [&](const std::string& key) { return !one.made_right.contains(key); });
  return keys;
}

}  // namespace

std::string Explaining::axes_text(const std::vector<int>& axes, const char* last) const {
  std::vector<std::string> names;
  for (const int axis : axes) names.push_back(mesh_.axes()[static_cast<size_t>(axis)].name);
  return joined_words(names, last);
}

std::string Explaining::group_text(std::vector<int> axes, const CallItem& in_place_of) const {
  for (const int axis : in_place_of.collective.group.axes())
    if (mesh_.axis_size(axis) == 1) axes.push_back(axis);
  std::sort(axes.begin(), axes.end());
  return group_argument(mesh_, axes);
}

int64_t Explaining::size_of_axes(const std::vector<int>& axes) const {
  int64_t size = 1;
  for (const int axis : axes) size *= mesh_.axis_size(axis);
  return size;
}

// True if the gradient of the call is on the way, too: an edit would change the call alone.
bool Explaining::is_differentiated(const Step& step) const {
  const std::vector<std::string>& lines = about_.ranks.program.listings[step.listing].lines;
  const auto line = static_cast<size_t>(step.site.line);
  return line >= 1 && line <= lines.size() &&
         lines[line - 1].find("backward=") != std::string::npos && is_made_by_grad_on_way();
}

// True if `grad` made the call as the backward of another one. The line of the step does not write
// it, so it is no place for a fix.
bool Explaining::is_backward_of_call(const Step& step) const {
  const CallItem* const item = collective_of(step);
  if (item == nullptr || !is_made_by_grad(about_.ranks, step)) return false;
  const std::vector<std::string>& lines = about_.ranks.program.listings[step.listing].lines;
  const std::string& text = lines[static_cast<size_t>(step.site.line) - 1];
  const std::string call = std::string(name(item->collective.kind)) + "(";
  // The line may write another call of this kind: all_reduce(grad(l, g), sum, group=dp).
  const auto column = static_cast<size_t>(std::max(item->origin.column, 1));
  return column > text.size() || !std::string_view(text).substr(column - 1).starts_with(call);
}

bool Explaining::is_found(const std::vector<ConfirmedCause>& found, Edit::Kind kind,
                          const Step& step) const {
  return std::any_of(found.begin(), found.end(), [&](const ConfirmedCause& one) {
    return one.edit.kind == kind &&
           std::count(one.edit.also.begin(), one.edit.also.end(), step.site) > 0;
  });
}

void Explaining::copies_added_up(std::vector<ConfirmedCause>& found) {
  for (const Step& step : way_.steps) {
    const CallItem* item = reduction_of(step);
    if (item == nullptr || item->collective.reduction.op != ReduceOp::sum ||
        is_found(found, Edit::Kind::regroup, step) ||
        is_found(found, Edit::Kind::change_op, step) ||
        is_found(found, Edit::Kind::scale_output, step))
      continue;
    if (is_backward_of_call(step) || is_differentiated(step)) continue;
    const auto have = axes_of(item->collective.group, mesh_, step.instr->lanes);
    if (!have) continue;
    std::vector<int> copies, others;
    const std::vector<int> between = axes_between_listings();
    for (const int axis : *have) {
      const AxisState& state = provenance_.state_read(step.listing, step.index, 0, axis);
      const bool is_copied = state.kind == AxisKind::replicated &&
                             std::count(between.begin(), between.end(), axis) == 0;
      (is_copied ? copies : others).push_back(axis);
    }
    if (copies.empty()) continue;
    Edit edit{Edit::Kind::change_op, step.site, 0, {}, {ReduceOp::avg, 0}, 1};
    const bool keeps_shape = item->collective.kind != CollectiveKind::reduce_scatter;
    if (!others.empty() && keeps_shape)
      edit = {Edit::Kind::regroup,        step.site, 0, Group::of_axes(mesh_, others),
              item->collective.reduction, 1};
    else if (!others.empty())
      edit = {Edit::Kind::scale_output, step.site, 0, {}, {}, 1.0 / size_of_axes(copies)};
    if (!confirmation_.confirms_in_listings(edit, copies)) continue;
    const std::string over = axes_text(copies), lines = text_of(edit);
    const std::string name = shown(item->input, lines);
    found.push_back(
        {fmt::format("{} is the same on all ranks of {}, and {} it over {}: it counts {} times",
                     name, over, lines_with_verb(lines, "sums"), item->collective.group.name(),
                     size_of_axes(copies)),
         others.empty() ? fmt::format("remove the sum over {} on {}, or take avg", over, lines)
         : keeps_shape  ? fmt::format("group={} on {}", group_text(others, *item), lines)
                        : fmt::format("divide by {} after {}", size_of_axes(copies), lines),
         edit, confirmation_.made_right()});
  }
}

// True if one sum of copies explains all wrong values.
bool Explaining::copies_explain_all() {
  std::vector<ConfirmedCause> copies;
  copies_added_up(copies);
  if (copies.size() != 1 || copies[0].made_right.size() < confirmation_.wrong_values().size())
    return false;
  settle(copies[0]);
  return true;
}

namespace {

// Returns the reductions that an author may have meant in place of one.
std::vector<ReduceOp> others_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return {ReduceOp::avg, ReduceOp::max, ReduceOp::min};
    case ReduceOp::avg: return {ReduceOp::sum, ReduceOp::max, ReduceOp::min};
    case ReduceOp::max: return {ReduceOp::sum, ReduceOp::min, ReduceOp::avg};
    case ReduceOp::min: return {ReduceOp::max, ReduceOp::sum, ReduceOp::avg};
    default: return {};
  }
}

}  // namespace

// True if an edit takes an average in place of a sum, or the reverse, over axes that cannot have
// another size.
bool Explaining::is_unvaried(const Edit& edit) {
  const ReduceOp op = edit.reduction.op;
  if (edit.kind != Edit::Kind::change_op || (op != ReduceOp::sum && op != ReduceOp::avg))
    return false;
  for (const Step& step : way_.steps) {
    const CallItem* const item = step.site == edit.site ? reduction_of(step) : nullptr;
    if (item == nullptr) continue;
    const auto axes = axes_of(item->collective.group, mesh_, step.instr->lanes);
    return axes && std::none_of(axes->begin(), axes->end(), [&](int axis) {
             return confirmation_.is_right_without(axis).has_value();
           });
  }
  return false;
}

// True if the input of a step is known to be a part of a reduction over the axis.
bool Explaining::is_part_of(const Step& step, int axis, ReduceOp op) const {
  const AxisState& state = provenance_.state_read(step.listing, step.index, 0, axis);
  return state.kind == AxisKind::partial && state.placement.partial().reduction.op == op;
}

void Explaining::other_reductions(std::vector<ConfirmedCause>& found) {
  for (const Step& step : way_.steps) {
    const CallItem* item = reduction_of(step);
    if (item == nullptr || is_backward_of_call(step) || is_differentiated(step) ||
        is_found(found, Edit::Kind::change_op, step))
      continue;
    const ReduceOp op = item->collective.reduction.op;
    const auto axes = axes_of(item->collective.group, mesh_, step.instr->lanes);
    for (const ReduceOp other : others_of(op)) {
      Edit edit{Edit::Kind::change_op, step.site, 0, {}, {other, 0}, 1};
      if (!confirmation_.confirms_in_listings(edit, axes.value_or(std::vector<int>()))) continue;
      found.push_back({fmt::format("{} the {} over {}, and {} is right with the {}",
                                   lines_with_verb(text_of(edit), "takes"), reduction_word(op),
                                   item->collective.group.name(), target(), reduction_word(other)),
                       fmt::format("{} in place of {} on {}", name(other), name(op), text_of(edit)),
                       edit, confirmation_.made_right()});
      found.back().is_known = axes && axes->size() == 1 && is_part_of(step, (*axes)[0], other);
      if (other == ReduceOp::avg && axes && !found.back().is_known) means_of_columns(step, found);
      break;
    }
  }
}

void Explaining::superfluous_factors(std::vector<ConfirmedCause>& found) {
  for (const Step& step : way_.steps) {
    const auto* compute = std::get_if<Compute>(&step.instr->action);
    if (compute == nullptr || (compute->op != "mul" && compute->op != "div") ||
        is_found(found, Edit::Kind::drop_factor, step))
      continue;
    for (size_t slot = compute->op == "div" ? 1 : 0; slot < compute->inputs.size(); ++slot) {
      const std::optional<double> number = number_of(about_.ranks, compute->inputs[slot]);
      if (is_made_by_grad(about_.ranks, step)) continue;  // the author wrote no factor there
      if (!number || std::abs(*number) == 1 || *number == 0) continue;
      Edit edit{Edit::Kind::drop_factor, step.site, slot, {}, {}, *number};
      if (compute->op == "div") edit.factor = 1 / *number;
      if (!confirmation_.confirms_in_listings(edit)) continue;
      std::set<std::string> made_right = confirmation_.made_right();
      // The edit leaves gradients that were taken of this line as they are.
      const auto right = is_right_without_factor(about_, {step.listing, step.site.line},
                                                 provenance_, confirmation_);
      if (right == false) continue;
      if (right) made_right = confirmation_.made_right();
      const char* verb = compute->op == "div" ? "divides" : "multiplies";
      found.push_back(
          {fmt::format("{} by {}, and {} is right without this factor",
                       lines_with_verb(text_of(edit), verb), number_text(*number), target()),
           fmt::format("remove the factor {} on {}",
                       compute->op == "div" ? "1 / " + number_text(*number) : number_text(*number),
                       text_of(edit)),
           edit, std::move(made_right)});
    }
  }
}

bool Explaining::is_summed_later(size_t from, int axis) const {
  return value_.spec.placement(axis).is_partial() ||
         is_called_later(from, axis, [](const Collective& call) {
           return reduces(call.kind) && call.reduction.op == ReduceOp::sum;
         });
}

// True if the first call that adds up what is computed from a step is over the axis, or none does.
bool Explaining::is_first_summed_over(size_t from, int axis) const {
  const std::vector<ValueId> made = effects_of(*way_.steps[from].instr).writes;
  std::set<ValueId> reached(made.begin(), made.end());
  for (size_t i = from + 1; i < way_.steps.size(); ++i) {
    const CallItem* const item = reduction_of(way_.steps[i]);
    if (item != nullptr && reached.contains(item->input))
      return is_over_axis(item->collective.group, mesh_, axis, item->lanes);
    const Effects effects = effects_of(*way_.steps[i].instr);
    if (std::any_of(effects.reads.begin(), effects.reads.end(),
                    [&](ValueId id) { return reached.contains(id); }))
      reached.insert(effects.writes.begin(), effects.writes.end());
  }
  return true;
}

bool Explaining::is_combined_later(size_t from, int axis, Combining by) const {
  return is_called_later(from, axis, [&](const Collective& call) {
    const bool gathers =
        call.kind == CollectiveKind::all_gather || call.kind == CollectiveKind::gather;
    return reduces(call.kind) || (gathers && by == Combining::reductions_and_gathers);
  });
}

// True if a call over the axis follows step `from` on the way.
bool Explaining::is_called_later(size_t from, int axis,
                                 const std::function<bool(const Collective&)>& fits) const {
  for (size_t i = from + 1; i < way_.steps.size(); ++i) {
    const auto* call = std::get_if<Communicate>(&way_.steps[i].instr->action);
    if (call == nullptr) continue;
    for (const CallItem& item : call->items)
      if (fits(item.collective) && is_over_axis(item.collective.group, mesh_, axis, item.lanes))
        return true;
  }
  return false;
}

// Returns the names of the terms that an edit scales, "b0 or b1" in several listings.
std::string Explaining::terms_of(const Edit& edit) const {
  std::vector<std::string> names;
  for (const Step& step : way_.steps) {
    const bool is_at_site =
        step.site == edit.site || std::count(edit.also.begin(), edit.also.end(), step.site) > 0;
    const auto* compute = std::get_if<Compute>(&step.instr->action);
    if (!is_at_site || compute == nullptr || edit.slot >= compute->inputs.size()) continue;
    const std::string name = shown(compute->inputs[edit.slot], line_of(step));
    if (std::count(names.begin(), names.end(), name) == 0) names.push_back(name);
  }
  return joined_words(names, "or");
}

void Explaining::terms_of_each_rank(std::vector<ConfirmedCause>& found) {
  for (size_t i = 0; i < way_.steps.size(); ++i) {
    const Step& step = way_.steps[i];
    const auto* compute = std::get_if<Compute>(&step.instr->action);
    if (compute == nullptr || (compute->op != "add" && compute->op != "sub") ||
        is_found(found, Edit::Kind::scale_input, step))
      continue;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      if (mesh_.axis_size(axis) == 1 || !is_summed_later(i, axis) || !is_first_summed_over(i, axis))
        continue;
      for (size_t slot = 0; slot < 2; ++slot) {
        const auto read = [&](size_t s) {
          return provenance_.state_read(step.listing, step.index, s, axis).kind;
        };
        // A term that is added to a shard is added to its elements alone.
        const AxisKind other = read(1 - slot);
        if (read(slot) != AxisKind::replicated || other == AxisKind::replicated ||
            other == AxisKind::cut)
          continue;
        const int64_t size = mesh_.axis_size(axis);
        Edit edit{Edit::Kind::scale_input, step.site, slot, {}, {}, 1 / static_cast<double>(size)};
        if (!confirmation_.confirms_in_listings(edit, {axis})) continue;
        const std::string& over = mesh_.axes()[static_cast<size_t>(axis)].name;
        const ValueId id = compute->inputs[slot];
        const bool named = !info(id).bound.empty();
        found.push_back(
            {fmt::format("{}{} is the same on all {} ranks of {}, and each adds it before a sum "
                         "over {}: it counts {} times",
                         named ? terms_of(edit) : shown(id, line_of(step)),
                         named ? fmt::format(", added on {},", text_of(edit)) : "", size, over,
                         over, size),
             fmt::format("add {} after the sum, or on one rank of {}",
                         named ? terms_of(edit) : term_text(about_, way_, id, line_of(step)), over),
             edit, confirmation_.made_right()});
      }
    }
  }
}

// Returns the cause for a number that is applied once too often, by two factors or by a factor and
// an average. The author must choose which one to remove.
std::optional<ConfirmedCause> Explaining::applied_twice(
    const std::vector<ConfirmedCause>& found) const {
  if (found.size() != 2) return std::nullopt;
  const auto share_of = [&](const Edit& edit) -> double {
    if (edit.kind == Edit::Kind::drop_factor) return edit.factor;
    if (edit.kind != Edit::Kind::change_op || edit.reduction.op != ReduceOp::sum) return 0;
    for (const Step& step : way_.steps)
      if (const CallItem* item = reduction_of(step); item != nullptr && step.site == edit.site)
        return 1 / static_cast<double>(item->collective.group.size());
    return 0;
  };
  const double first = share_of(found[0].edit), second = share_of(found[1].edit);
  if (first == 0 || std::abs(first - second) > 1e-12 * std::abs(first)) return std::nullopt;
  std::set<ListedLine> lines = lines_of(found[0].edit);
  lines.merge(lines_of(found[1].edit));
  const bool divides = std::abs(first) < 1;
  const std::string text = fmt::format(
      "the value is {} by {} twice, on {}", divides ? "divided" : "multiplied",
      number_text(divides ? 1 / first : first), lines_text(about_.ranks.program, lines));
  return ConfirmedCause{fmt::format("{}; {} is right with either of the two alone", text, target()),
                        found[0].fix == found[1].fix
                            ? fmt::format("{}, the first or the second", found[0].fix)
                            : fmt::format("{}, or {}", found[0].fix, found[1].fix),
                        {},
                        made_right_by_each(found)};
}

// Parts of a sum that are declared as parts of an average, or of another reduction.
bool Explaining::declared_otherwise() {
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    const Placement& declared = value_.spec.placement(axis);
    const AxisState state = state_of(way_, provenance_, axis);
    if (mesh_.axis_size(axis) == 1 || !declared.is_partial() || state.kind != AxisKind::partial)
      continue;
    const ReduceOp claimed = declared.partial().reduction.op;
    const ReduceOp held = state.placement.partial().reduction.op;
    if (claimed == held || !confirmation_.confirms_placement(axis, P(held))) continue;
    const auto words = [](ReduceOp op) {
      return fmt::format("{} {}", op == ReduceOp::avg ? "an" : "a", reduction_word(op));
    };
    const std::string origin = origin_text(state, axis);
    settle({fmt::format("{} is {}{}a part of {} over {}, not of {}", target(),
                        origin.empty() ? "" : "computed from " + origin,
                        origin.empty() ? "" : ": it is ", words(held),
                        mesh_.axes()[static_cast<size_t>(axis)].name, words(claimed)),
            fmt::format("declare it as {}",
                        placements_text(value_.spec.with_placement(axis, P(held)))),
            {}});
    return true;
  }
  return false;
}

bool Explaining::is_made_by_grad_on_way() const {
  return std::any_of(way_.steps.begin(), way_.steps.end(),
                     [&](const Step& step) { return is_made_by_grad(about_.ranks, step); });
}

// Drops changes of reductions that other lines of the listing, on the way to right values, take
// too. Example: of two averages of gt, that over dp is also that of g1, and g1 is right.
void Explaining::drop_usual_reductions(std::vector<ConfirmedCause>& found) const {
  const std::set<ListedLine> right = lines_to_right();
  const std::vector<TextStatement>& all = confirmation_.text().statements();
  const auto is_usual = [&](const ConfirmedCause& cause) {
    if (cause.edit.kind != Edit::Kind::change_op) return false;
    const ListedLine line{cause.edit.site.listing, cause.edit.site.line};
    const auto own = std::find_if(all.begin(), all.end(), [&](const TextStatement& one) {
      return one.listing == line.listing && one.statement->place.line == line.line;
    });
    if (own == all.end() || group_of_own_reduction(*own).empty()) return false;
    return std::any_of(all.begin(), all.end(), [&](const TextStatement& one) {
      return one.listing == line.listing &&
             right.contains({one.listing, one.statement->place.line}) &&
             group_of_own_reduction(one) == group_of_own_reduction(*own) &&
             reduction_named(*one.whole[0]) == reduction_named(*own->whole[0]);
    });
  };
  if (found.size() > 1 && !std::all_of(found.begin(), found.end(), is_usual))
    std::erase_if(found, is_usual);
}

bool Explaining::counted_too_often() {
  std::vector<ConfirmedCause> copies, others, factors, terms;
  copies_added_up(copies);
  if (copies.empty()) other_reductions(others);
  superfluous_factors(factors);
  terms_of_each_rank(terms);
  // Reductions that provenance shows to be wrong exclude those that it does not show.
  if (std::any_of(others.begin(), others.end(), [](const auto& one) { return one.is_known; }))
    std::erase_if(others, [](const ConfirmedCause& one) { return !one.is_known; });
  std::vector<ConfirmedCause> found = std::move(copies);
  for (std::vector<ConfirmedCause>* more : {&others, &factors, &terms})
    found.insert(found.end(), more->begin(), more->end());
  for (SourceCause& change : right_forward_changes(about_, target(), provenance_, confirmation_))
    changes_.push_back(std::move(change));
  for (const SourceCause& change : changes_) {
    // The same change of the text and of the lowered line: the text also changes gradients.
    const auto same = std::find_if(found.begin(), found.end(), [&](const ConfirmedCause& one) {
      return one.fix == change.fix ||
             (one.edit.kind == Edit::Kind::drop_factor &&
              change.lines.contains({one.edit.site.listing, one.edit.site.line}));
    });
    if (same == found.end())
      found.push_back({change.text, change.fix, {}, change.made_right});
    else if (change.made_right.size() > same->made_right.size())
      same->made_right = change.made_right;
  }
  // A change that makes more of the wrong values right is their common cause.
  size_t most = 0;
  for (const ConfirmedCause& one : found) most = std::max(most, one.made_right.size());
  std::erase_if(found, [&](const ConfirmedCause& one) { return one.made_right.size() < most; });
  if (found.empty()) return false;
  drop_usual_reductions(found);
  if (found.size() == 1) {
    settle(found.front());
    fits_one_size_alone_ = is_unvaried(found.front().edit);
    return true;
  }
  if (const std::optional<ConfirmedCause> twice = applied_twice(found)) {
    settle(*twice);
    return true;
  }
  constexpr size_t kShown = 3;
  lines.push_back(
      fmt::format("{}any one of these changes alone makes {} right:", kHintLabel, target()));
  for (size_t i = 0; i < std::min(kShown, found.size()); ++i)
    lines.push_back("        " + found[i].fix);
  made_right = made_right_by_each(found);
  return true;
}

}  // namespace shardproof
