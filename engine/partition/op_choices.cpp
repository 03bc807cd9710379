// Implements op_choices.h.
//
// A rule (ops/core/sharding_rule.h) lists strategies for one axis: which placement each input needs
// on that axis and which placement each output gets. On a mesh of N axes, one strategy is chosen
// for each axis, because axes are independent.
//
// 1. For each axis, list the strategies of the rule plus "everything R", nearest to the inputs
//    first. If there are more than kMaxCombinations combinations, drop the farthest ones.
//    Placements on an axis of one rank cut and add up nothing, so it has one strategy. It is that
//    which moves the fewest inputs, or "everything R" if that is not legal.
// 2. For each combination, compose() joins the picks into one spec per tensor. It refuses what is
//    not legal together: partials of two kinds, cuts that the kernel does not accept.
// 3. A rule that cannot be written axis by axis (reshape) judges whole specs: the inputs as they
//    are, or with some axes replicated (joint_choices).
//
// Example: y = x @ w on a mesh dp=2, tp=4. x of shape [16, 8] is dp:S(0) tp:R, w of shape [8, 32]
// is dp:R tp:S(1). The rule of matmul has these strategies for an axis (x, w -> y):
//
//   S(0), R    -> S(0)      rows of x
//   R,    S(1) -> S(1)      columns of w
//   S(1), S(0) -> P(sum)    the contracted dim
//   R,    R    -> R
//   and linear ones:  P(sum), R -> P(sum)  and  R, P(sum) -> P(sum)
//
//   axis dp: the inputs are S(0), R, so the first strategy has distance 0;
//   axis tp: the inputs are R, S(1), so the second has distance 0.
//
// The first combination is dp: rows, tp: columns. It needs x as dp:S(0) tp:R and w as dp:R tp:S(1),
// which they are. The outputs are y as dp:S(0) tp:S(1).
#include "shardproof/engine/partition/op_choices.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int64_t kMaxCombinations = 20000;

// False if the strategy needs even shards and the axis does not divide a cut dim.
bool divides_evenly(const Strategy& strategy, int64_t axis_size, const OpCall& call) {
  if (strategy.cut != ShardLayout::even) return true;
  for (size_t i = 0; i < strategy.inputs.size(); ++i)
    if (strategy.inputs[i].is_shard() &&
        call.inputs[i].shape[strategy.inputs[i].shard().dim] % axis_size != 0)
      return false;
  return true;
}

Strategy all_replicated(size_t inputs, size_t outputs) {
  return {std::vector<Placement>(inputs, R()), std::vector<Placement>(outputs, R())};
}

// True if an input that has `now` on this axis, of more than one rank, becomes a partial one: it is
// cut there, or no input has partials there.
bool makes_partial(const Placement& now, const Placement& wanted, int axis,
                   const std::vector<PlacedValue>& inputs) {
  if (!wanted.is_partial() || now.is_partial()) return false;
  return now.is_shard() || std::none_of(inputs.begin(), inputs.end(), [&](const PlacedValue& one) {
           return one.spec && one.spec->placement(axis).is_partial();
         });
}

bool makes_partials(const Strategy& strategy, int axis, const std::vector<PlacedValue>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].spec &&
        makes_partial(inputs[i].spec->placement(axis), strategy.inputs[i], axis, inputs))
      return true;
  return false;
}

bool makes_partials(const PartitionedCall& choice, const Mesh& mesh,
                    const std::vector<PlacedValue>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].spec || !choice.inputs[i]) continue;
    for (int axis = 0; axis < mesh.axis_count(); ++axis)
      if (mesh.axis_size(axis) > 1 &&
          makes_partial(inputs[i].spec->placement(axis), choice.inputs[i]->placement(axis), axis,
                        inputs))
        return true;
  }
  return false;
}

bool is_met(const Strategy& strategy, int axis, const PlacedValue& input, size_t i) {
  const Placement& now = input.spec->placement(axis);
  const Placement& want = strategy.inputs[i];
  return now.is_shard() && want.is_shard() ? now.shard().dim == want.shard().dim : now == want;
}

// Returns the cost of changing the inputs to the placements of a strategy on an axis; 0 if they
// have them. A change from S or P counts twice as much as one from R, which is a local slice.
int distance_on_axis(const Strategy& strategy, int axis, const std::vector<PlacedValue>& inputs) {
  int away = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].spec) continue;
    if (!is_met(strategy, axis, inputs[i], i))
      away += inputs[i].spec->placement(axis).is_replicate() ? 1 : 2;
  }
  return away;
}

// Returns how many inputs do not meet a strategy on an axis, and their elements.
std::pair<int, int64_t> moved_on_axis(const Strategy& strategy, int axis,
                                      const std::vector<PlacedValue>& inputs) {
  std::pair<int, int64_t> moved;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].spec || is_met(strategy, axis, inputs[i], i)) continue;
    ++moved.first;
    moved.second += element_count(inputs[i].meta.shape);
  }
  return moved;
}

// False if a tensor would have partials of two reductions, other than sum with avg.
bool partials_agree(const std::vector<Placement>& placements) {
  const Partial* first = nullptr;
  for (const Placement& p : placements) {
    if (!p.is_partial()) continue;
    if (!first) {
      first = &p.partial();
      continue;
    }
    const auto linear = [](const Partial& q) {
      return q.reduction.op == ReduceOp::sum || q.reduction.op == ReduceOp::avg;
    };
    if (!(*first == p.partial()) && !(linear(*first) && linear(p.partial()))) return false;
  }
  return true;
}

bool contiguous_everywhere(const Spec& spec) {
  return std::all_of(spec.placements().begin(), spec.placements().end(),
                     [](const Placement& p) { return !p.is_shard() || p.shard().split == 1; });
}

bool chunked(const Spec& spec, int axis) {
  const Shard& cut = spec.placement(axis).shard();
  return cut.split == 1 && cut.sizes.empty() && spec.axes_of_dim(cut.dim).size() == 1;
}

bool equal_locals(const Spec& spec, int axis) {
  if (!spec.placement(axis).is_shard()) return true;
  const int dim = spec.placement(axis).shard().dim;
  const std::vector<int> axes = spec.axes_of_dim(dim);
  int64_t parts = 1;
  for (int a : axes) {
    if (!spec.placement(a).shard().sizes.empty()) return false;
    parts *= spec.mesh().axes()[static_cast<size_t>(a)].size * spec.placement(a).shard().split;
  }
  return spec.shape()[dim] % parts == 0;
}

// Sets the forms that the ranks execute under one pick per axis. Returns false if an input is cut
// in a way that its strategy does not accept.
bool set_forms(PartitionedCall& choice, const std::vector<const Strategy*>& picks,
               const OpRecord& op) {
  bool lowers = false;
  for (size_t axis = 0; axis < picks.size(); ++axis) {
    const Strategy& pick = *picks[axis];
    lowers = lowers || pick.form == LocalExecution::lower_to_ops;
    choice.sharded = choice.sharded || pick.form == LocalExecution::needs_shard_index;
    choice.per_rank_attrs = choice.per_rank_attrs || pick.form == LocalExecution::local_attrs;
    for (const std::optional<Spec>& spec : choice.inputs) {
      if (!spec || !spec->placement(static_cast<int>(axis)).is_shard()) continue;
      if (pick.cut == ShardLayout::contiguous && !contiguous_everywhere(*spec)) return false;
      if (pick.cut == ShardLayout::chunks && !chunked(*spec, static_cast<int>(axis))) return false;
      if (pick.cut == ShardLayout::even && !equal_locals(*spec, static_cast<int>(axis)))
        return false;
      const int dim = spec->placement(static_cast<int>(axis)).shard().dim;
      if (pick.blocks > 0 && !has_cuts_between_blocks(*spec, dim, pick.blocks)) return false;
    }
  }
  choice.form = lowers ? LocalExecution::lower_to_ops : LocalExecution::same_op;
  return !lowers || op.rule.lower;
}

// Returns the specs of the inputs with the axes of `mask` replicated. Returns nullopt if an axis of
// the mask is replicated already, if no input is cut, or if explicit sizes no longer fit.
std::optional<std::vector<Spec>> with_whole_axes(const OpCall& call,
                                                 const std::vector<PlacedValue>& inputs,
                                                 const Mesh& mesh, int64_t mask) {
  std::vector<Spec> specs;
  bool any_cut = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].spec) {
      specs.push_back(Spec::replicated(mesh, call.inputs[i].shape, call.inputs[i].dtype));
      continue;
    }
    std::vector<Placement> placements = inputs[i].spec->placements();
    for (size_t axis = 0; axis < placements.size(); ++axis) {
      Placement& p = placements[axis];
      any_cut = any_cut || p.is_shard();
      if (!(mask & (int64_t{1} << axis))) continue;
      if (p.is_replicate()) return std::nullopt;
      p = R();
    }
    try {
      specs.emplace_back(mesh, std::move(placements), inputs[i].spec->shape(),
                         inputs[i].spec->dtype(), inputs[i].spec->order());
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  if (!any_cut) return std::nullopt;
  return specs;
}

// All tensors get the same cut on an axis. Its split, sizes and order are those of the first input
// that already cuts the dim of the strategy on that axis.
std::optional<PartitionedCall> compose(const OpCall& call, const std::vector<TensorMeta>& outputs,
                                       const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                                       const std::vector<const Strategy*>& picks,
                                       const OpRecord& op) {
  PartitionedCall choice;
  choice.inputs.reserve(inputs.size());
  choice.outputs.reserve(outputs.size());
  std::vector<int> order;
  for (const PlacedValue& input : inputs)
    if (input.spec && order.empty() &&
        !std::is_sorted(input.spec->order().begin(), input.spec->order().end()))
      order = input.spec->order();
  std::vector<Shard> cuts(picks.size());
  for (size_t axis = 0; axis < picks.size(); ++axis)
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].spec || !picks[axis]->inputs[i].is_shard()) continue;
      const Placement& now = inputs[i].spec->placement(static_cast<int>(axis));
      if (now.is_shard(picks[axis]->inputs[i].shard().dim)) {
        cuts[axis] = now.shard();
        break;
      }
    }
  const auto with_cut = [&](const Placement& p, size_t axis) -> Placement {
    if (!p.is_shard()) return p;
    return Shard{p.shard().dim, cuts[axis].split, cuts[axis].sizes};
  };
  const auto spec_for = [&](const TensorMeta& meta,
                            const auto& placement_of) -> std::optional<Spec> {
    std::vector<Placement> placements;
    placements.reserve(picks.size());
    for (size_t axis = 0; axis < picks.size(); ++axis)
      placements.push_back(with_cut(placement_of(axis), axis));
    if (!partials_agree(placements)) return std::nullopt;
    try {
      return Spec(mesh, std::move(placements), meta.shape, meta.dtype, order);
    } catch (const Error&) {
      return std::nullopt;  // explicit sizes do not fit, or the dtype has no such reduction
    }
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].spec) {
      for (const Strategy* pick : picks)
        if (!pick->inputs[i].is_replicate()) return std::nullopt;
      choice.inputs.emplace_back();
      continue;
    }
    choice.inputs.push_back(spec_for(
        call.inputs[i], [&](size_t axis) -> const Placement& { return picks[axis]->inputs[i]; }));
    if (!choice.inputs.back()) return std::nullopt;
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    std::optional<Spec> spec = spec_for(
        outputs[o], [&](size_t axis) -> const Placement& { return picks[axis]->outputs[o]; });
    if (!spec) return std::nullopt;
    choice.outputs.push_back(std::move(*spec));
  }
  if (!set_forms(choice, picks, op)) return std::nullopt;
  return choice;
}

void joint_choices(const OpRecord& op, const OpCall& call, const std::vector<TensorMeta>& outputs,
                   const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                   const std::function<bool(PartitionedCall)>& visit) {
  const int axes = mesh.axis_count();
  for (int64_t mask = 0; mask < (int64_t{1} << std::min(axes, 12)); ++mask) {
    const std::optional<std::vector<Spec>> specs = with_whole_axes(call, inputs, mesh, mask);
    if (!specs) continue;
    const std::optional<std::vector<Spec>> result = op.rule.joint(call, outputs, *specs);
    if (!result) continue;
    PartitionedCall choice;
    for (size_t i = 0; i < inputs.size(); ++i)
      choice.inputs.push_back(inputs[i].spec ? std::optional<Spec>((*specs)[i]) : std::nullopt);
    choice.outputs = *result;
    choice.per_rank_attrs = op.rule.joint_form == LocalExecution::local_attrs;
    choice.sharded = op.rule.joint_form == LocalExecution::needs_shard_index;
    choice.form = op.rule.joint_form == LocalExecution::lower_to_ops ? LocalExecution::lower_to_ops
                                                                     : LocalExecution::same_op;
    if (!makes_partials(choice, mesh, inputs) && !visit(std::move(choice))) return;
  }
}

}  // namespace

std::optional<size_t> earlier_equal_input(const PartitionedCall& choice,
                                          const std::vector<PlacedValue>& inputs, size_t i) {
  for (size_t k = 0; k < i; ++k)
    if (inputs[k].spec && inputs[k].id == inputs[i].id && choice.inputs[k] == choice.inputs[i])
      return k;
  return std::nullopt;
}

namespace {

bool is_zero(const Number& number) {
  return number.is_integer() ? number.integer() == 0 : number.is_double() && number.real() == 0;
}

// Returns the call that is passed to the rule of an op, with its numbers. The number 0 becomes a
// tensor, because parts of a sum may be divided by any other number.
OpCall call_for_rule(const OpCall& call, const std::vector<PlacedValue>& inputs) {
  OpCall result = call;
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.numbers.push_back(inputs[i].number ? &*inputs[i].number : nullptr);
    if (inputs[i].number && is_zero(*inputs[i].number)) result.inputs[i].weak = false;
  }
  return result;
}

bool is_single(const Mesh& mesh, size_t axis) { return mesh.axes()[axis].size == 1; }

// Returns the strategies of each axis, nearest to the inputs first. If there are too many
// combinations, those farthest from the inputs are dropped. Then those that make partials are.
std::vector<std::vector<Strategy>> strategies_by_axis(const OpRecord& op, const OpCall& call,
                                                      const std::vector<TensorMeta>& outputs,
                                                      const std::vector<PlacedValue>& inputs,
                                                      const Mesh& mesh) {
  const OpCall rule_call = call_for_rule(call, inputs);
  std::vector<std::vector<Strategy>> options(static_cast<size_t>(mesh.axis_count()));
  int64_t combinations = 1;
  for (size_t axis = 0; axis < options.size(); ++axis) {
    const int64_t size = mesh.axes()[axis].size;
    std::vector<Strategy>& list = options[axis];
    list.push_back(all_replicated(inputs.size(), outputs.size()));
    if (op.rule.strategies)
      for (Strategy& strategy : op.rule.strategies(rule_call, outputs, size))
        if (divides_evenly(strategy, size, call)) list.push_back(std::move(strategy));
    std::stable_sort(list.begin(), list.end(), [&](const Strategy& a, const Strategy& b) {
      return distance_on_axis(a, static_cast<int>(axis), inputs) <
             distance_on_axis(b, static_cast<int>(axis), inputs);
    });
    if (!is_single(mesh, axis)) {
      combinations *= static_cast<int64_t>(list.size());
    } else {
      std::iter_swap(
          list.begin(),
          std::min_element(list.begin(), list.end(), [&](const Strategy& a, const Strategy& b) {
            return moved_on_axis(a, static_cast<int>(axis), inputs) <
                   moved_on_axis(b, static_cast<int>(axis), inputs);
          }));
    }
  }
  while (combinations > kMaxCombinations)
    for (size_t axis = 0; axis < options.size(); ++axis) {
      std::vector<Strategy>& list = options[axis];
      if (list.size() <= 2 || combinations <= kMaxCombinations || is_single(mesh, axis)) continue;
      combinations =
          combinations / static_cast<int64_t>(list.size()) * static_cast<int64_t>(list.size() - 1);
      list.pop_back();
    }
  for (size_t axis = 0; axis < options.size(); ++axis)
    if (!is_single(mesh, axis))
      std::erase_if(options[axis], [&](const Strategy& strategy) {
        return makes_partials(strategy, static_cast<int>(axis), inputs);
      });
  return options;
}

// Picks a strategy on all axes of one rank. Returns false if there are none.
bool pick_on_single_axes(const Strategy& strategy, const Mesh& mesh,
                         std::vector<const Strategy*>& picks) {
  bool any = false;
  for (size_t axis = 0; axis < picks.size(); ++axis) {
    if (!is_single(mesh, axis)) continue;
    picks[axis] = &strategy;
    any = true;
  }
  return any;
}

}  // namespace

void visit_choices(const OpRecord& op, const OpCall& call, const std::vector<TensorMeta>& outputs,
                   const std::vector<PlacedValue>& inputs, const Mesh& mesh, SingleAxes single,
                   const std::function<bool(PartitionedCall)>& visit) {
  const size_t axes = static_cast<size_t>(mesh.axis_count());
  const std::vector<std::vector<Strategy>> options =
      strategies_by_axis(op, call, outputs, inputs, mesh);
  const Strategy whole = all_replicated(inputs.size(), outputs.size());
  std::vector<size_t> at(axes, 0), count;  // count: strategies that are tried on each axis
  for (size_t axis = 0; axis < axes; ++axis)
    count.push_back(is_single(mesh, axis) ? 1 : options[axis].size());
  for (bool more = std::find(count.begin(), count.end(), 0u) == count.end(); more;) {
    std::vector<const Strategy*> picks;
    picks.reserve(axes);
    for (size_t axis = 0; axis < axes; ++axis) picks.push_back(&options[axis][at[axis]]);
    if (single == SingleAxes::whole) pick_on_single_axes(whole, mesh, picks);
    std::optional<PartitionedCall> choice = compose(call, outputs, inputs, mesh, picks, op);
    if (!choice && pick_on_single_axes(whole, mesh, picks))
      choice = compose(call, outputs, inputs, mesh, picks, op);
    if (choice && !visit(std::move(*choice))) return;
    more = false;
    for (size_t axis = axes; axis-- > 0;) {
      if (++at[axis] < count[axis]) {
        more = true;
        break;
      }
      at[axis] = 0;
    }
  }
  if (op.rule.joint) joint_choices(op, call, outputs, inputs, mesh, visit);
}

}  // namespace shardproof
