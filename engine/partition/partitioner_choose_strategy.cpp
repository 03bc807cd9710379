#include <algorithm>
#include <tuple>
#include <utility>

#include "shardproof/engine/partition/partitioner.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int64_t kMaxCombinations = 20000;

bool same_cut_free(const Strategy& strategy, int64_t axis_size, const OpCall& call) {
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

// How much of a strategy the inputs already meet on an axis: 0 is all of it.
int distance(const Strategy& strategy, int axis, const std::vector<PlacedValue>& inputs) {
  int away = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].spec) continue;
    const Placement& now = inputs[i].spec->placement(axis);
    const Placement& want = strategy.inputs[i];
    const bool met =
        now.is_shard() && want.is_shard() ? now.shard().dim == want.shard().dim : now == want;
    if (!met) away += now.is_replicate() ? 1 : 2;
  }
  return away;
}

// Partials of the outputs may not mix, except sum with avg.
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

// Partials are never made behind the author's back of what is cut, nor on an axis where no input
// has any, though it may save bytes: the price comes with the next line.
bool makes_partials(const PartitionedCall& choice, const std::vector<PlacedValue>& inputs) {
  const auto has_partials = [](const PlacedValue& input, int axis) {
    return input.spec && input.spec->placement(axis).is_partial();
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].spec || !choice.inputs[i]) continue;
    for (int axis = 0; axis < inputs[i].spec->mesh().axis_count(); ++axis) {
      if (!choice.inputs[i]->placement(axis).is_partial() || has_partials(inputs[i], axis) ||
          inputs[i].spec->mesh().axes()[static_cast<size_t>(axis)].size == 1)
        continue;
      if (inputs[i].spec->placement(axis).is_shard()) return true;
      if (std::none_of(inputs.begin(), inputs.end(),
                       [&](const PlacedValue& other) { return has_partials(other, axis); }))
        return true;
    }
  }
  return false;
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

// What the ranks run under one pick per axis; false where a cut is not one the strategies take.
bool judge_forms(PartitionedCall& choice, const std::vector<const Strategy*>& picks,
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
      if (pick.blocks > 0 && !cuts_between_blocks(*spec, dim, pick.blocks)) return false;
    }
  }
  choice.form = lowers ? LocalExecution::lower_to_ops : LocalExecution::same_op;
  return !lowers || op.rule.lower;
}

// The inputs as they lie, with the axes of `mask` whole; nullopt where that changes nothing, leaves
// nothing cut, or leaves no extent that explicit sizes fit.
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

}  // namespace

std::optional<size_t> moved_before(const PartitionedCall& choice,
                                   const std::vector<PlacedValue>& inputs, size_t i) {
  for (size_t k = 0; k < i; ++k)
    if (inputs[k].spec && inputs[k].id == inputs[i].id && choice.inputs[k] == choice.inputs[i])
      return k;
  return std::nullopt;
}

// The specs that one pick per axis asks for. The same cut of a factor goes on every tensor that has
// it: its split, sizes and order are taken from the first input that already cuts the dim on that
// axis.
std::optional<PartitionedCall> Partitioner::compose(const OpCall& call,
                                                    const std::vector<TensorMeta>& outputs,
                                                    const std::vector<PlacedValue>& inputs,
                                                    const Mesh& mesh,
                                                    const std::vector<const Strategy*>& picks,
                                                    const OpRecord& op) {
  PartitionedCall choice;
  std::vector<int> order;
  for (const PlacedValue& input : inputs)
    if (input.spec && order.empty() &&
        input.spec->order() != Spec::replicated(mesh, {}, DType::f32).order())
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
  const auto with_cut = [&](Placement p, size_t axis) -> Placement {
    if (!p.is_shard()) return p;
    return Shard{p.shard().dim, cuts[axis].split, cuts[axis].sizes};
  };
  const auto spec_for = [&](const TensorMeta& meta, auto placement_of) -> std::optional<Spec> {
    std::vector<Placement> placements;
    for (size_t axis = 0; axis < picks.size(); ++axis)
      placements.push_back(with_cut(placement_of(axis), axis));
    if (!partials_agree(placements)) return std::nullopt;
    try {
      return Spec(mesh, std::move(placements), meta.shape, meta.dtype, order);
    } catch (const Error&) {
      return std::nullopt;  // explicit sizes that do not fit this tensor, a reduction its dtype
                            // cannot do
    }
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].spec) {
      for (const Strategy* pick : picks)
        if (!pick->inputs[i].is_replicate()) return std::nullopt;
      choice.inputs.emplace_back();
      continue;
    }
    choice.inputs.push_back(
        spec_for(call.inputs[i], [&](size_t axis) { return picks[axis]->inputs[i]; }));
    if (!choice.inputs.back()) return std::nullopt;
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    std::optional<Spec> spec =
        spec_for(outputs[o], [&](size_t axis) { return picks[axis]->outputs[o]; });
    if (!spec) return std::nullopt;
    choice.outputs.push_back(*spec);
  }
  if (!judge_forms(choice, picks, op)) return std::nullopt;
  return choice;
}

// Reshape and its kin: the inputs as they lie, or with some axes whole, judged by exact ownership.
void Partitioner::joint_choices(const OpRecord& op, const OpCall& call,
                                const std::vector<TensorMeta>& outputs,
                                const std::vector<PlacedValue>& inputs, const Mesh& mesh,
                                std::vector<PartitionedCall>& into) {
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
    into.push_back(std::move(choice));
  }
}

std::vector<PartitionedCall> Partitioner::choices(const OpRecord& op, const OpCall& call,
                                                  const std::vector<TensorMeta>& outputs,
                                                  const std::vector<PlacedValue>& inputs,
                                                  const Mesh& mesh) {
  const size_t axes = static_cast<size_t>(mesh.axis_count());
  std::vector<std::vector<Strategy>> options(axes);
  int64_t combinations = 1;
  for (size_t axis = 0; axis < axes; ++axis) {
    const int64_t size = mesh.axes()[axis].size;
    std::vector<Strategy>& list = options[axis];
    list.push_back(all_replicated(inputs.size(), outputs.size()));
    if (op.rule.strategies)
      for (Strategy& strategy : op.rule.strategies(call, outputs, size))
        if (same_cut_free(strategy, size, call)) list.push_back(std::move(strategy));
    std::stable_sort(list.begin(), list.end(), [&](const Strategy& a, const Strategy& b) {
      return distance(a, static_cast<int>(axis), inputs) <
             distance(b, static_cast<int>(axis), inputs);
    });
    combinations *= static_cast<int64_t>(list.size());
  }
  // On many axes only the strategies nearest to what lies there are tried.
  while (combinations > kMaxCombinations)
    for (std::vector<Strategy>& list : options)
      if (list.size() > 2 && combinations > kMaxCombinations) {
        combinations = combinations / static_cast<int64_t>(list.size()) *
                       static_cast<int64_t>(list.size() - 1);
        list.pop_back();
      }
  std::vector<PartitionedCall> result;
  std::vector<size_t> at(axes, 0);
  for (bool more = true; more;) {
    std::vector<const Strategy*> picks;
    for (size_t axis = 0; axis < axes; ++axis) picks.push_back(&options[axis][at[axis]]);
    if (std::optional<PartitionedCall> choice = compose(call, outputs, inputs, mesh, picks, op))
      result.push_back(std::move(*choice));
    more = false;
    for (size_t axis = axes; axis-- > 0;) {
      if (++at[axis] < options[axis].size()) {
        more = true;
        break;
      }
      at[axis] = 0;
    }
  }
  if (op.rule.joint) joint_choices(op, call, outputs, inputs, mesh, result);
  return result;
}

const PlannerResult& Partitioner::plan(const Spec& from, const Spec& to) {
  for (const auto& [key, known] : plans_)
    if (key.first == from && key.second == to) return known;
  PlannerOptions options;
  options.price = options_.price;
  plans_.emplace_back(std::make_pair(from, to), plan_redistribution(from, to, options));
  return plans_.back().second;
}

// nullptr when every plan costs more than that; such a result is not kept.
const PlannerResult* Partitioner::plan_within(const Spec& from, const Spec& to,
                                              const std::optional<Price>& at_most) {
  if (!at_most) return &plan(from, to);
  for (const auto& [key, known] : plans_)
    if (key.first == from && key.second == to) return &known;
  PlannerOptions options;
  options.price = options_.price;
  options.at_most = at_most;
  PlannerResult result = plan_redistribution(from, to, options);
  if (result.gave_up) return nullptr;
  plans_.emplace_back(std::make_pair(from, to), std::move(result));
  return &plans_.back().second;
}

std::optional<Price> Partitioner::price_of_inputs(const PartitionedCall& choice,
                                                  const std::vector<PlacedValue>& inputs,
                                                  const std::optional<Price>& at_most,
                                                  int& changed) {
  Price total;
  changed = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!choice.inputs[i] || !inputs[i].spec || *choice.inputs[i] == *inputs[i].spec) continue;
    if (moved_before(choice, inputs, i)) continue;
    std::optional<Price> rest = at_most;
    // A price of equal worth must not be lost to rounding.
    if (rest) rest->primary = rest->primary * (1 + 1e-12) - total.primary;
    if (rest && rest->primary < 0) return std::nullopt;
    const PlannerResult* found = plan_within(*inputs[i].spec, *choice.inputs[i], rest);
    if (!found) return std::nullopt;
    total = total + found->price;
    ++changed;
  }
  return total;
}

// What is written in an op's place is known only when it is written: it is, and taken back.
Price Partitioner::price_of_lowering(const OpRecord& op, const OpCall& call,
                                     const std::vector<TensorMeta>& outputs,
                                     const std::vector<PlacedValue>& inputs,
                                     const PartitionedCall& choice) {
  const Checkpoint start = mark();
  const bool outer = std::exchange(quiet_, true);
  std::optional<Error> refused;
  try {
    emit_choice(op, call, outputs, inputs, choice);
  } catch (const Error& error) {
    refused = error;
  }
  Price price = spent_;
  quiet_ = outer;
  rollback(start);
  if (refused) throw Error(*refused);
  price.primary -= start.spent.primary;
  price.calls -= start.spent.calls;
  return price;
}

std::vector<PlacedValue> Partitioner::emit_op(const OpRecord& op, const Attrs& attrs,
                                              const std::vector<PlacedValue>& inputs) {
  const Mesh& mesh = mesh_of(inputs);
  OpCall call{&attrs, {}};
  for (const PlacedValue& input : inputs) call.inputs.push_back(input.meta);
  const std::vector<TensorMeta> outputs = op.infer(call);
  std::vector<PartitionedCall> all = choices(op, call, outputs, inputs, mesh);
  const PartitionedCall* best = nullptr;
  std::tuple<Price, int> least;
  for (const PartitionedCall& choice : all) {
    if (makes_partials(choice, inputs)) continue;
    std::tuple<Price, int> price;
    try {
      const std::optional<Price> limit =
          best ? std::optional<Price>(std::get<0>(least)) : std::nullopt;
      const std::optional<Price> moving =
          price_of_inputs(choice, inputs, limit, std::get<1>(price));
      if (!moving) continue;
      std::get<0>(price) = *moving;
      if (best && std::get<0>(price) >= std::get<0>(least) &&
          choice.form == LocalExecution::lower_to_ops)
        continue;
      if (choice.form == LocalExecution::lower_to_ops)
        std::get<0>(price) = price_of_lowering(op, call, outputs, inputs, choice);
    } catch (const Error&) {
      continue;  // no plan to these placements, or a lowering that refuses them
    }
    if (best && price >= least) continue;
    best = &choice;
    least = price;
    if (least == std::tuple<Price, int>()) break;  // nothing is less than nothing
  }
  if (!best) throw_bad_input("{} has no legal placements for its inputs", op.name);
  return emit_choice(op, call, outputs, inputs, *best);
}

const Mesh& Partitioner::default_mesh() const { return job_.meshes.at(0).second; }

const Mesh& Partitioner::mesh_of(const std::vector<PlacedValue>& inputs) const {
  const PlacedValue* first = nullptr;
  for (const PlacedValue& input : inputs) {
    if (!input.mesh()) continue;
    if (!first) first = &input;
    if (!(*first->mesh() == *input.mesh()))
      throw_bad_input("{} and {} lie on two meshes; bring one over with redistribute(x, mesh=..)",
                      first->name.empty() ? "the inputs" : first->name,
                      input.name.empty() ? "another input" : input.name);
  }
  return first ? *first->mesh() : default_mesh();
}

}  // namespace shardproof
