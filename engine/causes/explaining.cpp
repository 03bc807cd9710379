// Implements explaining.h: values that no call reduces, and calls over the wrong group.
#include "shardproof/engine/causes/explaining.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns the word for what a call does: "line 3 gathers over tp".
const char* call_verb(CollectiveKind kind) {
  if (reduces(kind)) return "reduces";
  if (kind == CollectiveKind::all_gather || kind == CollectiveKind::gather) return "gathers";
  if (kind == CollectiveKind::all_to_all) return "exchanges";
  return kind == CollectiveKind::broadcast ? "broadcasts" : "scatters";
}

}  // namespace

// True if there is a cause or a hint. Stores it.
bool Explaining::adopt(const std::optional<Suspicion>& found) {
  if (!found) return false;
  lines.push_back((found->is_cause ? kCauseLabel : kHintLabel) + found->text);
  fix = found->fix;
  made_right = found->made_right;
  return true;
}

std::string Explaining::shown(ValueId id, const std::string& line) const {
  if (const std::optional<double> number = number_of(about_.ranks, id))
    return fmt::format("{}", *number);
  std::set<ValueId> wanted{id}, named;
  for (size_t i = way_.steps.size(); i-- > 0 && !wanted.empty();) {
    const Effects effects = effects_of(*way_.steps[i].instr);
    if (std::none_of(effects.writes.begin(), effects.writes.end(),
                     [&](ValueId made) { return wanted.contains(made); }))
      continue;
    for (const ValueId made : effects.writes) {
      if (!info(made).bound.empty() && wanted.contains(made)) named.insert(made);
      wanted.erase(made);
    }
    if (named.empty()) wanted.insert(effects.reads.begin(), effects.reads.end());
  }
  const std::vector<ValueId>& inputs = about_.ranks.program.inputs;
  std::vector<std::string> names;
  for (const std::set<ValueId>& ids : {named, wanted})
    for (const ValueId one : ids)
      if (!info(one).weak && names.size() < 3)
        names.push_back(info(one).bound.empty() ? info(one).name : info(one).bound.str());
  const bool own =
      !info(id).bound.empty() || std::find(inputs.begin(), inputs.end(), id) != inputs.end();
  if (own) return info(id).bound.empty() ? info(id).name : info(id).bound.str();
  if (names.empty()) return fmt::format("a value of {}", line);
  return fmt::format("the value that {} computes from {}", line, joined_words(names, "and"));
}

// Returns "x, which is cut over dp"; "" if no input of the program is the origin. `axes` have the
// same origins as `axis`.
std::string Explaining::origin_text(const AxisState& state, int axis,
                                    const std::vector<int>& axes) const {
  std::vector<std::string> cut, parts, others;
  for (const ValueId id : state.sources) {
    const AxisState& source = provenance_.state(id, axis);
    (source.kind == AxisKind::cut       ? cut
     : source.kind == AxisKind::partial ? parts
                                        : others)
        .push_back(info(id).name);
  }
  std::vector<std::string> texts;
  const std::string over = axes_text(axes.empty() ? std::vector<int>{axis} : axes);
  const auto add = [&](const std::vector<std::string>& names, const char* one, const char* many) {
    if (!names.empty())
      texts.push_back(fmt::format("{}, which {} over {}", joined_words(names, "and"),
                                  names.size() == 1 ? one : many, over));
  };
  add(cut, "is cut", "are cut");
  add(parts, "is a part of a sum", "are parts of sums");
  add(others, "differs", "differ");
  return joined_words(texts, "and");
}

// --- the order of the search

bool Explaining::run(Search search) {
  Found hint;
  const auto finds_cause = [&](bool found) {
    if (found && !fix.empty()) return true;
    if (found && hint.lines.empty()) hint = {lines, made_right};
    lines.clear();
    made_right.clear();
    return false;
  };
  const SuspectedWay on{about_, value_, provenance_, way_, confirmation_};
  shared_.budget.begin_stage(0.2);
  if (differs_by_a_number()) return true;
  changes_ = right_backward_words(about_, target(), confirmation_);
  if (changes_.empty() && explains_all(adopt(find_swapped_lines(on)))) return true;
  // If several changes make the value right, further ones answer nothing.
  const auto is_open = [&] { return hint.lines.size() < 2; };
  shared_.budget.begin_stage(0.5);
  if (changes_.empty() && finds_cause(shown_by_provenance(on))) return true;
  shared_.budget.begin_stage(0.5);
  if (changes_.empty() &&
      finds_cause(adopt(find_moved_lines(on)) || adopt(find_line_of_truth(on)) || misses_a_line() ||
                  adopt(find_second_binding(on))))
    return true;
  shared_.budget.begin_stage(0.5);
  if (changes_.empty() &&
      finds_cause(differs_from_truth(Similarity::close) || adopt(find_call_on_other_side(on))))
    return true;
  confirmation_.allow_more_runs(kMostRuns);
  shared_.budget.begin_stage(0.7);
  if (is_open() && finds_cause(shown_by_numbers(on)))
    return search == Search::short_search || !fits_one_size_alone_ || add_small_mistake();
  shared_.budget.begin_stage(1);
  if (search == Search::long_search && is_open() && finds_cause(has_small_mistake(on))) return true;
  lines = std::move(hint.lines);
  made_right = std::move(hint.made_right);
  return !lines.empty();
}

// --- values that vary where the output should be replicated

bool Explaining::never_reduced(Combining by) {
  std::vector<int> loose;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    if (mesh_.axis_size(axis) == 1) continue;
    const AxisState state = state_of(way_, provenance_, axis);
    const bool is_known =
        !state.sources.empty() ||
        (by == Combining::reductions && (is_received(state, axis) || is_made_by_grad_on_way()));
    const bool differs =
        is_same_over_target(axis) && state.kind != AxisKind::replicated && is_known;
    if (differs || is_part_of_shard(axis, by) || is_part_of_message(axis, by))
      loose.push_back(axis);
  }
  if (loose.empty()) return false;
  if (never_reduced_over(loose)) return true;
  if (loose.size() > 1)
    for (const int axis : loose)
      if (never_reduced_over({axis})) return true;
  // Over other axes nothing may be known of parts: those of gradients that a reduce_scatter made.
  std::vector<int> all;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis)
    if (mesh_.axis_size(axis) > 1) all.push_back(axis);
  return all.size() > loose.size() && never_reduced_over(all);
}

// True if the value is right with a named scalar added up over all axes over which it varies.
// Example: a count of labels of which each rank has a part over dp and cp.
bool Explaining::scalar_of_each_rank() {
  constexpr int kMostScalars = 6;
  int tries = 0;
  for (const Step& step : way_.steps) {
    const ValueId id = made_by(*step.instr, 0);
    if (id == kNoValue || info(id).bound.empty() || !is_float(id) || info(id).weak ||
        is_made_by_grad(about_.ranks, step) || info(id).shapes.size() != 1 ||
        element_count(info(id).shapes[0].shape) != 1)
      continue;
    std::vector<int> axes;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis)
      if (mesh_.axis_size(axis) > 1 && provenance_.state(id, axis).kind != AxisKind::replicated &&
          is_over_axis(Group::of_axes(mesh_, {axis}), mesh_, axis, step.instr->lanes))
        axes.push_back(axis);
    if (axes.empty() || is_reduced_as_it_is(id, axes) || ++tries > kMostScalars) continue;
    Edit edit{Edit::Kind::reduce, step.site, 0, Group::of_axes(mesh_, axes), {ReduceOp::sum, 0}, 1};
    if (!confirmation_.confirms_in_listings(edit, axes)) continue;
    settle(cause_of_missing_reduction(step, edit, axes));
    return true;
  }
  return false;
}

// True if nothing is known of a value because other listings send what it is computed from.
bool Explaining::is_received(const AxisState& state, int axis) const {
  const std::vector<int> between = axes_between_listings();
  const bool is_open = state.kind == AxisKind::unknown || state.kind == AxisKind::varying;
  return is_open && depends_on_senders() && !between.empty() &&
         std::count(between.begin(), between.end(), axis) == 0;
}

// True if the target is cut over the axis, and partial sums on the way to it are never combined.
bool Explaining::is_part_of_shard(int axis, Combining by) const {
  if (!value_.spec.placement(axis).is_shard()) return false;
  for (size_t i = 0; i < way_.steps.size(); ++i) {
    const ValueId id = made_by(*way_.steps[i].instr, 0);
    if (id != kNoValue && provenance_.state(id, axis).kind == AxisKind::partial &&
        !is_combined_later(i, axis, by))
      return true;
  }
  return false;
}

// True if partial sums of another listing, which the target is computed from, are never combined.
bool Explaining::is_part_of_message(int axis, Combining by) const {
  for (size_t i = 0; i < way_.steps.size(); ++i) {
    const ValueId id = made_by(*way_.steps[i].instr, 0);
    if (!way_.listings.contains(way_.steps[i].listing) && id != kNoValue &&
        provenance_.state(id, axis).kind == AxisKind::partial && !is_combined_later(i, axis, by))
      return true;
  }
  return false;
}

// True if a call on the way reduces the value over each of the axes.
bool Explaining::is_reduced_as_it_is(ValueId id, const std::vector<int>& axes) const {
  return std::all_of(axes.begin(), axes.end(), [&](int axis) {
    return std::any_of(way_.steps.begin(), way_.steps.end(), [&](const Step& step) {
      const CallItem* const item = reduction_of(step);
      return item != nullptr && item->input == id &&
             is_over_axis(item->collective.group, mesh_, axis, item->lanes);
    });
  });
}

// Returns the values on the way that a line adds to values that are the same over the axes.
// Example: o @ w in x + o @ w.
std::set<ValueId> Explaining::added_to_copies(const std::vector<int>& axes) const {
  std::set<ValueId> found;
  for (const Step& step : way_.steps) {
    const auto* compute = std::get_if<Compute>(&step.instr->action);
    if (compute == nullptr || (compute->op != "add" && compute->op != "sub")) continue;
    const auto is_copied = [&](size_t slot) {
      return !info(compute->inputs[slot]).weak &&
             std::all_of(axes.begin(), axes.end(), [&](int axis) {
               return provenance_.state_read(step.listing, step.index, slot, axis).kind ==
                      AxisKind::replicated;
             });
    };
    if (is_copied(0) != is_copied(1)) found.insert(compute->inputs[is_copied(0) ? 1 : 0]);
  }
  return found;
}

// Returns values of the target's listings first, of these partial sums, then named values, in
// program order.
std::vector<std::pair<const Step*, size_t>> Explaining::places_to_reduce(
    const std::vector<int>& axes) const {
  struct Place {
    bool foreign, varies, unnamed;  // foreign: of a listing that sends
    const Step* step;
    size_t slot;
  };
  std::vector<Place> places;
  const std::set<ValueId> terms = added_to_copies(axes);
  for (const Step& step : way_.steps) {
    for (size_t slot = 0; made_by(*step.instr, slot) != kNoValue; ++slot) {
      const ValueId id = made_by(*step.instr, slot);
      const bool is_flag = info(id).dtype == DType::boolean;
      bool fits = (is_float(id) || is_flag) && !info(id).weak, partial = true;
      for (const int axis : axes) {
        const AxisState& state = provenance_.state(id, axis);
        fits = fits && state.kind != AxisKind::replicated && state.kind != AxisKind::cut &&
               is_over_axis(Group::of_axes(mesh_, {axis}), mesh_, axis, step.instr->lanes);
        partial = partial && state.kind == AxisKind::partial;
      }
      const bool foreign = !way_.listings.contains(step.listing);
      if (fits && !is_reduced_as_it_is(id, axes))
        places.push_back({foreign, !partial, info(id).bound.empty(), &step, slot});
    }
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tuple(a.varies, a.foreign, a.unnamed) < std::tuple(b.varies, b.foreign, b.unnamed);
  });
  constexpr size_t kMost = 12, kMostTerms = 4;
  std::vector<std::pair<const Step*, size_t>> result;
  for (size_t i = 0; i < places.size() && result.size() < kMost + kMostTerms; ++i)
    if (i < kMost || terms.contains(made_by(*places[i].step->instr, places[i].slot)))
      result.emplace_back(places[i].step, places[i].slot);
  return result;
}

// True if the listing has a call over one of the axes after a step.
bool Explaining::has_call_after(const Step& step, const std::vector<int>& axes) const {
  const Instrs& instrs = about_.ranks.program.listings[step.listing].instrs;
  for (size_t i = step.index + 1; i < instrs.size(); ++i)
    if (const auto* call = std::get_if<Communicate>(&instrs[i].action))
      for (const CallItem& item : call->items)
        for (const int axis : axes)
          if (is_over_axis(item.collective.group, mesh_, axis, item.lanes)) return true;
  return false;
}

// True if ranks send the value, or what they compute from it, after the step that makes it.
bool Explaining::is_sent_after(const Step& step, ValueId id) const {
  const Instrs& instrs = about_.ranks.program.listings[step.listing].instrs;
  std::set<ValueId> reached{id};
  const auto is_reached = [&](ValueId one) { return reached.contains(one); };
  for (size_t i = step.index + 1; i < instrs.size(); ++i) {
    if (const auto* call = std::get_if<Communicate>(&instrs[i].action)) {
      for (const CallItem& item : call->items)
        if (item.collective.kind == CollectiveKind::send && is_reached(item.input)) return true;
      continue;
    }
    const Effects effects = effects_of(instrs[i]);
    if (std::any_of(effects.reads.begin(), effects.reads.end(), is_reached))
      reached.insert(effects.writes.begin(), effects.writes.end());
  }
  return false;
}

// True if the listing computes another value from this one.
bool Explaining::is_read_after(const Step& step, ValueId id) const {
  const Instrs& instrs = about_.ranks.program.listings[step.listing].instrs;
  return std::any_of(instrs.begin() + static_cast<long>(step.index) + 1, instrs.end(),
                     [&](const Instr& instr) {
                       const std::vector<ValueId> reads = effects_of(instr).reads;
                       return !std::holds_alternative<Merge>(instr.action) &&
                              std::count(reads.begin(), reads.end(), id) > 0;
                     });
}

// True if the edit reduces a forward value by the reduction of its partial sum, and the way has
// gradients. The edit leaves these as they are: only a call in the text makes them right.
bool Explaining::is_forward_part(const Edit& edit, const std::vector<int>& axes, const Step& step,
                                 size_t slot) const {
  const ValueId id = made_by(*step.instr, slot);
  return is_made_by_grad_on_way() && !is_made_by_grad(about_.ranks, step) &&
         std::all_of(axes.begin(), axes.end(), [&](int axis) {
           const AxisState& state = provenance_.state(id, axis);
           return state.kind == AxisKind::partial &&
                  state.placement.partial().reduction.op == edit.reduction.op;
         });
}

// True if the value is right with the edit, and its gradients with the same change of the text.
bool Explaining::is_right_with_gradients(const Edit& edit, const std::vector<int>& axes,
                                         const Step& step, size_t slot) {
  return calls_grad(about_.job) && confirmation_.can_change_job() &&
         (confirmation_.confirms_without_gradients(edit, axes) ||
          is_forward_part(edit, axes, step, slot)) &&
         !reduction_fix({about_, step, slot, edit.reduction.op, group_text(axes)}, value_.label,
                        confirmation_)
              .made_right.empty();
}

namespace {

// Returns the reductions to try. The reduction of a partial value comes first: a scale from the sum
// of the largest elements of all shards saturates nothing either, but the maximum is meant. Then an
// average, if the calls before the step average.
std::vector<ReduceOp> reductions_for(const AxisState& state, bool averages) {
  std::vector<ReduceOp> all{ReduceOp::sum, ReduceOp::avg, ReduceOp::max};
  if (averages) std::swap(all[0], all[1]);
  if (state.kind != AxisKind::partial) return all;
  const ReduceOp own = state.placement.partial().reduction.op;
  if (own != ReduceOp::max && own != ReduceOp::min) return all;
  std::erase(all, own);
  all.insert(all.begin(), own);
  return all;
}

}  // namespace

// Returns the names of what a value is computed from and varies with over the axes, for texts.
std::string Explaining::origins_text(ValueId id, const std::vector<int>& axes) const {
  std::vector<std::string> origins;
  for (const int axis : axes) {
    const auto origin_over = [&](int other, const std::vector<int>& over) {
      return origin_text(provenance_.state(id, other), other, over);
    };
    std::vector<int> same;
    for (const int other : axes)
      if (origin_over(other, {axis}) == origin_over(axis, {axis})) same.push_back(other);
    const std::string text = origin_over(axis, same);
    if (!text.empty() && std::count(origins.begin(), origins.end(), text) == 0)
      origins.push_back(text);
  }
  return joined_words(origins, "and");
}

// Returns the cause that a value is not reduced over the axes. The last run has confirmed the edit,
// which reduces it.
ConfirmedCause Explaining::cause_of_missing_reduction(const Step& step, const Edit& edit,
                                                      const std::vector<int>& axes) {
  const ValueId id = made_by(*step.instr, edit.slot);
  const ReduceOp op = edit.reduction.op;
  const std::string line = text_of(edit), over = axes_text(axes), origins = origins_text(id, axes);
  std::string name = shown(id, line);
  const bool is_end = name == target();
  if (const std::string text = expression_at(about_, step, edit.slot); !text.empty())
    name = fmt::format("{} of {}", text, line);
  const std::string what = origins.empty() ? fmt::format("is each rank's own part over {}", over)
                                           : "is computed from " + origins;
  std::string so;
  if (op == ReduceOp::sum) so = ", so it is part of a sum over " + over;
  if (op == ReduceOp::avg) so = ", so it is part of an average over " + over;
  const std::string way = fmt::format("on the way to {}", target());
  const std::string between = fmt::format("lies between {} and {}", line, target());
  ConfirmedCause cause;
  cause.text = has_call_after(step, axes)
                   ? fmt::format("{} {}; it is not reduced over {} {}{}", name, what, over,
                                 is_end ? "after " + line : way, so)
                   : fmt::format("{} {}; no call over {} {}{}", name, what, over,
                                 is_end ? "follows " + line : between, so);
  cause.made_right = confirmation_.made_right();
  ReductionFix fix = reduction_fix({about_, step, edit.slot, op, group_text(axes), edit.also},
                                   value_.label, confirmation_);
  cause.fix = std::move(fix.text);
  if (!fix.made_right.empty()) cause.made_right = std::move(fix.made_right);
  if (way_.listings.contains(step.listing) && is_sent_after(step, id))
    cause.fix = fmt::format(
        "reduce {} over {} in place of sending it, or combine it with what each rank receives",
        name, over);
  const bool is_extremum = op == ReduceOp::max || op == ReduceOp::min;
  if (is_end && !is_extremum && !is_read_after(step, id)) {
    Spec as = value_.spec;
    for (const int axis : axes) as = as.with_placement(axis, P(op));
    cause.fix += fmt::format(", or declare it as {}", placements_text(as));
  }
  if (is_end && is_made_by_grad(about_.ranks, step))
    if (const auto enter = right_enter(about_, provenance_, EnteredNames::inputs, confirmation_))
      cause.fix += ", or " + enter->fix;
  return cause;
}

// True if ranks receive messages over these axes alone on the way to the value.
bool Explaining::receives_over(const std::vector<int>& axes) const {
  const auto is_within = [&](const CallItem& item) {
    if (item.collective.kind != CollectiveKind::recv) return false;
    return axes_of(item.collective.group, mesh_, item.lanes) == axes;
  };
  return std::any_of(way_.steps.begin(), way_.steps.end(), [&](const Step& step) {
    const auto* call = std::get_if<Communicate>(&step.instr->action);
    return call != nullptr && std::any_of(call->items.begin(), call->items.end(), is_within);
  });
}

// A reduction that is too early may make the target right, and another value wrong that ranks
// compute from their own parts. So one that makes all wrong values right is preferred.
bool Explaining::never_reduced_over(const std::vector<int>& axes) {
  // Messages of a ring add up the parts. If all elements have one ratio, a factor is wrong then,
  // and one more sum over ranks would only compensate for it.
  if (ratio_ && receives_over(axes)) return false;
  std::optional<ConfirmedCause> inside, best;
  for (const auto& [step, slot] : places_to_reduce(axes)) {
    if (best && confirmation_.is_spent()) break;
    const ValueId id = made_by(*step->instr, slot);
    const bool averages =
        averages_before(way_, *step) || averages_other_results(about_.ranks, *step);
    for (const ReduceOp op : reductions_for(provenance_.state(id, axes[0]), averages)) {
      if (op != ReduceOp::max && op != ReduceOp::min && !is_float(id)) continue;
      Edit edit{Edit::Kind::reduce, step->site, slot, Group::of_axes(mesh_, axes), {op, 0}, 1};
      const bool is_right = confirmation_.confirms_in_listings(edit, axes);
      if (!is_right && !is_right_with_gradients(edit, axes, *step, slot)) continue;
      if (is_made_by_grad(about_.ranks, *step) && info(id).bound.empty()) {
        const std::string from = origins_text(id, axes);
        if (auto whole = reduced_grad(*step, op, axes, from)) {
          settle(*whole);
          return true;
        }
        // The call may belong after grad, where the gradient gets a name.
        if (!inside) inside = inside_grad(*step, op, axes, from);
        continue;
      }
      ConfirmedCause cause = cause_of_missing_reduction(*step, edit, axes);
      if (cause.made_right == wrong_values()) {
        settle(cause);
        return true;
      }
      if (!best || cause.made_right.size() > best->made_right.size()) best = std::move(cause);
    }
  }
  if (!best) best = std::move(inside);
  if (best) settle(*best);
  return best.has_value();
}

// Returns the cause that a gradient in an expression is not reduced.
std::optional<ConfirmedCause> Explaining::reduced_grad(const Step& step, ReduceOp op,
                                                       const std::vector<int>& axes,
                                                       const std::string& origins) {
  auto of_result = right_reduction_of_grad(about_, {step.listing, step.site.line}, op,
                                           group_text(axes), confirmation_);
  if (!of_result) return std::nullopt;
  return ConfirmedCause{
      fmt::format("the gradient of {} is {}{}; no call over {} follows it", line_of(step),
                  origins.empty() ? "each rank's own part" : "computed from ", origins,
                  axes_text(axes)),
      of_result->fix,
      {},
      std::move(of_result->made_right)};
}

// Returns the cause that a value which grad computes is not reduced.
ConfirmedCause Explaining::inside_grad(const Step& step, ReduceOp op, const std::vector<int>& axes,
                                       const std::string& origins) const {
  const std::string over = axes_text(axes);
  return {fmt::format("grad on {} takes a value {}{}, for the whole; no call over {} makes it "
                      "whole",
                      line_of(step), origins.empty() ? "of each rank" : "that it computes from ",
                      origins, over),
          fmt::format("write the loss with that value reduced over {} ({})", over,
                      shardproof::name(op)),
          {},
          confirmation_.made_right()};
}

// --- calls over other axes than those over which their input varies

bool Explaining::wrong_group() {
  for (const Step& step : way_.steps) {
    const CallItem* item = collective_of(step);
    if (item == nullptr) continue;
    const auto have = axes_of(item->collective.group, mesh_, step.instr->lanes);
    if (!have) continue;
    const bool found =
        item->collective.kind == CollectiveKind::all_reduce
            ? leaves_out_axes(step, *item, *have) || goes_over_cut_axes(step, *item, *have)
            : goes_over_other_axes(step, *item, *have);
    if (found) return true;
  }
  return false;
}

// An all_reduce over an axis that cuts its input: it adds up other elements.
bool Explaining::goes_over_cut_axes(const Step& step, const CallItem& item,
                                    const std::vector<int>& have) {
  std::vector<int> cut, others;
  for (const int axis : have) {
    const AxisKind input = provenance_.state_read(step.listing, step.index, 0, axis).kind;
    const bool may_be_cut = input != AxisKind::replicated && input != AxisKind::partial &&
                            value_.spec.placement(axis).is_shard();
    (input == AxisKind::cut || may_be_cut ? cut : others).push_back(axis);
  }
  if (cut.empty() || (others.empty() && is_backward_of_call(step))) return false;
  const std::string why =
      fmt::format("cut over {}: those ranks hold other elements", axes_text(cut));
  if (is_backward_of_call(step)) return settle_group_of_backward(step, item, others, why);
  Edit edit{Edit::Kind::regroup,       step.site, 0, Group::of_axes(mesh_, others),
            item.collective.reduction, 1};
  if (!confirmation_.confirms_in_listings(edit, cut)) return false;
  settle({fmt::format("{} over {}, but its input is {}", lines_with_verb(text_of(edit), "reduces"),
                      item.collective.group.name(), why),
          others.empty() ? fmt::format("remove the all_reduce on {}", text_of(edit))
                         : fmt::format("group={} on {}", group_text(others, item), text_of(edit)),
          {}});
  return true;
}

// True if a later call on the way reduces the result of this one over the axis, as it is or with a
// factor.
bool Explaining::is_reduced_next(const Step& step, const CallItem& item, int axis) const {
  std::set<size_t> later;  // instructions that reduce over the axis
  for (const Step& other : way_.steps) {
    const CallItem* const next = reduction_of(other);
    if (next != nullptr && other.listing == step.listing && other.index > step.index &&
        is_over_axis(next->collective.group, mesh_, axis, next->lanes))
      later.insert(other.index);
  }
  const Instrs& instrs = about_.ranks.program.listings[step.listing].instrs;
  std::set<ValueId> scaled{item.output};  // the result, and what is it but for a factor
  const auto is_scaled = [&](const Compute& compute) {
    std::vector<ValueId> tensors = compute.inputs;
    std::erase_if(tensors, [&](ValueId id) { return id == kNoValue || info(id).weak; });
    return tensors.size() == 1 && scaled.contains(tensors[0]);
  };
  size_t i = step.index + 1;
  for (const size_t end : later) {
    for (; i < end; ++i) {
      const auto* compute = std::get_if<Compute>(&instrs[i].action);
      if (compute != nullptr && is_scaled(*compute))
        scaled.insert(compute->outputs.begin(), compute->outputs.end());
    }
    const auto& calls = std::get<Communicate>(instrs[end].action).items;
    if (scaled.contains(calls.front().input)) return true;
  }
  return false;
}

// An all_reduce of an input that varies over axes which the group leaves out.
bool Explaining::leaves_out_axes(const Step& step, const CallItem& item,
                                 const std::vector<int>& have) {
  std::vector<int> parts, right, missing;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    const AxisState& state = provenance_.state_read(step.listing, step.index, 0, axis);
    const bool had = std::find(have.begin(), have.end(), axis) != have.end();
    const bool varies = mesh_.axis_size(axis) > 1 && state.kind != AxisKind::replicated &&
                        (is_same_over_target(axis) || state.kind == AxisKind::partial);
    // A part of a sum over shards that a reduce_scatter made has no input as its source.
    const bool is_known = !state.sources.empty() || state.kind == AxisKind::partial;
    if (!had && varies && is_known && !is_reduced_next(step, item, axis)) missing.push_back(axis);
    if (varies && (had || is_known)) right.push_back(axis);
    if (varies && state.kind == AxisKind::partial) parts.push_back(axis);
  }
  if (missing.empty()) return false;
  const auto is_missing = [&](int axis) {
    return std::find(missing.begin(), missing.end(), axis) != missing.end();
  };
  const auto part = std::find_if(parts.begin(), parts.end(), is_missing);
  if (part != parts.end() && settle_group(step, item, parts, *part)) return true;
  return settle_group(step, item, missing, missing[0]) ||
         settle_group(step, item, right, missing[0]);
}

// A gather or scatter over axes of which none is an axis that the input varies over. Its group has
// the right size, or the shapes would not fit.
bool Explaining::goes_over_other_axes(const Step& step, const CallItem& item,
                                      const std::vector<int>& have) {
  std::vector<int> varying;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    const AxisState& state = provenance_.state_read(step.listing, step.index, 0, axis);
    if (mesh_.axis_size(axis) > 1 && state.kind != AxisKind::replicated && !state.sources.empty())
      varying.push_back(axis);
  }
  for (const int axis : varying)
    if (std::find(have.begin(), have.end(), axis) == have.end() &&
        mesh_.axis_size(axis) == item.collective.group.size() &&
        settle_group(step, item, {axis}, axis))
      return true;
  return varying.size() > 1 && varying != have && size_of_axes(varying) == size_of_axes(have) &&
         settle_group(step, item, varying, varying[0]);
}

// True if the call is right over these axes, alone or with all calls over its group. The text names
// the origin of `varying`.
bool Explaining::settle_group(const Step& step, const CallItem& item, const std::vector<int>& axes,
                              int varying) {
  const Group group = Group::of_axes(mesh_, axes);
  const std::string origin =
      origin_text(provenance_.state_read(step.listing, step.index, 0, varying), varying);
  const std::string why = origin.empty() ? "each rank's own part over " + axes_text({varying})
                                         : "computed from " + origin;
  // An edit would change the call and not its backward.
  if (is_backward_of_call(step) || is_differentiated(step))
    return settle_group_of_backward(step, item, axes, why);
  Edit edit{Edit::Kind::regroup, step.site, 0, group, item.collective.reduction, 1};
  if (!confirmation_.confirms_in_listings(edit)) {
    for (const Step& other : way_.steps) {
      const CallItem* call = collective_of(other);
      if (call == nullptr || other.listing != step.listing || other.site == step.site ||
          !(call->collective.group == item.collective.group))
        continue;
      edit.also.push_back(other.site);
    }
    if (edit.also.empty() || !confirmation_.confirms(edit)) return false;
  }
  const std::string& over = item.collective.group.name();
  const std::string lines = text_of(edit);
  const bool several = std::any_of(edit.also.begin(), edit.also.end(),
                                   [&](const Site& site) { return site.listing == step.listing; });
  settle({several ? fmt::format("the calls of {} go over {}, but the input of {} is {}", lines,
                                over, line_of(step), why)
                  : fmt::format("{} over {}, but its input is {}",
                                lines_with_verb(lines, call_verb(item.collective.kind)), over, why),
          fmt::format("group={} on {}", group_text(axes, item), lines),
          {}});
  return true;
}

// The group of a call and of its backward: both change with the text of the call.
bool Explaining::settle_group_of_backward(const Step& step, const CallItem& item,
                                          const std::vector<int>& axes, const std::string& why) {
  const Group& wrong = item.collective.group;
  if (!regrouped_.emplace(wrong.name(), axes).second) return false;
  std::optional<SourceCause> cause = right_backward_group(about_, wrong, axes, confirmation_);
  if (!cause) return false;
  const char* what =
      is_backward_of_call(step) ? "the gradient that its backward reduces" : "its input";
  settle({fmt::format("{}, but {} is {}", cause->text, what, why),
          cause->fix,
          {},
          std::move(cause->made_right)});
  return true;
}

bool Explaining::scaled_loss() {
  std::optional<SourceCause> cause = right_loss_scale(about_, provenance_, ratio_, confirmation_);
  if (!cause) return false;
  const bool is_cause = !cause->fix.empty();
  adopt(Suspicion{is_cause, cause->text, cause->fix, std::move(cause->made_right)});
  return true;
}

bool Explaining::counted_or_scaled(const SuspectedWay& on) {
  const std::optional<Suspicion> sum = find_local_sum(on);  // before the runs are spent
  const bool is_counted = counted_too_often();
  if (is_counted && made_right.size() >= confirmation_.wrong_values().size()) return true;
  const auto explains_more = [&](const std::set<std::string>& keys) {
    return keys.size() > (is_counted ? made_right.size() : 0);
  };
  if (sum && explains_more(sum->made_right)) {
    lines.clear();
    return adopt(sum);
  }
  if (!is_counted) return false;
  // A factor of the loss makes its gradients right, too.
  std::optional<SourceCause> scale = right_loss_scale(about_, provenance_, ratio_, confirmation_);
  if (!scale || scale->fix.empty() || !explains_more(scale->made_right)) return true;
  lines.clear();
  settle({scale->text, scale->fix, {}, std::move(scale->made_right)});
  return true;
}

}  // namespace shardproof
