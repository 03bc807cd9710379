// Implements causes.h: tries candidates from the most to the least specific, and stops at the first
// kind that explains the value.
#include "shardproof/engine/check/causes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "shardproof/engine/check/local_for_whole.h"
#include "shardproof/engine/explain/way_to_value.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr const char* kCause = "cause   ";
constexpr const char* kHint = "hint    ";

struct Cause {
  std::string text, fix;
  Edit edit;
};

std::string number_text(double value) {
  if (value == std::floor(value)) return fmt::format("{:.0f}", value);
  // A factor near 1 keeps all its digits.
  const std::string text = fmt::format("{:.6g}", value);
  return text == "1" ? fmt::format("{}", value) : text;
}

std::string joined(const std::vector<std::string>& words, const char* last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? fmt::format(" {} ", last) : ", ") + words[i];
  return text;
}

// Returns the word for what a call does: "line 3 gathers over tp".
const char* verb_of(CollectiveKind kind) {
  if (reduces(kind)) return "reduces";
  if (kind == CollectiveKind::all_gather || kind == CollectiveKind::gather) return "gathers";
  if (kind == CollectiveKind::all_to_all) return "exchanges";
  return kind == CollectiveKind::broadcast ? "broadcasts" : "scatters";
}

class Explaining {
 public:
  Explaining(const RankCase& about, const ComparedValue& value)
      : about_(about),
        value_(value),
        mesh_(value.spec.mesh()),
        provenance_(about.ranks.program, mesh_, about.registries.ops),
        way_(way_to(about.ranks, value)),
        confirmation_(about, value) {}

  // True if a cause or a hint was found.
  bool run() {
    const SuspectedWay on{about_, value_, provenance_, way_, confirmation_};
    return adopt(find_local_extremum(on)) || wrong_group() || never_reduced() ||
           adopt(find_uneven_average(on)) || counted_too_often() || adopt(find_loop_sum(on)) ||
           missing_factor() || adopt(find_op_on_shards(on));
  }
  std::vector<std::string> lines;  // "cause   ..." or "hint    ..."
  std::string fix;

 private:
  const SpmdValue& info(ValueId id) const {
    return about_.ranks.program.values[static_cast<size_t>(id)];
  }
  bool is_float(ValueId id) const {
    return info(id).dtype == DType::f64 || info(id).dtype == DType::c128;
  }
  const std::string& target() const { return value_.label.name; }
  std::string axes_text(const std::vector<int>& axes, const char* last = "and") const {
    std::vector<std::string> names;
    for (const int axis : axes) names.push_back(mesh_.axes()[static_cast<size_t>(axis)].name);
    return joined(names, last);
  }
  std::string group_text(const std::vector<int>& axes) const {
    return Group::of_axes(mesh_, axes).name();
  }
  int64_t size_of_axes(const std::vector<int>& axes) const {
    int64_t size = 1;
    for (const int axis : axes) size *= mesh_.axis_size(axis);
    return size;
  }
  bool is_same_over_target(int axis) const { return value_.spec.placement(axis).is_replicate(); }
  // Returns the author's name, or the names of the values that it is computed from.
  std::string shown(ValueId id, int line) const;
  std::string origin_text(const AxisState& state, int axis) const;
  void settle(const Cause& cause) {
    lines.push_back(kCause + cause.text);
    fix = cause.fix;
  }

  bool adopt(const std::optional<Suspicion>& found) {
    if (!found) return false;
    lines.push_back((found->is_cause ? kCause : kHint) + found->text);
    fix = found->fix;
    return true;
  }

  bool never_reduced();
  bool is_part_of_shard(int axis) const;
  bool never_reduced_over(const std::vector<int>& axes);
  std::vector<std::pair<const Step*, size_t>> places_to_reduce(const std::vector<int>& axes) const;
  bool wrong_group();
  bool leaves_out_axes(const Step& step, const CallItem& item, const std::vector<int>& have);
  bool goes_over_other_axes(const Step& step, const CallItem& item, const std::vector<int>& have);
  bool settle_group(const Step& step, const CallItem& item, const std::vector<int>& axes,
                    int varying);
  bool counted_too_often();
  std::optional<Cause> applied_twice(const std::vector<Cause>& found) const;
  void copies_added_up(std::vector<Cause>& found);
  void other_reductions(std::vector<Cause>& found);
  void superfluous_factors(std::vector<Cause>& found);
  void terms_of_each_rank(std::vector<Cause>& found);
  bool missing_factor();
  bool is_missing(const Step& step, ValueId id, int64_t size, bool times);
  std::vector<std::pair<std::string, std::string>> lets_followed(Edit edit, int64_t size,
                                                                 bool times);
  bool is_summed_later(size_t from, int axis) const;
  bool is_reduced_later(size_t from, int axis, bool by_sum) const;
  std::vector<std::pair<std::string, int64_t>> sizes() const;

  const RankCase& about_;
  const ComparedValue& value_;
  const Mesh mesh_;
  const Provenance provenance_;
  const WayToValue way_;
  Confirmation confirmation_;
};

std::string Explaining::shown(ValueId id, int line) const {
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
  return fmt::format("the value that line {} computes from {}", line, joined(names, "and"));
}

// Returns "x, which is cut over dp".
std::string Explaining::origin_text(const AxisState& state, int axis) const {
  std::vector<std::string> cut, parts, others;
  for (const ValueId id : state.sources) {
    const AxisState& source = provenance_.state(id, axis);
    (source.kind == AxisKind::cut       ? cut
     : source.kind == AxisKind::partial ? parts
                                        : others)
        .push_back(info(id).name);
  }
  std::vector<std::string> texts;
  const std::string& name = mesh_.axes()[static_cast<size_t>(axis)].name;
  const auto add = [&](const std::vector<std::string>& names, const char* one, const char* many) {
    if (!names.empty())
      texts.push_back(fmt::format("{}, which {} over {}", joined(names, "and"),
                                  names.size() == 1 ? one : many, name));
  };
  add(cut, "is cut", "are cut");
  add(parts, "is a part of a sum", "are parts of sums");
  add(others, "differs", "differ");
  return joined(texts, "and");
}

// --- values that vary where the output should be replicated

bool Explaining::never_reduced() {
  std::vector<int> loose;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    if (mesh_.axis_size(axis) == 1) continue;
    const AxisState state = state_of(way_, provenance_, axis);
    const bool differs =
        is_same_over_target(axis) && state.kind != AxisKind::replicated && !state.sources.empty();
    if (differs || is_part_of_shard(axis)) loose.push_back(axis);
  }
  if (loose.empty()) return false;
  if (never_reduced_over(loose)) return true;
  if (loose.size() > 1)
    for (const int axis : loose)
      if (never_reduced_over({axis})) return true;
  return false;
}

// True if the target is cut over the axis, and partial sums on the way to it are never reduced.
bool Explaining::is_part_of_shard(int axis) const {
  if (!value_.spec.placement(axis).is_shard()) return false;
  for (size_t i = 0; i < way_.steps.size(); ++i) {
    const ValueId id = made_by(*way_.steps[i].instr, 0);
    if (id != kNoValue && provenance_.state(id, axis).kind == AxisKind::partial &&
        !is_reduced_later(i, axis, false))
      return true;
  }
  return false;
}

// Returns partial sums first, then named values, in program order.
std::vector<std::pair<const Step*, size_t>> Explaining::places_to_reduce(
    const std::vector<int>& axes) const {
  struct Place {
    bool varies, unnamed;
    const Step* step;
    size_t slot;
  };
  std::vector<Place> places;
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
      if (fits) places.push_back({!partial, info(id).bound.empty(), &step, slot});
    }
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.varies, a.unnamed) < std::pair(b.varies, b.unnamed);
  });
  constexpr size_t kMost = 12;
  std::vector<std::pair<const Step*, size_t>> result;
  for (size_t i = 0; i < std::min(kMost, places.size()); ++i)
    result.emplace_back(places[i].step, places[i].slot);
  return result;
}

bool Explaining::never_reduced_over(const std::vector<int>& axes) {
  for (const auto& [step, slot] : places_to_reduce(axes)) {
    const ValueId id = made_by(*step->instr, slot);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
      if (op != ReduceOp::max && !is_float(id)) continue;
      Edit edit{Edit::Kind::reduce, step->site, slot, Group::of_axes(mesh_, axes), {op, 0}, 1};
      if (!confirmation_.confirms(edit)) continue;
      const std::string name = shown(id, step->site.line);
      const std::string over = axes_text(axes);
      Cause cause;
      std::vector<std::string> origins;
      for (const int axis : axes) origins.push_back(origin_text(provenance_.state(id, axis), axis));
      const bool is_end = name == target();
      cause.text = fmt::format(
          "{} is computed from {}; no call over {} {}", name, joined(origins, "and"), over,
          is_end ? fmt::format("follows line {}", step->site.line)
                 : fmt::format("lies between line {} and {}", step->site.line, target()));
      cause.fix = fmt::format("add all_reduce({}{}, group={}) after line {}",
                              info(id).bound.empty() ? "" : name + ", ", shardproof::name(op),
                              group_text(axes), step->site.line);
      if (is_end && op != ReduceOp::max) {
        Spec as = value_.spec;
        for (const int axis : axes) as = as.with_placement(axis, P(op));
        cause.fix += fmt::format(", or declare it as {}", placements_text(as));
      }
      settle(cause);
      return true;
    }
  }
  return false;
}

// --- calls over other axes than those over which their input varies

bool Explaining::wrong_group() {
  for (const Step& step : way_.steps) {
    const CallItem* item = collective_of(step);
    if (item == nullptr) continue;
    const auto have = axes_of(item->collective.group, mesh_, step.instr->lanes);
    if (!have) continue;
    const bool found = item->collective.kind == CollectiveKind::all_reduce
                           ? leaves_out_axes(step, *item, *have)
                           : goes_over_other_axes(step, *item, *have);
    if (found) return true;
  }
  return false;
}

// An all_reduce of an input that varies over axes which the group leaves out.
bool Explaining::leaves_out_axes(const Step& step, const CallItem& item,
                                 const std::vector<int>& have) {
  std::vector<int> right, missing;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    const AxisState& state = provenance_.state_read(step.listing, step.index, 0, axis);
    const bool had = std::find(have.begin(), have.end(), axis) != have.end();
    const bool varies = mesh_.axis_size(axis) > 1 && state.kind != AxisKind::replicated &&
                        (is_same_over_target(axis) || state.kind == AxisKind::partial);
    if (!had && varies && !state.sources.empty()) missing.push_back(axis);
    if (varies && (had || !state.sources.empty())) right.push_back(axis);
  }
  if (missing.empty()) return false;
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
  Edit edit{Edit::Kind::regroup, step.site, 0, group, item.collective.reduction, 1};
  std::set<int> lines{step.site.line};
  if (!confirmation_.confirms(edit)) {
    for (const Step& other : way_.steps) {
      const CallItem* call = collective_of(other);
      if (call == nullptr || other.listing != step.listing || other.site == step.site ||
          !(call->collective.group == item.collective.group))
        continue;
      edit.also.push_back(other.site);
      lines.insert(other.site.line);
    }
    if (edit.also.empty() || !confirmation_.confirms(edit)) return false;
  }
  const std::string origin =
      origin_text(provenance_.state_read(step.listing, step.index, 0, varying), varying);
  const std::string& over = item.collective.group.name();
  const int line = step.site.line;
  if (lines.size() == 1) {
    settle({fmt::format("line {} {} over {}, but its input is computed from {}", line,
                        verb_of(item.collective.kind), over, origin),
            fmt::format("group={} on line {}", group.name(), line),
            {}});
  } else {
    std::vector<std::string> numbers;
    for (const int one : lines) numbers.push_back(std::to_string(one));
    const std::string all = joined(numbers, "and");
    settle({fmt::format("the calls of lines {} go over {}, but the input of line {} is computed "
                        "from {}",
                        all, over, line, origin),
            fmt::format("group={} on lines {}", group.name(), all),
            {}});
  }
  return true;
}

// --- values that count too often, or not often enough

void Explaining::copies_added_up(std::vector<Cause>& found) {
  for (const Step& step : way_.steps) {
    const CallItem* item = reduction_of(step);
    if (item == nullptr || item->collective.reduction.op != ReduceOp::sum) continue;
    const auto have = axes_of(item->collective.group, mesh_, step.instr->lanes);
    if (!have) continue;
    std::vector<int> copies, others;
    for (const int axis : *have)
      (provenance_.state_read(step.listing, step.index, 0, axis).kind == AxisKind::replicated
           ? copies
           : others)
          .push_back(axis);
    if (copies.empty()) continue;
    Edit edit{Edit::Kind::change_op, step.site, 0, {}, {ReduceOp::avg, 0}, 1};
    const bool keeps_shape = item->collective.kind != CollectiveKind::reduce_scatter;
    if (!others.empty() && keeps_shape)
      edit = {Edit::Kind::regroup,        step.site, 0, Group::of_axes(mesh_, others),
              item->collective.reduction, 1};
    else if (!others.empty())
      edit = {Edit::Kind::scale_output, step.site, 0, {}, {}, 1.0 / size_of_axes(copies)};
    if (!confirmation_.confirms(edit)) continue;
    const std::string over = axes_text(copies);
    const std::string name = shown(item->input, step.site.line);
    found.push_back(
        {fmt::format(
             "{} is the same on all ranks of {}, and line {} sums it over {}: it counts {} times",
             name, over, step.site.line, item->collective.group.name(), size_of_axes(copies)),
         others.empty()
             ? fmt::format("remove the sum over {} on line {}, or take avg", over, step.site.line)
         : keeps_shape
             ? fmt::format("group={} on line {}", group_text(others), step.site.line)
             : fmt::format("divide by {} after line {}", size_of_axes(copies), step.site.line),
         edit});
  }
}

void Explaining::other_reductions(std::vector<Cause>& found) {
  for (const Step& step : way_.steps) {
    const CallItem* item = reduction_of(step);
    if (item == nullptr) continue;
    const ReduceOp op = item->collective.reduction.op;
    if (op != ReduceOp::sum && op != ReduceOp::avg) continue;
    const ReduceOp other = op == ReduceOp::sum ? ReduceOp::avg : ReduceOp::sum;
    const Edit edit{Edit::Kind::change_op, step.site, 0, {}, {other, 0}, 1};
    if (!confirmation_.confirms(edit)) continue;
    found.push_back(
        {fmt::format("line {} takes the {} over {}, and {} is right with the {}", step.site.line,
                     op == ReduceOp::sum ? "sum" : "average", item->collective.group.name(),
                     target(), op == ReduceOp::sum ? "average" : "sum"),
         fmt::format("{} in place of {} on line {}", name(other), name(op), step.site.line), edit});
  }
}

void Explaining::superfluous_factors(std::vector<Cause>& found) {
  for (const Step& step : way_.steps) {
    const auto* compute = std::get_if<Compute>(&step.instr->action);
    if (compute == nullptr || (compute->op != "mul" && compute->op != "div")) continue;
    for (size_t slot = compute->op == "div" ? 1 : 0; slot < compute->inputs.size(); ++slot) {
      const std::optional<double> number = number_of(about_.ranks, compute->inputs[slot]);
      if (is_made_by_grad(about_.ranks, step)) continue;  // the author wrote no factor there
      if (!number || std::abs(*number) == 1 || *number == 0) continue;
      Edit edit{Edit::Kind::drop_factor, step.site, slot, {}, {}, *number};
      if (compute->op == "div") edit.factor = 1 / *number;
      if (!confirmation_.confirms(edit)) continue;
      const char* verb = compute->op == "div" ? "divides" : "multiplies";
      found.push_back(
          {fmt::format("line {} {} by {}, and {} is right without this factor", step.site.line,
                       verb, number_text(*number), target()),
           fmt::format("remove the factor {} on line {}",
                       compute->op == "div" ? "1 / " + number_text(*number) : number_text(*number),
                       step.site.line),
           edit});
    }
  }
}

bool Explaining::is_summed_later(size_t from, int axis) const {
  return value_.spec.placement(axis).is_partial() || is_reduced_later(from, axis, true);
}

bool Explaining::is_reduced_later(size_t from, int axis, bool by_sum) const {
  for (size_t i = from + 1; i < way_.steps.size(); ++i) {
    const auto* call = std::get_if<Communicate>(&way_.steps[i].instr->action);
    if (call == nullptr) continue;
    for (const CallItem& item : call->items)
      if (reduces(item.collective.kind) &&
          (!by_sum || item.collective.reduction.op == ReduceOp::sum) &&
          is_over_axis(item.collective.group, mesh_, axis, item.lanes))
        return true;
  }
  return false;
}

void Explaining::terms_of_each_rank(std::vector<Cause>& found) {
  for (size_t i = 0; i < way_.steps.size(); ++i) {
    const Step& step = way_.steps[i];
    const auto* compute = std::get_if<Compute>(&step.instr->action);
    if (compute == nullptr || (compute->op != "add" && compute->op != "sub")) continue;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      if (mesh_.axis_size(axis) == 1 || !is_summed_later(i, axis)) continue;
      for (size_t slot = 0; slot < 2; ++slot) {
        const auto read = [&](size_t s) {
          return provenance_.state_read(step.listing, step.index, s, axis).kind;
        };
        if (read(slot) != AxisKind::replicated || read(1 - slot) == AxisKind::replicated) continue;
        const int64_t size = mesh_.axis_size(axis);
        const Edit edit{Edit::Kind::scale_input,      step.site, slot, {}, {},
                        1 / static_cast<double>(size)};
        if (!confirmation_.confirms(edit)) continue;
        const std::string& over = mesh_.axes()[static_cast<size_t>(axis)].name;
        const ValueId id = compute->inputs[slot];
        const bool named = !info(id).bound.empty();
        found.push_back(
            {fmt::format("{}{} is the same on all {} ranks of {}, and each adds it before a sum "
                         "over {}: it counts {} times",
                         shown(id, step.site.line),
                         named ? fmt::format(", added on line {},", step.site.line) : "", size,
                         over, over, size),
             fmt::format("add {} after the sum, or on one rank of {}",
                         named ? info(id).bound : "it", over),
             edit});
      }
    }
  }
}

// Returns the cause for a number that is applied once too often, by two factors or by a factor and
// an average. The author must choose which one to remove.
std::optional<Cause> Explaining::applied_twice(const std::vector<Cause>& found) const {
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
  const int one = std::min(found[0].edit.site.line, found[1].edit.site.line);
  const int other = std::max(found[0].edit.site.line, found[1].edit.site.line);
  const bool divides = std::abs(first) < 1;
  const std::string text =
      fmt::format("the value is {} by {} twice, on line{} {}", divides ? "divided" : "multiplied",
                  number_text(divides ? 1 / first : first), one == other ? "" : "s",
                  one == other ? std::to_string(one) : fmt::format("{} and {}", one, other));
  return Cause{fmt::format("{}; {} is right with either of the two alone", text, target()),
               fmt::format("{}, or {}", found[0].fix, found[1].fix),
               {}};
}

bool Explaining::counted_too_often() {
  std::vector<Cause> copies, others, factors, terms;
  copies_added_up(copies);
  if (copies.empty()) other_reductions(others);
  superfluous_factors(factors);
  terms_of_each_rank(terms);
  std::vector<Cause> found = std::move(copies);
  for (std::vector<Cause>* more : {&others, &factors, &terms})
    found.insert(found.end(), more->begin(), more->end());
  if (found.empty()) return false;
  if (found.size() == 1) {
    settle(found.front());
    return true;
  }
  if (const std::optional<Cause> twice = applied_twice(found)) {
    settle(*twice);
    return true;
  }
  constexpr size_t kShown = 3;
  lines.push_back(fmt::format("{}any one of these changes alone makes {} right:", kHint, target()));
  for (size_t i = 0; i < std::min(kShown, found.size()); ++i)
    lines.push_back("        " + found[i].fix);
  return true;
}

// --- factors that are the size of an axis or a `let`

// Returns the sizes of `let`s, then of axes, with their names.
std::vector<std::pair<std::string, int64_t>> Explaining::sizes() const {
  std::vector<std::pair<std::string, int64_t>> result;
  for (const auto& [name, number] : about_.job.numbers)
    if (number.is_integer() && number.integer() > 1) result.emplace_back(name, number.integer());
  for (const MeshAxis& axis : mesh_.axes())
    if (axis.size > 1) result.emplace_back("the size of " + axis.name, axis.size);
  return result;
}

// Returns the `let`s that a factor follows when they change: "m, and with m = 4 it is 4".
std::vector<std::pair<std::string, std::string>> Explaining::lets_followed(Edit edit, int64_t size,
                                                                           bool times) {
  std::vector<std::pair<std::string, std::string>> follows;
  for (const auto& [name, number] : about_.job.numbers) {
    if (!number.is_integer() || number.integer() != size) continue;
    for (const int64_t next : {size + 1, size - 1}) {
      edit.factor = times ? 1 / static_cast<double>(next) : static_cast<double>(next);
      if (next < 2 || !confirmation_.confirms_resized(name, next, edit)) continue;
      follows.emplace_back(name, fmt::format("with {} = {} it is {}{} times", name, next,
                                             times ? "" : "1 / ", next));
      break;
    }
  }
  return follows;
}

bool Explaining::is_missing(const Step& step, ValueId id, int64_t size, bool times) {
  const double factor = times ? 1 / static_cast<double>(size) : static_cast<double>(size);
  const Edit edit{Edit::Kind::scale_output, step.site, 0, {}, {}, factor};
  if (!confirmation_.confirms(edit)) return false;
  const std::string what = fmt::format("{} of line {} is {}{} times what it should be",
                                       info(id).bound, step.site.line, times ? "" : "1 / ", size);
  const auto follows = lets_followed(edit, size, times);
  if (follows.size() == 1) {
    const auto& [let, text] = follows.front();
    settle({fmt::format("{}: {} is {}, and {}", what, size, let, text),
            fmt::format("{} {} by {}", times ? "divide" : "multiply", info(id).bound, let),
            {}});
    return true;
  }
  std::vector<std::string> names;
  for (const auto& [name, other] : sizes())
    if (other == size) names.push_back(name);
  lines.push_back(fmt::format("{}{}; {} is {}", kHint, what, size, joined(names, "and")));
  return true;
}

bool Explaining::missing_factor() {
  std::set<int64_t> tried;
  for (const auto& [name, size] : sizes()) {
    if (!tried.insert(size).second) continue;
    for (const Step& step : way_.steps) {
      const ValueId id = made_by(*step.instr, 0);
      if (id == kNoValue || info(id).bound.empty() || !is_float(id)) continue;
      if (is_missing(step, id, size, true) || is_missing(step, id, size, false)) return true;
    }
  }
  return false;
}

bool is_cause(const std::string& text) { return text.starts_with(kCause); }

}  // namespace

void causes_to_hints(Finding& finding) {
  for (std::string& text : finding.details)
    if (is_cause(text)) {
      text = kHint + text.substr(std::string_view(kCause).size());
      finding.fix.clear();
    }
}

void explain_by_provenance(const RankCase& about, const ComparedValue& value, Finding& finding) {
  try {
    // For long programs, only the instructions before the value run again.
    constexpr int kRunsWanted = 24;
    const bool is_long = kRunsWanted * work_of(about.ranks) > kMostWork;
    const RankProgram part =
        is_long ? up_to(about.ranks, way_to(about.ranks, value).ends) : RankProgram();
    const RankCase shorter{about.job,   about.inputs,     is_long ? part : about.ranks,
                           about.truth, about.registries, about.integers};
    Explaining explaining(shorter, value);
    if (explaining.run()) {
      std::erase_if(finding.details, [](const std::string& text) {
        return is_cause(text) || text.starts_with(kHint);
      });
      finding.details.insert(finding.details.end(), explaining.lines.begin(),
                             explaining.lines.end());
      finding.fix = explaining.fix;
      return;
    }
  } catch (const Error&) {
    // The program does not run a second time as it did the first, so no cause is confirmed.
  }
  causes_to_hints(finding);
}

}  // namespace shardproof
