// Implements specs_inside_as.h.
//
// 1. An op counts positions if a strategy of its rule that cuts an input needs the index of the
//    shard.
// 2. If the inputs that state the positions have placements, the others get those of a strategy
//    with these placements, or those that follow from their shapes on the ranks.
// 3. The results get the placements of the strategy that has all inputs with their placements.
//
// Example: q is [8, 4] as cp:S(0) on cp=2. In the gradient of `rope(q) * 2 as cp:S(0)` the op
// rope(d, inverse=true, like=q) reads d, which has no placement. With q as S(0) the rule has d as
// S(0), so rank 1 turns d by the positions 4 to 7, as rope(q) did.
#include "shardproof/engine/partition/specs_inside_as.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

bool has_placement(const PlacedValue& value) { return value.meta.absent || value.spec; }

bool counts_positions(const OpRecord& op, const OpCall& call) {
  if (!op.rule.strategies) return false;
  const std::vector<Strategy> all = op.rule.strategies(call, op.infer(call), 2);
  return std::any_of(all.begin(), all.end(), [](const Strategy& strategy) {
    return strategy.form == LocalExecution::needs_shard_index &&
           std::any_of(strategy.inputs.begin(), strategy.inputs.end(),
                       [](const Placement& p) { return !p.is_replicate(); });
  });
}

bool states_positions(const OpRecord& op, const std::vector<PlacedValue>& inputs) {
  bool any = false;
  for (const int i : op.rule.indexed_inputs) {
    const PlacedValue& input = inputs[static_cast<size_t>(i)];
    if (!has_placement(input)) return false;
    any = any || input.spec;
  }
  return any;
}

// The strategies of an axis, that with whole tensors first.
std::vector<Strategy> strategies_of(const OpRecord& op, const OpCall& call,
                                    const std::vector<TensorMeta>& outputs, int64_t size) {
  std::vector<Strategy> all = op.rule.strategies(call, outputs, size);
  all.insert(all.begin(), {std::vector<Placement>(call.inputs.size(), R()),
                           std::vector<Placement>(outputs.size(), R())});
  return all;
}

// True if the strategy has the placed inputs with their placements on an axis. `partials`: it may
// have partial inputs.
bool is_strategy_of(const Strategy& strategy, const std::vector<PlacedValue>& inputs, int axis,
                    bool partials) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Placement& stated = strategy.inputs[i];
    if (stated.is_partial() && !partials) return false;
    if (!inputs[i].spec) continue;
    const Placement& lies = inputs[i].spec->placement(axis);
    const bool alike = stated.is_shard() ? lies.is_shard(stated.shard().dim) : lies == stated;
    if (!alike) return false;
  }
  return true;
}

// Placements of one axis, of all inputs and results. They share the cut of a placed input.
struct AxisPlacements {
  std::vector<Placement> inputs, outputs;
  std::vector<int> order;
};

std::optional<AxisPlacements> placements_beside(const std::vector<Strategy>& strategies,
                                                const std::vector<PlacedValue>& inputs, int axis,
                                                bool partials) {
  const auto fits = std::find_if(
      strategies.begin(), strategies.end(),
      [&](const Strategy& strategy) { return is_strategy_of(strategy, inputs, axis, partials); });
  if (fits == strategies.end()) return std::nullopt;
  AxisPlacements found{fits->inputs, fits->outputs, {}};
  Shard cut;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].spec && fits->inputs[i].is_shard()) {
      cut = inputs[i].spec->placement(axis).shard();
      found.order = inputs[i].spec->order();
    }
  for (std::vector<Placement>* placements : {&found.inputs, &found.outputs})
    for (Placement& placement : *placements)
      if (placement.is_shard()) {
        cut.dim = placement.shard().dim;
        placement = Placement(cut);
      }
  return found;
}

std::optional<Spec> spec_over_axes(const Mesh& mesh, const std::vector<AxisPlacements>& axes,
                                   std::vector<Placement> placements, const TensorMeta& meta) {
  std::vector<int> order;
  for (const AxisPlacements& axis : axes)
    if (!axis.order.empty()) order = axis.order;
  try {
    return Spec(mesh, std::move(placements), meta.shape, meta.dtype, order);
  } catch (const Error&) {
    return std::nullopt;  // sizes that do not fit this value
  }
}

std::optional<std::vector<AxisPlacements>> placements_by_axis(
    const OpRecord& op, const OpCall& call, const std::vector<TensorMeta>& outputs,
    const std::vector<PlacedValue>& inputs, const Mesh& mesh, bool partials) {
  std::vector<AxisPlacements> axes;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    std::optional<AxisPlacements> found = placements_beside(
        strategies_of(op, call, outputs, mesh.axis_size(axis)), inputs, axis, partials);
    if (!found) return std::nullopt;
    axes.push_back(std::move(*found));
  }
  return axes;
}

void place_others(const OpRecord& op, const OpCall& call, const std::vector<TensorMeta>& outputs,
                  std::vector<PlacedValue>& inputs, const std::vector<LocalShapes>& held,
                  const Mesh& mesh) {
  const std::optional<std::vector<AxisPlacements>> axes =
      placements_by_axis(op, call, outputs, inputs, mesh, false);
  std::vector<int> all;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) all.push_back(axis);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (has_placement(inputs[i])) continue;
    std::vector<Placement> placements;
    if (axes)
      for (const AxisPlacements& axis : *axes) placements.push_back(axis.inputs[i]);
    if (axes) inputs[i].spec = spec_over_axes(mesh, *axes, placements, inputs[i].meta);
    if (!inputs[i].spec || misfit_shard(*inputs[i].spec, held[i]))
      inputs[i].spec = spec_by_shapes(
          Spec::replicated(mesh, inputs[i].meta.shape, inputs[i].meta.dtype), all, held[i]);
  }
}

// Returns the specs of all results, or none.
std::vector<Spec> specs_of_results(const OpRecord& op, const OpCall& call,
                                   const std::vector<TensorMeta>& outputs,
                                   const std::vector<PlacedValue>& inputs, const Mesh& mesh) {
  const std::optional<std::vector<AxisPlacements>> axes =
      placements_by_axis(op, call, outputs, inputs, mesh, true);
  std::vector<Spec> specs;
  for (size_t o = 0; axes && o < outputs.size(); ++o) {
    std::vector<Placement> placements;
    for (const AxisPlacements& axis : *axes) placements.push_back(axis.outputs[o]);
    std::optional<Spec> spec = spec_over_axes(mesh, *axes, std::move(placements), outputs[o]);
    if (!spec) return {};
    specs.push_back(std::move(*spec));
  }
  return specs;
}

// Returns the placements to try on an axis that a claim does not name. They are R, each dim by the
// chunk rule, and each dim with the sizes that the first ranks along the axis have. These sizes
// must add up to the dim.
std::vector<Placement> open_placements(const Mesh& mesh, int axis, const Dims& shape,
                                       const std::vector<LocalShape>& actual) {
  std::vector<Placement> out{R()};
  for (int dim = 0; dim < shape.size(); ++dim) out.push_back(S(dim));
  for (int dim = 0; dim < shape.size(); ++dim) {
    Shard shard{dim, 1, {}};
    int64_t total = 0;
    Dims coordinate = Dims::filled(mesh.axis_count(), 0);
    for (int64_t i = 0; i < mesh.axis_size(axis); ++i) {
      coordinate[axis] = i;
      const int32_t rank = mesh.rank_at(coordinate);
      for (const LocalShape& part : actual)
        if (part.lanes.contains(rank)) shard.sizes.push_back(part.shape[dim]);
      total += shard.sizes.empty() ? 0 : shard.sizes.back();
    }
    if (total == shape[dim]) out.push_back(std::move(shard));
  }
  return out;
}

// True if two axes cut one dim and one of them has explicit sizes. Shapes of shards do not
// determine such placements.
bool mixes_sizes(const std::vector<Placement>& placements) {
  return std::any_of(placements.begin(), placements.end(), [&](const Placement& one) {
    if (!one.is_shard() || one.shard().sizes.empty()) return false;
    const auto alike = [&](const Placement& other) { return other.is_shard(one.shard().dim); };
    return std::count_if(placements.begin(), placements.end(), alike) > 1;
  });
}

}  // namespace

std::optional<LocalShape> misfit_shard(const Spec& spec, const std::vector<LocalShape>& actual) {
  for (const LocalShape& part : actual)
    for (int64_t i = 0; i < part.lanes.size(); ++i)
      if (!(spec.local_shape(part.lanes[i]) == part.shape))
        return LocalShape{Lanes::one(part.lanes[i]), part.shape};
  return std::nullopt;
}

std::optional<Spec> spec_by_shapes(const Spec& plain, const std::vector<int>& open,
                                   const std::vector<LocalShape>& actual) {
  const Mesh& mesh = plain.mesh();
  std::vector<std::vector<Placement>> choices;
  size_t combinations = 1;
  for (const int axis : open) {
    choices.push_back(open_placements(mesh, axis, plain.shape(), actual));
    combinations *= choices.back().size();
  }
  for (size_t code = 0; code < combinations; ++code) {
    std::vector<Placement> placements = plain.placements();
    size_t rest = code;
    for (size_t i = 0; i < open.size(); ++i) {
      placements[static_cast<size_t>(open[i])] = choices[i][rest % choices[i].size()];
      rest /= choices[i].size();
    }
    if (mixes_sizes(placements)) continue;
    Spec candidate(mesh, placements, plain.shape(), plain.dtype(), plain.order());
    if (!misfit_shard(candidate, actual)) return candidate;
  }
  return std::nullopt;
}

std::optional<ShardSpecs> specs_inside_as(const OpRecord& op, const Attrs& attrs,
                                          std::vector<PlacedValue> inputs,
                                          const std::vector<LocalShapes>& held, const Mesh& mesh) {
  OpCall call{&attrs, {}};
  for (const PlacedValue& input : inputs) call.inputs.push_back(input.meta);
  if (inputs.empty() || !counts_positions(op, call)) return std::nullopt;
  const std::vector<TensorMeta> outputs = op.infer(call);
  if (states_positions(op, inputs)) place_others(op, call, outputs, inputs, held, mesh);
  if (!std::all_of(inputs.begin(), inputs.end(), has_placement)) return std::nullopt;
  ShardSpecs specs;
  for (const PlacedValue& input : inputs)
    specs.inputs.push_back(input.spec ? *input.spec
                                      : Spec::replicated(mesh, input.meta.shape, input.meta.dtype));
  specs.outputs = specs_of_results(op, call, outputs, inputs, mesh);
  return specs;
}

}  // namespace shardproof
