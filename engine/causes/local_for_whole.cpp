// Implements local_for_whole.h. Each function walks the way to the value and tests its candidates.
#include "shardproof/engine/causes/local_for_whole.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shardproof/engine/causes/same_lines.h"
#include "shardproof/engine/causes/source_changes.h"
#include "shardproof/engine/explain/cause_lines.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kMostCandidates = 4;  // of one kind, because each costs a run

const SpmdValue& info(const SuspectedWay& on, ValueId id) {
  return on.about.ranks.program.values[static_cast<size_t>(id)];
}

std::string shown(const SuspectedWay& on, ValueId id) {
  const SpmdValue& value = info(on, id);
  const std::vector<ValueId>& inputs = on.about.ranks.program.inputs;
  if (!value.bound.empty()) return value.bound;
  if (std::find(inputs.begin(), inputs.end(), id) != inputs.end()) return value.name;
  return "a value of that line";
}

std::string line_of(const SuspectedWay& on, const Step& step) {
  return line_text(on.about.ranks.program, {step.listing, step.site.line});
}

std::string lines_of_edit(const SuspectedWay& on, const Edit& edit) {
  return lines_text(on.about.ranks.program, lines_of(edit));
}

std::string axis_name(const SuspectedWay& on, int axis) {
  return on.provenance.mesh().axes()[static_cast<size_t>(axis)].name;
}

// --- uneven averages

// The sizes of the shards of an input along the dim that an axis cuts.
struct Shares {
  ValueId input = kNoValue;
  int dim = 0;
  std::vector<int64_t> sizes;   // by rank of the world; -1 outside the mesh
  std::vector<double> weights;  // by rank: its size, divided by the mean size over the axis
  int64_t total = 0;            // of one group of the axis
};

// Returns nullopt if the shards along the axis have equal sizes.
std::optional<Shares> uneven_shares(const SuspectedWay& on, ValueId input, int axis) {
  const AxisState& state = on.provenance.state(input, axis);
  if (state.kind != AxisKind::cut) return std::nullopt;
  Shares shares;
  shares.input = input;
  shares.dim = state.placement.shard().dim;
  const Mesh& mesh = on.provenance.mesh();
  std::map<Dims, int64_t> totals;  // by the coordinate without the axis
  const auto group_of = [&](int32_t rank) {
    Dims place = *mesh.coordinate_of(rank);
    place[axis] = 0;
    return place;
  };
  bool is_uneven = false;
  for (const LocalShape& shape : info(on, input).shapes)
    for (int64_t i = 0; i < shape.lanes.size(); ++i) {
      const auto rank = static_cast<size_t>(shape.lanes[i]);
      if (!mesh.coordinate_of(shape.lanes[i]) || shape.shape.size() <= shares.dim)
        return std::nullopt;
      if (shares.sizes.size() <= rank) shares.sizes.resize(rank + 1, -1);
      shares.sizes[rank] = shape.shape[shares.dim];
      totals[group_of(shape.lanes[i])] += shares.sizes[rank];
    }
  shares.weights.assign(shares.sizes.size(), 1);
  for (const LocalShape& shape : info(on, input).shapes)
    for (int64_t i = 0; i < shape.lanes.size(); ++i) {
      const auto rank = static_cast<size_t>(shape.lanes[i]);
      shares.total = totals.at(group_of(shape.lanes[i]));
      if (shares.total == 0) return std::nullopt;
      const int64_t even = shares.sizes[rank] * mesh.axis_size(axis);
      shares.weights[rank] = static_cast<double>(even) / static_cast<double>(shares.total);
      is_uneven = is_uneven || even != shares.total;
    }
  return is_uneven ? std::optional(shares) : std::nullopt;
}

// Returns the step and output that make a value before a step of the way.
std::optional<std::pair<const Step*, size_t>> maker_before(const SuspectedWay& on, const Step& end,
                                                           ValueId id) {
  std::optional<std::pair<const Step*, size_t>> maker;
  for (const Step& step : on.way.steps) {
    if (&step == &end) break;
    for (size_t slot = 0; made_by(*step.instr, slot) != kNoValue; ++slot)
      if (made_by(*step.instr, slot) == id) maker.emplace(&step, slot);
  }
  return maker;
}

std::string sizes_text(const Shares& shares) {
  std::map<int64_t, std::vector<int32_t>> ranks_of;
  for (size_t rank = 0; rank < shares.sizes.size(); ++rank)
    if (shares.sizes[rank] >= 0) ranks_of[shares.sizes[rank]].push_back(static_cast<int32_t>(rank));
  std::string text;
  for (auto size = ranks_of.rbegin(); size != ranks_of.rend(); ++size)
    text += fmt::format("{}{} on rank{} {}", text.empty() ? "" : ", ", size->first,
                        size->second.size() == 1 ? "" : "s", to_string(Lanes::of(size->second)));
  return text;
}

std::optional<Suspicion> uneven_average_on(const SuspectedWay& on, const Step& step,
                                           const CallItem& item, int axis) {
  const AxisState& state = on.provenance.state_read(step.listing, step.index, 0, axis);
  const auto maker = maker_before(on, step, item.input);
  if (!maker) return std::nullopt;
  for (const ValueId source : state.sources) {
    const std::optional<Shares> shares = uneven_shares(on, source, axis);
    if (!shares) continue;
    Edit edit{Edit::Kind::scale_output, maker->first->site, maker->second, {}, {}, 1};
    edit.factors = shares->weights;
    if (!on.confirmation.confirms_in_listings(edit)) continue;
    Edit call = edit;
    call.site = step.site;
    call.also = edit.also.empty() ? std::vector<Site>()
                                  : sites_in_other_listings(on.about.ranks.program, step.site);
    const std::string line = lines_of_edit(on, call);
    return Suspicion{
        true,
        fmt::format("{} each rank of {} the same weight in the average, but the sizes of dim {} of "
                    "{} are {}",
                    lines_with_verb(line, "gives"), axis_name(on, axis), shares->dim,
                    shown(on, source), sizes_text(*shares)),
        fmt::format("sum over {} and divide by the count of all ranks ({} along dim {}), or weight "
                    "each rank by its share before {}",
                    axis_name(on, axis), shares->total, shares->dim, line),
        on.confirmation.made_right()};
  }
  return std::nullopt;
}

// --- loops

struct Loop {
  std::string variable;
  int line = 0;  // of the `for`; 0: not found
  int64_t passes = 0;
};

// Returns the loops around a line, by the passes of its instructions ("s=0, i=2").
std::vector<Loop> loops_around(const SpmdListing& listing, int line) {
  std::map<std::string, std::set<std::string>> passes;
  for (const Instr& instr : listing.instrs) {
    if (instr.origin.line != line) continue;
    std::string rest = instr.origin.instance;
    while (!rest.empty()) {
      const size_t end = rest.find(", "), equals = rest.find('=');
      if (equals == std::string::npos) break;
      passes[rest.substr(0, equals)].insert(rest.substr(equals + 1, end - equals - 1));
      rest = end == std::string::npos ? "" : rest.substr(end + 2);
    }
  }
  std::vector<Loop> loops;
  for (const auto& [variable, values] : passes) {
    Loop loop{variable, 0, static_cast<int64_t>(values.size())};
    for (int at = std::min(line, static_cast<int>(listing.lines.size())); at >= 1; --at)
      if (listing.lines[static_cast<size_t>(at) - 1].find("for " + variable + " in ") !=
          std::string::npos) {
        loop.line = at;
        break;
      }
    if (loop.passes > 1 && loop.line > 0) loops.push_back(std::move(loop));
  }
  return loops;
}

bool follows_a_let(const SuspectedWay& on, Edit edit, int64_t passes) {
  for (const auto& [name, number] : on.about.job.numbers) {
    if (!number.is_integer() || number.integer() != passes) continue;
    for (const int64_t next : {passes + 1, passes - 1}) {
      edit.factor = 1 / static_cast<double>(next);
      if (next >= 2 && on.confirmation.confirms_resized(name, next, edit)) return true;
    }
  }
  return false;
}

// Returns " = steps" for a `let`, then the axes of the same size.
std::string same_numbers(const SuspectedWay& on, int64_t passes) {
  std::string text;
  for (const auto& [name, number] : on.about.job.numbers)
    if (number.is_integer() && number.integer() == passes) text += " = " + name;
  for (const MeshAxis& axis : on.provenance.mesh().axes())
    if (axis.size == passes) text += fmt::format(", which is also the size of {}", axis.name);
  return text;
}

// --- ops on shards

// True if the op is right on the whole values of an axis, false if not. Returns nullopt if it does
// not take them: a norm over as many elements as a shard has.
std::optional<bool> is_right_on_whole(const SuspectedWay& on, const Step& step,
                                      const Compute& compute, int axis) try {
  const OpRegistry& ops = on.about.registries.ops;
  const Group group = Group::of_axes(on.provenance.mesh(), {axis});
  Edit edit{Edit::Kind::on_whole, step.site, 0, group, {}, 1};
  OpCall call{&compute.attrs.at(0).attrs, {}};
  for (size_t slot = 0; slot < compute.inputs.size(); ++slot) {
    const ValueId id = compute.inputs[slot];
    TensorMeta& meta = call.inputs.emplace_back();
    meta.absent = id == kNoValue;
    if (meta.absent) continue;
    if (info(on, id).shapes.size() != 1) return false;
    meta = {info(on, id).dtype, info(on, id).shapes[0].shape, info(on, id).weak, false};
    const AxisState& state = on.provenance.state_read(step.listing, step.index, slot, axis);
    if (state.kind != AxisKind::cut) continue;
    const int dim = state.placement.shard().dim;
    meta.shape[dim] *= group.size();
    edit.gathered.emplace_back(slot, dim);
  }
  call.wanted = compute.outputs.size();
  const OpRecord* const slice = ops.find_infix("[:]");
  if (slice == nullptr || compute.outputs.size() != 1) return false;
  edit.whole = ops.at(compute.op.str()).infer(call).at(0).shape;
  edit.slice = slice->name;
  return on.confirmation.confirms(edit, {axis});
} catch (const Error&) {
  const bool keeps_shape =
      compute.outputs.size() == 1 && compute.inputs[0] != kNoValue &&
      info(on, compute.outputs[0]).shapes == info(on, compute.inputs[0]).shapes;
  return keeps_shape ? std::nullopt : std::optional(false);
}

// Returns the output of an op that is read on the way and holds whole numbers; nullopt: none is.
std::optional<size_t> output_of_indices(const SuspectedWay& on, const Step& step,
                                        const Compute& compute) {
  for (size_t slot = 0; slot < compute.outputs.size(); ++slot) {
    const ValueId id = compute.outputs[slot];
    const auto reads = [&](const Step& other) {
      const std::vector<ValueId> read = effects_of(*other.instr).reads;
      return &other != &step && std::count(read.begin(), read.end(), id) > 0;
    };
    const bool is_end = std::count(on.way.ends.begin(), on.way.ends.end(), id) > 0;
    if (info(on, id).dtype == DType::i64 && compute.into == kNoValue &&
        (is_end || std::any_of(on.way.steps.begin(), on.way.steps.end(), reads)))
      return slot;
  }
  return std::nullopt;
}

// Returns the cause that indices along a cut dim count from 0 on each rank, as argmax gives them.
std::optional<Suspicion> indices_without_offset(const SuspectedWay& on, const Step& step,
                                                const Compute& compute, size_t cut, int axis) {
  const std::optional<size_t> slot = output_of_indices(on, step, compute);
  if (!slot) return std::nullopt;
  const ValueId made = compute.outputs[*slot], input = compute.inputs[cut];
  const Mesh& mesh = on.provenance.mesh();
  const AxisState& state = on.provenance.state_read(step.listing, step.index, cut, axis);
  const int dim = state.placement.shard().dim;
  if (info(on, input).shapes.size() != 1) return std::nullopt;
  const int64_t size = info(on, input).shapes[0].shape[dim];
  Edit edit{Edit::Kind::shift_output, step.site, *slot, {}, {}, 1};
  for (int64_t rank = 0; rank < on.about.ranks.program.world; ++rank) {
    const std::optional<Dims> place = mesh.coordinate_of(rank);
    edit.factors.push_back(place ? static_cast<double>((*place)[axis] * size) : 0);
  }
  if (!on.confirmation.confirms_in_listings(edit, {axis})) return std::nullopt;
  const std::string over = axis_name(on, axis), first = fmt::format("index({}) * {}", over, size);
  const std::string text = expression_at(on.about, step, *slot);
  const std::string name = info(on, made).bound.empty() ? text : info(on, made).bound.str();
  return Suspicion{
      true,
      fmt::format(
          "{} the indices{} within a shard, but {} is cut along dim {} over {}: the shard of "
          "a rank begins at {}",
          lines_with_verb(lines_of_edit(on, edit), "computes"), name.empty() ? "" : " " + name,
          shown(on, input), dim, over, first),
      fmt::format("add {} to {} on {}", first, name.empty() ? "them" : name,
                  lines_of_edit(on, edit)),
      on.confirmation.made_right()};
}

// Returns the call of an op on the shards of one rank.
OpCall call_on_shards(const SuspectedWay& on, const Compute& compute) {
  OpCall call{&compute.attrs.at(0).attrs, {}};
  for (const ValueId id : compute.inputs) {
    TensorMeta meta;
    meta.absent = id == kNoValue;
    if (!meta.absent && !info(on, id).shapes.empty())
      meta = {info(on, id).dtype, info(on, id).shapes[0].shape, info(on, id).weak, false};
    call.inputs.push_back(std::move(meta));
  }
  return call;
}

// True if an op needs more than its shard of an input that is cut along a dim. Then its rule has no
// strategy in which each rank runs the op itself. It has a strategy of another form, or none and
// the result has the shape of the input, as for sort.
bool needs_more_than_shards(const SuspectedWay& on, const Compute& compute, size_t slot, int dim,
                            int64_t ranks) try {
  const OpRecord& record = on.about.registries.ops.at(compute.op.str());
  const OpCall call = call_on_shards(on, compute);
  const std::vector<TensorMeta> results = record.infer(call);
  bool has_other_form = false;
  if (record.rule.strategies)
    for (const Strategy& strategy : record.rule.strategies(call, results, ranks)) {
      if (slot >= strategy.inputs.size() || !strategy.inputs[slot].is_shard(dim)) continue;
      if (strategy.form == LocalExecution::same_op) return false;
      has_other_form = true;
    }
  return has_other_form || results.at(0).shape == call.inputs[slot].shape;
} catch (const Error&) {
  return false;
}

// True if an op on an input that is cut along a dim reads the place of its shard. The language
// states it by shards='..'.
bool reads_place_of_shard(const SuspectedWay& on, const Compute& compute, size_t slot, int dim,
                          int64_t ranks) {
  const OpRecord& record = on.about.registries.ops.at(compute.op.str());
  if (!record.rule.strategies) return false;
  const OpCall call = call_on_shards(on, compute);
  const std::vector<Strategy> all = record.rule.strategies(call, record.infer(call), ranks);
  return std::any_of(all.begin(), all.end(), [&](const Strategy& strategy) {
    return slot < strategy.inputs.size() && strategy.inputs[slot].is_shard(dim) &&
           strategy.form == LocalExecution::needs_shard_index;
  });
}

// Returns the parts of sums of which an op takes parts and gives no part of its result, and those
// from which these are computed. Example: n = sum(x); m = n / 2; y = h / m. Both n and m.
std::set<ValueId> taken_for_whole(const SuspectedWay& on, int axis) {
  const auto is_part = [&](ValueId id) {
    const AxisState& state = on.provenance.state(id, axis);
    return state.kind == AxisKind::partial &&
           state.placement.partial().reduction.op == ReduceOp::sum;
  };
  std::set<ValueId> taken;
  for (auto step = on.way.steps.rbegin(); step != on.way.steps.rend(); ++step) {
    const auto* compute = std::get_if<Compute>(&step->instr->action);
    const ValueId made = made_by(*step->instr, 0);
    if (compute == nullptr || made == kNoValue) continue;
    if (!taken.contains(made) && on.provenance.state(made, axis).kind != AxisKind::varying)
      continue;
    for (const ValueId id : compute->inputs)
      if (id != kNoValue && is_part(id)) taken.insert(id);
  }
  return taken;
}

struct LocalPart {
  const Step* step = nullptr;
  std::vector<int> axes;
  ValueId id = kNoValue;
  ReduceOp op = ReduceOp::sum;
  bool named = false;
};

// Returns the axes over which a value is such a part, by reduction.
std::map<ReduceOp, std::vector<int>> axes_of_part(const SuspectedWay& on, ValueId id, bool sums,
                                                  const std::vector<std::set<ValueId>>& taken) {
  std::map<ReduceOp, std::vector<int>> axes;
  const Mesh& mesh = on.provenance.mesh();
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    const AxisState& state = on.provenance.state(id, axis);
    if (mesh.axis_size(axis) == 1 || state.kind != AxisKind::partial) continue;
    const ReduceOp op = state.placement.partial().reduction.op;
    const bool is_extremum = op == ReduceOp::max || op == ReduceOp::min;
    const bool is_taken = taken[static_cast<size_t>(axis)].contains(id);
    if (sums ? op == ReduceOp::sum && is_taken : is_extremum && !info(on, id).bound.empty())
      axes[op].push_back(axis);
  }
  return axes;
}

// Returns the parts that no call reduces, by line, those with a name first. A part over several
// axes comes with all of them, then with each alone.
std::vector<LocalPart> local_parts(const SuspectedWay& on, bool sums) {
  std::vector<std::set<ValueId>> taken;
  for (int axis = 0; axis < on.provenance.mesh().axis_count(); ++axis)
    taken.push_back(sums ? taken_for_whole(on, axis) : std::set<ValueId>());
  std::vector<LocalPart> parts;
  for (const Step& step : on.way.steps) {
    const ValueId id = made_by(*step.instr, 0);
    if (id == kNoValue || info(on, id).dtype == DType::boolean || info(on, id).weak) continue;
    const bool named = !info(on, id).bound.empty();
    // The author cannot write a call inside a gradient.
    if (!named && is_made_by_grad(on.about.ranks, step)) continue;
    for (const auto& [op, axes] : axes_of_part(on, id, sums, taken)) {
      parts.push_back({&step, axes, id, op, named});
      for (const int axis : axes)
        if (axes.size() > 1) parts.push_back({&step, {axis}, id, op, named});
    }
  }
  std::stable_sort(parts.begin(), parts.end(), [](const LocalPart& a, const LocalPart& b) {
    return std::pair(a.step->site.line, !a.named) < std::pair(b.step->site.line, !b.named);
  });
  return parts;
}

// Tries an all_reduce after each value that is such a part.
std::optional<Suspicion> find_local_part(const SuspectedWay& on, bool sums) {
  constexpr int kMostParts = 8;
  int candidates = 0;
  for (const LocalPart& part : local_parts(on, sums)) {
    if (++candidates > kMostParts) return std::nullopt;
    const Group group = Group::of_axes(on.provenance.mesh(), part.axes);
    Edit edit{Edit::Kind::reduce, part.step->site, 0, group, {part.op, 0}, 1};
    if (!on.confirmation.confirms_in_listings(edit, part.axes)) continue;
    std::set<std::string> made_right = on.confirmation.made_right();
    const std::string over = group_argument(on.provenance.mesh(), part.axes);
    const std::string name = info(on, part.id).bound.str();
    const std::string text = expression_at(on.about, *part.step, 0);
    ReductionFix fix = reduction_fix({on.about, *part.step, 0, part.op, over, edit.also},
                                     on.value.label, on.confirmation);
    if (!fix.made_right.empty()) made_right = std::move(fix.made_right);
    std::vector<std::string> names;
    for (const int axis : part.axes) names.push_back(axis_name(on, axis));
    return Suspicion{
        true,
        fmt::format("{} of {} is the {} of each rank's own part; no call takes it over {}",
                    part.named     ? name
                    : text.empty() ? "a value"
                                   : text,
                    lines_of_edit(on, edit), reduction_word(part.op), fmt::join(names, " and ")),
        fix.text, made_right};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Suspicion> find_local_extremum(const SuspectedWay& on) {
  return find_local_part(on, false);
}

std::optional<Suspicion> find_local_sum(const SuspectedWay& on) {
  return find_local_part(on, true);
}

// True if a call on the way reduces a value over the axis.
bool is_reduced(const SuspectedWay& on, ValueId id, int axis) {
  return std::any_of(on.way.steps.begin(), on.way.steps.end(), [&](const Step& step) {
    const CallItem* const item = reduction_of(step);
    return item != nullptr && item->input == id &&
           is_over_axis(item->collective.group, on.provenance.mesh(), axis, item->lanes);
  });
}

// An op on each rank's own part, and the reduction that makes its result that of the whole.
struct LocalStatistic {
  const char* op;
  Reduction reduction;
};
constexpr double kEuclidean = 2;  // p of a norm

bool computes(const Step& step, const LocalStatistic& statistic) {
  const auto* compute = std::get_if<Compute>(&step.instr->action);
  if (compute == nullptr || compute->op != statistic.op) return false;
  if (statistic.reduction.op != ReduceOp::norm) return true;
  return std::all_of(compute->attrs.begin(), compute->attrs.end(), [](const LaneAttrs& one) {
    return !one.attrs.has("p") || one.attrs.number("p") == kEuclidean;
  });
}

// Returns the fix that makes a statistic the whole one. Calls reduce squares of norms, no norms.
std::string statistic_fix(const SuspectedWay& on, const Step& step, ReduceOp op,
                          const std::string& group) {
  if (op != ReduceOp::norm)
    return reduction_fix({on.about, step, 0, op, group, {}}, on.value.label, on.confirmation).text;
  const std::string text = expression_at(on.about, step, 0);
  const std::string norm = text.empty() ? shown(on, made_by(*step.instr, 0)) : text;
  const std::string whole = fmt::format("sqrt(all_reduce({} ** 2, sum, group={}))", norm, group);
  const std::string line = line_text(on.about.ranks.program, {step.listing, step.site.line});
  return text.empty() ? fmt::format("add {} = {} after {}", norm, whole, line)
                      : fmt::format("{} in place of {} on {}", whole, norm, line);
}

std::optional<Suspicion> find_local_statistics(const SuspectedWay& on) {
  constexpr size_t kMostStatistics = 6;
  const Mesh& mesh = on.provenance.mesh();
  const LocalStatistic statistics[] = {{"mean", {ReduceOp::avg, 0}},
                                       {"sum", {ReduceOp::sum, 0}},
                                       {"norm", {ReduceOp::norm, kEuclidean}}};
  for (int axis = 0; axis < mesh.axis_count(); ++axis)
    for (const LocalStatistic& statistic : statistics) {
      const ReduceOp op = statistic.reduction.op;
      std::vector<const Step*> steps;
      for (const Step& step : on.way.steps) {
        if (!computes(step, statistic) || is_made_by_grad(on.about.ranks, step)) continue;
        const ValueId made = made_by(*step.instr, 0);
        if (mesh.axis_size(axis) > 1 && (steps.empty() || steps[0]->listing == step.listing) &&
            on.provenance.state(made, axis).kind != AxisKind::replicated &&
            !is_reduced(on, made, axis))
          steps.push_back(&step);
      }
      if (steps.empty() || steps.size() > kMostStatistics) continue;
      Edit edit{Edit::Kind::reduce,           steps[0]->site,      0,
                Group::of_axes(mesh, {axis}), statistic.reduction, 1};
      for (size_t i = 1; i < steps.size(); ++i) edit.also.push_back(steps[i]->site);
      if (!on.confirmation.confirms(edit, {axis})) continue;
      std::set<std::string> made_right = on.confirmation.made_right();
      std::vector<std::string> names, fixes;
      for (const Step* step : steps) {
        const std::string text = expression_at(on.about, *step, 0);
        names.push_back(text.empty() ? shown(on, made_by(*step->instr, 0)) : text);
        fixes.push_back(statistic_fix(on, *step, op, group_argument(mesh, {axis})));
      }
      const bool are_alike = std::count(fixes.begin(), fixes.end(), fixes[0]) == std::ssize(fixes);
      if (steps.size() > 1 && are_alike) {  // their texts are equal
        names = {fmt::format("{} values", steps.size())};
        fixes.resize(1);
        fixes[0] += ", for each of them";
      }
      return Suspicion{
          true,
          fmt::format("{} of {} {} the {} of each rank's own part; no call takes {} over {}",
                      joined_words(names, "and"), lines_of_edit(on, edit),
                      steps.size() == 1 ? "is" : "are each", reduction_word(op),
                      steps.size() == 1 ? "it" : "them", axis_name(on, axis)),
          fmt::format("{}", fmt::join(fixes, ", and ")), std::move(made_right)};
    }
  return std::nullopt;
}

std::optional<Suspicion> find_uneven_average(const SuspectedWay& on) {
  for (const Step& step : on.way.steps) {
    const CallItem* item = reduction_of(step);
    if (item == nullptr || item->collective.reduction.op != ReduceOp::avg) continue;
    const auto axes = axes_of(item->collective.group, on.provenance.mesh(), step.instr->lanes);
    if (!axes) continue;
    for (const int axis : *axes)
      if (auto found = uneven_average_on(on, step, *item, axis)) return found;
  }
  return std::nullopt;
}

std::optional<Suspicion> find_loop_sum(const SuspectedWay& on) {
  int candidates = 0;
  for (auto step = on.way.steps.rbegin(); step != on.way.steps.rend(); ++step) {
    const auto* compute = std::get_if<Compute>(&step->instr->action);
    if (compute == nullptr || compute->op != "add" || compute->inputs.size() != 2) continue;
    // On a line like a = a + grad(l, w), only the sum of the author binds a name.
    const bool is_of_author = !is_made_by_grad(on.about.ranks, *step) ||
                              !info(on, made_by(*step->instr, 0)).bound.empty();
    if (step->instr->origin.instance.empty() || !is_of_author) continue;
    const int line = step->site.line;
    for (const Loop& loop : loops_around(on.about.ranks.program.listings[step->listing], line))
      for (size_t slot = 0; slot < 2; ++slot) {
        if (++candidates > kMostCandidates) return std::nullopt;
        const Edit edit{Edit::Kind::scale_input,
                        step->site,
                        slot,
                        {},
                        {},
                        1 / static_cast<double>(loop.passes)};
        if (!on.confirmation.confirms(edit)) continue;
        if (follows_a_let(on, edit, loop.passes)) return std::nullopt;
        return Suspicion{
            false,
            fmt::format("{} adds up {} in each pass of the loop on line {}, and the sum is {} "
                        "times what it should be: {} passes{}; divide by their number",
                        line_of(on, *step), shown(on, compute->inputs[slot]), loop.line,
                        loop.passes, loop.passes, same_numbers(on, loop.passes)),
            "", on.confirmation.made_right()};
      }
  }
  return std::nullopt;
}

std::optional<Suspicion> find_op_on_shards(const SuspectedWay& on) {
  const Mesh& mesh = on.provenance.mesh();
  for (const Step& step : on.way.steps) {
    const auto* compute = std::get_if<Compute>(&step.instr->action);
    const ValueId made = made_by(*step.instr, 0);
    if (compute == nullptr || made == kNoValue || is_made_by_grad(on.about.ranks, step)) continue;
    // Attributes that differ by rank (rope with the offset of its rows) state the place already.
    if (compute->attrs.size() != 1) continue;
    for (int axis = 0; axis < mesh.axis_count(); ++axis) {
      const AxisKind result = on.provenance.state(made, axis).kind;
      if (mesh.axis_size(axis) == 1 || result != AxisKind::varying) continue;
      std::optional<size_t> cut;
      bool all_known = true;
      for (size_t slot = 0; slot < compute->inputs.size(); ++slot) {
        if (compute->inputs[slot] == kNoValue) continue;
        const AxisState& state = on.provenance.state_read(step.listing, step.index, slot, axis);
        if (state.kind == AxisKind::cut && !cut) cut = slot;
        all_known =
            all_known && (state.kind == AxisKind::cut || state.kind == AxisKind::replicated);
      }
      if (!cut || !all_known) continue;
      const AxisState& state = on.provenance.state_read(step.listing, step.index, *cut, axis);
      const int dim = state.placement.shard().dim;
      if (!needs_more_than_shards(on, *compute, *cut, dim, mesh.axis_size(axis))) continue;
      if (auto found = indices_without_offset(on, step, *compute, *cut, axis)) return found;
      const std::optional<bool> is_right = is_right_on_whole(on, step, *compute, axis);
      if (is_right == false) continue;
      const std::string input = shown(on, compute->inputs[*cut]);
      const std::string other_way =
          reads_place_of_shard(on, *compute, *cut, dim, mesh.axis_size(axis))
              ? fmt::format("give {} shards='..', so that it counts positions of the whole",
                            compute->op)
              : "combine what the ranks compute";
      return Suspicion{
          is_right.has_value(),
          fmt::format(
              "{} computes {} of each rank's own part of {}, which is cut along dim {} over "
              "{}; {} of the whole needs more than its shards",
              line_of(on, step), compute->op, input, dim, axis_name(on, axis), compute->op),
          !is_right ? std::string()
                    : fmt::format("gather {} over {} before {}, or {}", input, axis_name(on, axis),
                                  line_of(on, step), other_way),
          is_right ? on.confirmation.made_right() : std::set<std::string>()};
    }
  }
  return std::nullopt;
}

}  // namespace shardproof
