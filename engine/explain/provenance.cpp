// Implements provenance.h in one pass over each listing in program order. The states of an op's
// results follow from its sharding rule (ops/core/sharding_rule.h) with local shapes, those of a
// call from its group.
#include "shardproof/engine/explain/provenance.h"

#include <algorithm>
#include <array>
#include <map>

#include "shardproof/engine/compare/reduction_provenance.h"
#include "shardproof/engine/lower/bind_arguments.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

AxisState same() { return {AxisKind::replicated, R(), {}}; }

AxisState of_placement(const Placement& placement) {
  if (placement.is_replicate()) return same();
  return {placement.is_shard() ? AxisKind::cut : AxisKind::partial, placement, {}};
}

std::optional<Placement> placement_of(const AxisState& state) {
  if (state.kind == AxisKind::varying || state.kind == AxisKind::unknown) return std::nullopt;
  return state.placement;
}

// True if the placements agree. Only the dims of cuts are compared, as rules state them.
bool fits(const Placement& wanted, const Placement& given) {
  if (wanted.is_shard() && given.is_shard()) return wanted.shard().dim == given.shard().dim;
  return wanted == given;
}

Dims shape_of_rank(const SpmdValue& value, int32_t rank) {
  for (const LocalShape& shape : value.shapes)
    if (shape.lanes.contains(rank)) return shape.shape;
  return {};
}

// Returns the call on the whole values of a group. A rule may depend on the sizes that attributes
// refer to (a slice up to the end).
OpCall whole_call(const Compute& compute, const LaneAttrs& entry,
                  const std::vector<int32_t>& members, int32_t rank,
                  const std::vector<Placement>& given, const SpmdValues& values) {
  OpCall call{&entry.attrs, {}};
  for (size_t i = 0; i < compute.inputs.size(); ++i) {
    TensorMeta& meta = call.inputs.emplace_back();
    meta.absent = compute.inputs[i] == kNoValue;
    if (meta.absent) continue;
    const SpmdValue& value = values[static_cast<size_t>(compute.inputs[i])];
    meta = {value.dtype, shape_of_rank(value, rank), value.weak, false};
    if (!given[i].is_shard()) continue;
    int64_t& size = meta.shape[given[i].shard().dim];
    size = 0;
    for (const int32_t member : members) {
      const Dims part = shape_of_rank(value, member);
      size += part.empty() ? 0 : part[given[i].shard().dim];
    }
  }
  call.wanted = compute.outputs.size();
  return call;
}

bool has_even_inputs(const Compute& compute, const SpmdValues& values) {
  return std::all_of(compute.inputs.begin(), compute.inputs.end(), [&](ValueId id) {
    return id == kNoValue || values[static_cast<size_t>(id)].shapes.size() <= 1;
  });
}

// Returns the placements of the results by the op's rule, for inputs placed as `given` over one
// axis; empty if the rule states none. `zeros` marks inputs that are the number 0. The rule takes
// these for tensors, because parts of a sum may be divided by any other number.
std::vector<Placement> ruled(const OpRecord& op, const OpCall& call, int64_t axis_size, bool even,
                             const std::vector<Placement>& given,
                             const std::vector<bool>& zeros) try {
  if (!op.rule.strategies) return {};
  const bool cut =
      std::any_of(given.begin(), given.end(), [](const Placement& p) { return p.is_shard(); });
  if (cut && op.rule.joint) return {};
  OpCall seen = call;
  for (size_t i = 0; i < zeros.size(); ++i)
    if (zeros[i]) seen.inputs[i].weak = false;
  for (const Strategy& strategy : op.rule.strategies(seen, op.infer(call), axis_size)) {
    if (strategy.form != LocalExecution::same_op || strategy.blocks != 0) continue;
    if (strategy.cut == ShardLayout::chunks || (strategy.cut == ShardLayout::even && !even))
      continue;
    bool all = strategy.inputs.size() == given.size();
    for (size_t i = 0; all && i < given.size(); ++i)
      all = call.inputs[i].absent || fits(strategy.inputs[i], given[i]);
    if (all) return strategy.outputs;
  }
  return {};
} catch (const Error&) {
  return {};  // attributes that fit each shard do not fit the whole value
}

bool holds_zero(const NumberValue& number) {
  return std::count(number.values.begin(), number.values.end(), 0) > 0 ||
         std::count(number.integers.begin(), number.integers.end(), 0) > 0;
}

std::set<ValueId> union_of(std::set<ValueId> a, const std::set<ValueId>& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// True for a call that gives each rank parts of what the members hold, in another order.
bool moves_parts(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::broadcast ||
         kind == CollectiveKind::all_to_all;
}

// True if a call over another axis leaves shards along `dim` what they are.
bool keeps_cut(const CallItem& item, int dim) {
  const CollectiveKind kind = item.collective.kind;
  if (kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast) return true;
  if (kind == CollectiveKind::all_to_all) return item.dim != dim && item.dim2 != dim;
  const bool has_dim = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
  return has_dim && item.dim != dim;
}

// True if a call over another axis leaves parts what they are.
bool keeps_parts(const Collective& c, ReduceOp parts) {
  if (moves_parts(c.kind)) return true;
  const bool adds = c.reduction.op == ReduceOp::sum || c.reduction.op == ReduceOp::avg;
  return parts == ReduceOp::sum && adds &&
         (c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::reduce_scatter);
}

// True if two items are the same call, of uneven shards or of a step of a plan.
bool differ_only_in_counts(const CallItem& a, const CallItem& b) {
  if (a.step != nullptr || b.step != nullptr) return a.step == b.step;
  Collective same = a.collective;
  same.count = b.collective.count;
  return same == b.collective && a.input == b.input && a.dim == b.dim && a.dim2 == b.dim2;
}

}  // namespace

bool is_over_axis(const Group& group, const Mesh& mesh, int axis, const Lanes& lanes) {
  const Group own = Group::of_axes(mesh, {axis});
  std::map<int64_t, int64_t> sibling;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const int64_t of = own.sibling_of(lanes[i]), in = group.sibling_of(lanes[i]);
    if (of < 0 || in < 0) return false;
    const auto [known, fresh] = sibling.emplace(of, in);
    if (known->second != in) return false;
    for (int64_t k = 0; fresh && k < own.size(); ++k)
      if (group.sibling_of(own.member(of, k)) != in) return false;
  }
  return true;
}

Provenance::Provenance(const SpmdProgram& program, const Mesh& mesh, const OpRegistry& ops)
    : program_(program),
      mesh_(mesh),
      ops_(ops),
      is_zero_(program.values.size(), false),
      is_shared_(written_through_others(program, ops)),
      repeated_(program.values.size()),
      states_(program.values.size(), States(static_cast<size_t>(mesh.axis_count()))) {
  for (int axis = 0; axis < mesh.axis_count(); ++axis)
    groups_.push_back(Group::of_axes(mesh, {axis}));
  follow_inputs();
  for (size_t listing = 0; listing < program.listings.size(); ++listing) {
    const Instrs& instrs = program.listings[listing].instrs;
    reads_.emplace_back(instrs.size());
    for (size_t i = 0; i < instrs.size(); ++i) follow(listing, i, instrs[i]);
  }
}

const AxisState& Provenance::state_read(size_t listing, size_t instr, size_t slot, int axis) const {
  return reads_[listing][instr].at(slot)[static_cast<size_t>(axis)];
}

void Provenance::follow_inputs() {
  for (const ValueId id : program_.inputs)
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      AxisState state = input_state(program_.values[static_cast<size_t>(id)], axis);
      if (is_shared_[static_cast<size_t>(id)]) state.kind = AxisKind::unknown;
      if (state.kind != AxisKind::replicated) state.sources.insert(id);
      of(id)[static_cast<size_t>(axis)] = std::move(state);
    }
}

AxisState Provenance::input_state(const SpmdValue& value, int axis) const {
  if (!value.spec) return {};
  Lanes lanes;
  for (const LocalShape& shape : value.shapes) lanes = lanes.unite(shape.lanes);
  if (value.spec->is_replicated()) return same();
  if (!(value.spec->mesh() == mesh_)) return {};
  const Placement& placement = value.spec->placement(axis);
  if (placement.is_replicate() || mesh_.axis_size(axis) == 1) return same();
  if (!is_covered(lanes, axis)) return {AxisKind::varying, {}, {}};
  return of_placement(placement.is_shard() ? S(placement.shard().dim) : placement);
}

// True if the lanes consist of whole groups of the axis.
bool Provenance::is_covered(const Lanes& lanes, int axis) const {
  const Group& group = groups_[static_cast<size_t>(axis)];
  std::map<int64_t, int64_t> members;  // by sibling
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const int64_t sibling = group.sibling_of(lanes[i]);
    if (sibling < 0) return false;
    ++members[sibling];
  }
  return std::all_of(members.begin(), members.end(),
                     [&](const auto& entry) { return entry.second == group.size(); });
}

// True if a group of the axis has ranks of `lanes` in more than one class, or outside the mesh.
bool Provenance::splits(const std::vector<Lanes>& classes, const Lanes& lanes, int axis) const {
  const Group& group = groups_[static_cast<size_t>(axis)];
  std::map<int32_t, size_t> class_of;  // by rank
  for (size_t at = 0; at < classes.size(); ++at)
    for (int64_t i = 0; i < classes[at].size(); ++i) class_of.emplace(classes[at][i], at);
  std::map<int64_t, size_t> known;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const int64_t sibling = group.sibling_of(lanes[i]);
    const auto found = class_of.find(lanes[i]);
    const size_t at = found == class_of.end() ? classes.size() : found->second;
    if (sibling < 0 || known.emplace(sibling, at).first->second != at) return true;
  }
  return false;
}

void Provenance::write(ValueId id, const Lanes& lanes, States states, bool in_place) {
  const SpmdValue& value = program_.values[static_cast<size_t>(id)];
  Lanes all;
  for (const LocalShape& shape : value.shapes) all = all.unite(shape.lanes);
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    AxisState& state = states[static_cast<size_t>(axis)];
    AxisState& known = of(id)[static_cast<size_t>(axis)];
    const bool shared = is_shared_[static_cast<size_t>(id)];
    if (in_place && (!lanes.contains(all) || shared))
      state.sources = union_of(known.sources, state.sources);
    if (shared || (in_place && !lanes.contains(all))) state.kind = AxisKind::unknown;
    const bool whole = state.kind != AxisKind::cut && state.kind != AxisKind::partial;
    if (!whole && !is_covered(lanes, axis)) state.kind = AxisKind::varying;
    if (state.kind == AxisKind::replicated || state.kind == AxisKind::varying ||
        state.kind == AxisKind::unknown)
      state.placement = R();
    known = std::move(state);
  }
}

// A value that is broadcast into another one may have other placements there.
void Provenance::write_in_place(const Compute& compute, const Lanes& lanes, States states) {
  const auto& values = program_.values;
  const bool broadcast = !(values[static_cast<size_t>(compute.into)].shapes ==
                           values[static_cast<size_t>(compute.outputs.at(0))].shapes);
  for (AxisState& state : states)
    if (broadcast && state.kind != AxisKind::replicated) state.kind = AxisKind::varying;
  repeated_[static_cast<size_t>(compute.into)].clear();
  write(compute.into, lanes, std::move(states), true);
}

void Provenance::follow(size_t listing, size_t index, const Instr& instr) {
  const auto axes = [&](const auto& make) {
    States states;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis)
      states.push_back(mesh_.axis_size(axis) == 1 ? same() : make(axis));
    return states;
  };
  std::vector<States>& reads = reads_[listing][index];
  if (const auto* compute = std::get_if<Compute>(&instr.action)) {
    for (const ValueId id : compute->inputs)
      reads.push_back(id == kNoValue ? axes([](int) { return same(); }) : of(id));
    for (int axis = 0; axis < mesh_.axis_count(); ++axis)
      if (mesh_.axis_size(axis) > 1) cut_repeated(instr, *compute, axis, reads);
    follow_repeated(instr, *compute);
    std::vector<States> made;
    for (size_t k = 0; k < compute->outputs.size(); ++k)
      made.push_back(
          axes([&](int axis) { return compute_state(instr, *compute, reads, k, axis); }));
    if (compute->into != kNoValue) write_in_place(*compute, instr.lanes, made.at(0));
    for (size_t k = 0; k < made.size(); ++k)
      write(compute->outputs[k], instr.lanes, std::move(made[k]), false);
  } else if (const auto* number = std::get_if<NumberValue>(&instr.action)) {
    is_zero_[static_cast<size_t>(number->output)] = holds_zero(*number);
    of(number->output) = axes([&](int axis) { return number_state(instr, *number, axis); });
  } else if (const auto* merge = std::get_if<Merge>(&instr.action)) {
    write(merge->output, instr.lanes, axes([&](int axis) { return merged_state(*merge, axis); }),
          false);
  } else if (const auto* copy = std::get_if<Snapshot>(&instr.action)) {
    of(copy->output) = of(copy->input);
  } else if (const auto* call = std::get_if<Communicate>(&instr.action)) {
    std::vector<States> made;
    for (const CallItem& item : call->items) {
      reads.push_back(item.input == kNoValue ? axes([](int) { return same(); }) : of(item.input));
      made.push_back(axes([&](int axis) { return called_state(*call, item, axis); }));
    }
    for (size_t i = 0; i < made.size(); ++i)
      if (call->items[i].output != kNoValue)
        write(call->items[i].output, instr.lanes, std::move(made[i]), call->items[i].in_place);
  }
}

namespace {

constexpr int kRepeated = -1, kPart = -2;

// `from` holds for each dim of a view the dim of its input. It is kRepeated if all elements along
// the dim are equal, and kPart if the dim is a part of a dim.
struct DimsOfView {
  Dims shape;
  std::vector<int> from;
};

// Strides that identify dims after a view has selected, swapped or repeated them.
constexpr std::array<int64_t, 8> kStrides{2, 3, 5, 7, 11, 13, 17, 19};

std::optional<DimsOfView> dims_of_view(const OpRecord& op, const Attrs& attrs, DType dtype,
                                       const Dims& shape, const std::set<int>& repeated) {
  if (!op.view || shape.size() > std::ssize(kStrides)) return std::nullopt;
  Tensor layout;
  layout.dtype = dtype;
  layout.shape = shape;
  for (int dim = 0; dim < shape.size(); ++dim)
    layout.strides.push_back(repeated.contains(dim) ? 0 : kStrides[static_cast<size_t>(dim)]);
  const OpCall call{&attrs, {{dtype, shape, false, false}}};
  const std::optional<Tensor> made = op.view(call, layout);
  if (!made || made->offset != 0) return std::nullopt;
  DimsOfView dims{made->shape, {}};
  for (int dim = 0; dim < made->shape.size(); ++dim) {
    const int64_t stride = made->strides[dim];
    const auto found = std::find(kStrides.begin(), kStrides.end(), stride);
    if (stride != 0 && found == kStrides.end()) return std::nullopt;
    const int origin = stride == 0 ? kRepeated : static_cast<int>(found - kStrides.begin());
    const bool is_part = origin != kRepeated && made->shape[dim] != shape[origin];
    dims.from.push_back(is_part ? kPart : origin);
  }
  return dims;
}

}  // namespace

// Returns the dims of the view on each class of ranks with equal attributes and shapes. Empty if
// the op is no view of one value, or if the dims have other origins on some class.
std::vector<std::pair<Lanes, Dims>> Provenance::classes_of_view(const Compute& compute,
                                                                const Lanes& lanes,
                                                                std::vector<int>& from) const {
  const OpRecord& op = ops_.at(compute.op.str());
  const ValueId input = compute.inputs.empty() ? kNoValue : compute.inputs[0];
  if (!op.view || input == kNoValue || compute.outputs.size() != 1) return {};
  const SpmdValue& value = program_.values[static_cast<size_t>(input)];
  std::vector<std::pair<Lanes, Dims>> classes;
  for (const LaneAttrs& entry : compute.attrs)
    for (const LocalShape& shape : value.shapes) {
      Lanes same = entry.lanes.intersect(shape.lanes).intersect(lanes);
      if (same.empty()) continue;
      std::optional<DimsOfView> dims = dims_of_view(op, entry.attrs, value.dtype, shape.shape,
                                                    repeated_[static_cast<size_t>(input)]);
      if (!dims || (!classes.empty() && dims->from != from)) return {};
      from = std::move(dims->from);
      classes.emplace_back(std::move(same), dims->shape);
    }
  return classes;
}

// Finds the dims of a view along which all elements are equal: those of stride 0.
void Provenance::follow_repeated(const Instr& instr, const Compute& compute) {
  if (compute.outputs.size() != 1 || is_shared_[static_cast<size_t>(compute.outputs[0])]) return;
  std::vector<int> from;
  const auto classes = classes_of_view(compute, instr.lanes, from);
  for (int dim = 0; dim < std::ssize(from) && !classes.empty(); ++dim)
    if (from[static_cast<size_t>(dim)] == kRepeated &&
        std::any_of(classes.begin(), classes.end(),
                    [&](const auto& one) { return one.second[dim] > 1; }))
      repeated_[static_cast<size_t>(compute.outputs[0])].insert(dim);
}

// Returns the placement of a view that states sizes of shards, such as expand(dy, [rows, 8]). Only
// the dim that is cut may have several sizes. Example: the shards of a repeated value are repeated
// values with their own numbers of rows.
std::optional<Placement> Provenance::placement_of_view(const Instr& instr, const Compute& compute,
                                                       const AxisState& read) const {
  std::vector<int> from;
  const auto classes = classes_of_view(compute, instr.lanes, from);
  if (classes.empty()) return std::nullopt;
  std::optional<int> cut;
  for (int dim = 0; dim < std::ssize(from); ++dim) {
    const int64_t first = classes[0].second[dim];
    const bool differs = std::any_of(classes.begin(), classes.end(),
                                     [&](const auto& one) { return one.second[dim] != first; });
    const bool is_cut =
        read.kind == AxisKind::cut && from[static_cast<size_t>(dim)] == read.placement.shard().dim;
    const bool may_be_cut = is_cut || (read.kind == AxisKind::replicated &&
                                       from[static_cast<size_t>(dim)] == kRepeated);
    if (!differs && !is_cut) continue;
    if (!may_be_cut || cut) return std::nullopt;
    cut = dim;
  }
  return cut ? std::optional<Placement>(S(*cut)) : std::nullopt;
}

// If the rule states nothing for the inputs as they are, cuts a repeated one, so that it fits an
// input that is cut.
void Provenance::cut_repeated(const Instr& instr, const Compute& compute, int axis,
                              std::vector<States>& reads) const {
  const auto at = static_cast<size_t>(axis);
  std::vector<Placement> given;
  bool any_cut = false;
  for (const States& read : reads) {
    const std::optional<Placement> placement = placement_of(read[at]);
    if (!placement) return;
    any_cut = any_cut || placement->is_shard();
    given.push_back(*placement);
  }
  if (!any_cut || placement_by_rule(instr, compute, 0, axis, given)) return;
  for (size_t slot = 0; slot < reads.size(); ++slot) {
    if (reads[slot][at].kind != AxisKind::replicated || compute.inputs[slot] == kNoValue) continue;
    for (const int dim : repeated_[static_cast<size_t>(compute.inputs[slot])]) {
      std::vector<Placement> cut = given;
      cut[slot] = S(dim);
      if (!placement_by_rule(instr, compute, 0, axis, cut)) continue;
      reads[slot][at] = {AxisKind::cut, S(dim), reads[slot][at].sources};
      return;
    }
  }
}

// Returns the placement of a result by the op's rule, for inputs placed as `given` over the axis.
// Returns nullopt if the rule states none, or if it differs by rank.
std::optional<Placement> Provenance::placement_by_rule(const Instr& instr, const Compute& compute,
                                                       size_t output, int axis,
                                                       const std::vector<Placement>& given) const {
  const OpRecord& op = ops_.at(compute.op.str());
  const bool even = has_even_inputs(compute, program_.values);
  std::vector<bool> zeros;
  for (const ValueId id : compute.inputs)
    zeros.push_back(id != kNoValue && is_zero_[static_cast<size_t>(id)]);
  std::optional<Placement> result;
  for (const LaneAttrs& entry : compute.attrs) {
    LaneClasses classes(entry.lanes.intersect(instr.lanes));
    for (const ValueId id : compute.inputs)
      if (id != kNoValue) classes.refine(program_.values[static_cast<size_t>(id)].shapes);
    for (const Lanes& lanes : classes.lanes()) {
      const Group& group = groups_[static_cast<size_t>(axis)];
      if (group.sibling_of(lanes[0]) < 0) return std::nullopt;
      const OpCall call = whole_call(compute, entry, group.members(group.sibling_of(lanes[0])),
                                     lanes[0], given, program_.values);
      const std::vector<Placement> made =
          ruled(op, call, mesh_.axis_size(axis), even, given, zeros);
      if (output >= made.size() || (result && !fits(*result, made[output]))) return std::nullopt;
      result = made[output];
    }
  }
  return result;
}

AxisState Provenance::compute_state(const Instr& instr, const Compute& compute,
                                    const std::vector<States>& reads, size_t output,
                                    int axis) const {
  std::set<ValueId> sources;
  std::vector<Placement> given;
  bool known = true, all_same = true;
  for (const States& read : reads) {
    const AxisState& state = read[static_cast<size_t>(axis)];
    sources = union_of(std::move(sources), state.sources);
    all_same = all_same && state.kind == AxisKind::replicated;
    const std::optional<Placement> placement = placement_of(state);
    known = known && placement;
    given.push_back(placement.value_or(R()));
  }
  std::vector<Lanes> by_attrs;
  std::vector<const Attrs*> seen;
  for (const LaneAttrs& entry : compute.attrs) {
    const auto found = std::find_if(seen.begin(), seen.end(),
                                    [&](const Attrs* attrs) { return *attrs == entry.attrs; });
    if (found != seen.end()) {
      Lanes& lanes = by_attrs[static_cast<size_t>(found - seen.begin())];
      lanes = lanes.unite(entry.lanes);
      continue;
    }
    seen.push_back(&entry.attrs);
    by_attrs.push_back(entry.lanes);
  }
  const bool differs = by_attrs.size() > 1 && splits(by_attrs, instr.lanes, axis);
  if (!differs && all_same) return {AxisKind::replicated, R(), sources};
  if (!known || !compute.input_specs().empty()) return {AxisKind::varying, {}, sources};
  std::optional<Placement> result;
  if (!differs) result = placement_by_rule(instr, compute, output, axis, given);
  if (!result && !reads.empty())
    result = placement_of_view(instr, compute, reads[0][static_cast<size_t>(axis)]);
  if (!result) return {AxisKind::varying, {}, sources};
  AxisState state = of_placement(*result);
  state.sources = std::move(sources);
  return state;
}

AxisState Provenance::number_state(const Instr& instr, const NumberValue& number, int axis) const {
  const size_t count = std::max(number.values.size(), number.integers.size());
  if (count <= 1) return same();
  std::map<std::pair<double, int64_t>, std::vector<int32_t>> by_number;
  for (int64_t i = 0; i < instr.lanes.size(); ++i) {
    const size_t at = static_cast<size_t>(i);
    by_number[{at < number.values.size() ? number.values[at] : 0,
               at < number.integers.size() ? number.integers[at] : 0}]
        .push_back(instr.lanes[i]);
  }
  std::vector<Lanes> classes;
  for (auto& [value, ranks] : by_number) classes.push_back(Lanes::of(std::move(ranks)));
  return splits(classes, instr.lanes, axis) ? AxisState{AxisKind::varying, {}, {}} : same();
}

AxisState Provenance::merged_state(const Merge& merge, int axis) const {
  std::vector<Lanes> classes;
  Lanes all;
  AxisState state;
  for (size_t i = 0; i < merge.parts.size(); ++i) {
    const auto& [lanes, id] = merge.parts[i];
    const AxisState& part = this->state(id, axis);
    classes.push_back(lanes);
    all = all.unite(lanes);
    if (i == 0) {
      state = part;
      continue;
    }
    if (!state.is_same_kind(part)) state.kind = AxisKind::varying;
    state.sources = union_of(std::move(state.sources), part.sources);
  }
  if (classes.size() > 1 && splits(classes, all, axis)) state.kind = AxisKind::varying;
  return state;
}

AxisState Provenance::called_state(const Communicate& call, const CallItem& item, int axis) const {
  const Collective& c = item.collective;
  if (is_point_to_point(c.kind) || item.input == kNoValue) return {};
  const AxisState& before = state(item.input, axis);
  std::vector<Lanes> others;
  Lanes all;
  for (const CallItem& one : call.items)
    if (one.output == item.output) {
      if (!differ_only_in_counts(one, item)) others.push_back(one.lanes);
      all = all.unite(one.lanes);
    }
  if (!others.empty() && splits(others, all, axis)) return {};
  if (!is_over_axis(c.group, mesh_, axis, all)) return after_call_elsewhere(item, before, axis);
  if (has_equal_outputs(c.kind)) return same();
  // A reduce_scatter leaves each rank its shard, whatever the ranks add up.
  if (c.kind == CollectiveKind::reduce_scatter && c.group.size() == mesh_.axis_size(axis))
    return of_placement(S(item.dim));
  return {};
}

// Returns the state after a call that is not over this axis.
AxisState Provenance::after_call_elsewhere(const CallItem& item, const AxisState& before,
                                           int axis) const {
  const Collective& c = item.collective;
  const std::vector<int>& axes = c.group.axes();
  const bool other = !axes.empty() && c.group.mesh() == mesh_ &&
                     std::find(axes.begin(), axes.end(), axis) == axes.end();
  AxisState state = before;
  if (!other || !item.send_counts.empty()) {
    state.kind = AxisKind::unknown;
    // A group that mixes ranks of the axis in another way allows no statement.
    if (!other) state.sources.clear();
    return state;
  }
  if (before.kind == AxisKind::replicated || before.kind == AxisKind::varying) return state;
  const bool keeps = before.kind == AxisKind::cut
                         ? keeps_cut(item, before.placement.shard().dim)
                         : before.kind == AxisKind::partial &&
                               keeps_parts(c, before.placement.partial().reduction.op);
  if (!keeps) state.kind = AxisKind::varying;
  return state;
}

}  // namespace shardproof
