// Implements the emission of partitioner.h: values, instructions, steps of plans, and ops with
// chosen placements. mark() and rollback() undo a trial.
//
// Example: x of shape [8] as tp:S(0) on tp=4 becomes R. The plan has one step, an all_gather over
// tp, so redistribute() emits
//
//   _1 = Communicate{all_gather, group tp, count 2}   on ranks 0-3
//
// If the author did not write the redistribution, partitioner_unwritten.cpp reports it.
#include <algorithm>

#include "shardproof/engine/lower/per_rank_number.h"
#include "shardproof/engine/partition/partitioner.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/known_plans.h"

namespace shardproof {
namespace {

// Returns the shape that all ranks hold; nullopt if some cut may give shards of different sizes.
std::optional<Dims> shape_of_all(const Spec& spec) {
  Dims shape = spec.shape();
  for (const int axis : spec.order()) {
    if (!spec.placement(axis).is_shard()) continue;
    const Shard& cut = spec.placement(axis).shard();
    const int64_t size = spec.mesh().axis_size(axis);
    int64_t& extent = shape[cut.dim];
    if (!cut.sizes.empty() || extent % (size * cut.split) != 0) return std::nullopt;
    extent /= size;
  }
  return shape;
}

}  // namespace

Partitioner::Checkpoint Partitioner::mark() const {
  return {result_.program.values.size(), result_.program.listings[0].instrs.size(),
          result_.unwritten.size(), spent_};
}

void Partitioner::rollback(const Checkpoint& mark) {
  result_.program.values.resize(mark.values);
  Instrs& instrs = result_.program.listings[0].instrs;
  instrs.erase(instrs.begin() + static_cast<std::ptrdiff_t>(mark.instrs), instrs.end());
  result_.unwritten.resize(mark.unwritten);
  spent_ = mark.spent;
}

Instr& Partitioner::add(Action action, const Lanes& lanes) {
  Instr& instr = result_.program.listings[0].instrs.emplace_back();
  instr.lanes = lanes;
  instr.action = std::move(action);
  instr.origin = origin_;
  return instr;
}

const LocalShapes& Partitioner::shapes_of(const Spec& spec) {
  const uint64_t hash = hash_of(spec);
  const auto [first, last] = shapes_.equal_range(hash);
  for (auto at = first; at != last; ++at)
    if (at->second.first == spec) return at->second.second;
  std::vector<LocalShape> shapes;
  std::map<Dims, std::vector<int32_t>> by_shape;
  const Lanes ranks = spec.mesh().ranks();
  if (const std::optional<Dims> shape = shape_of_all(spec)) {
    shapes.push_back({ranks, *shape});
  } else {
    for (int64_t i = 0; i < ranks.size(); ++i)
      by_shape[spec.local_shape(ranks[i])].push_back(ranks[i]);
    for (auto& [shape, list] : by_shape) shapes.push_back({Lanes::of(std::move(list)), shape});
  }
  return shapes_.emplace(hash, std::pair(spec, LocalShapes(std::move(shapes))))->second.second;
}

ValueId Partitioner::add_value(DType dtype, const Spec& spec, Category category) {
  SpmdValue value;
  value.dtype = dtype;
  value.shapes = shapes_of(spec);
  value.spec = spec;
  value.category = category;
  value.origin = origin_;
  value.name = "_" + std::to_string(result_.program.values.size());
  result_.program.values.push_back(std::move(value));
  return static_cast<ValueId>(result_.program.values.size() - 1);
}

ValueId Partitioner::materialize(const PlacedValue& number) {
  const Number& n = *number.number;
  NumberValue made;
  const Spec spec = Spec::replicated(*mesh_, Dims{}, dtype_of(n));
  made.output = add_value(spec.dtype(), spec, Category::activations);
  SpmdValue& value = result_.program.values[static_cast<size_t>(made.output)];
  value.weak = true;
  value.spec.reset();
  value.shapes = {{Lanes::range(0, job_.world), Dims{}}};
  if (n.is_double())
    made.values = {n.real()};
  else
    made.integers = {n.is_bool() ? int64_t{n.truth()} : n.integer()};
  const ValueId id = made.output;
  add(std::move(made), Lanes::range(0, job_.world));
  return id;
}

PlacedValue Partitioner::number(Number value) {
  PlacedValue placed;
  placed.meta = {dtype_of(value), Dims{}, true, false};
  placed.number = std::move(value);
  return placed;
}

void Partitioner::emit_transfer(const PlacedValue& value, const PlannedStep& planned,
                                ValueId output) {
  const PlanStep& step = *planned.step;
  Communicate group;
  CallItem item;
  item.lanes = step.from.mesh().ranks().unite(step.to.mesh().ranks());
  item.input = value.id;
  item.output = output;
  item.step = planned.step;
  item.origin = origin_;
  group.items.push_back(std::move(item));
  const Lanes lanes = group.items[0].lanes;
  add(std::move(group), lanes);
}

PlacedValue Partitioner::emit_step(PlacedValue value, const PlannedStep& planned) {
  const PlanStep& step = *planned.step;
  const bool local = step.kind == StepKind::local;
  const ValueId made =
      add_value(step.to.dtype(), step.to, local ? Category::activations : Category::communication);
  spent_ = spent_ + planned.price;
  const Lanes lanes = step.from.mesh().ranks();
  if (step.kind == StepKind::transfer) {
    emit_transfer(value, planned, made);
  } else if (local) {
    add(Reshuffle{value.id, made, planned.step}, lanes);
  } else {
    Communicate calls{planned.calls};
    for (CallItem& item : calls.items) {
      item.input = value.id;
      item.output = made;
      item.origin = origin_;
    }
    add(std::move(calls), lanes);
  }
  value.id = made;
  value.spec = step.to;
  return value;
}

PlacedValue Partitioner::redistribute(const PlacedValue& value, const Spec& to, bool written,
                                      std::optional<int64_t> peak_limit) {
  if (*value.spec == to) return value;
  std::optional<Plan> limited;
  if (peak_limit) limited = plans_.plan_with_limit(*value.spec, to, *peak_limit);
  const std::vector<PlannedStep> own =
      limited ? plans_.steps_of(*limited) : std::vector<PlannedStep>();
  PlacedValue now = value;
  int64_t calls = 0;
  for (const PlannedStep& planned : limited ? own : plans_.steps(*value.spec, to)) {
    calls += planned.step->kind == StepKind::local ? 0 : 1;
    now = emit_step(std::move(now), planned);
  }
  if (!written && calls > 0)
    note_unwritten(value, to, limited ? *limited : plans_.plan(*value.spec, to).plan());
  now.spec = to;
  return now;
}

std::vector<PlacedValue> Partitioner::emit_choice(const OpRecord& op, const OpCall& call,
                                                  const std::vector<TensorMeta>& outputs,
                                                  std::vector<PlacedValue> inputs,
                                                  const PartitionedCall& choice) {
  const std::vector<PlacedValue> given = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].spec || !choice.inputs[i]) continue;
    const std::optional<size_t> before = earlier_equal_input(choice, given, i);
    inputs[i] = before ? inputs[*before] : redistribute(inputs[i], *choice.inputs[i], false);
  }
  std::vector<Spec> specs;
  for (size_t i = 0; i < inputs.size(); ++i)
    specs.push_back(inputs[i].spec ? *inputs[i].spec
                                   : Spec::replicated(choice.outputs[0].mesh(),
                                                      call.inputs[i].shape, call.inputs[i].dtype));
  if (choice.form == LocalExecution::lower_to_ops) return apply_rule(op, call, specs, inputs);
  const Lanes lanes = choice.outputs.at(0).mesh().ranks();
  Compute compute;
  compute.op = op.name;
  for (PlacedValue& input : inputs) {
    if (input.number) input.id = materialize(input);
    compute.inputs.push_back(input.meta.absent ? kNoValue : input.id);
  }
  if (choice.per_rank_attrs && op.rule.local_attrs) {
    for (int64_t i = 0; i < lanes.size(); ++i) {
      Attrs attrs = op.rule.local_attrs(call, specs, choice.outputs, lanes[i]);
      const auto same = std::find_if(compute.attrs.begin(), compute.attrs.end(),
                                     [&](const LaneAttrs& entry) { return entry.attrs == attrs; });
      if (same == compute.attrs.end())
        compute.attrs.push_back({Lanes::one(lanes[i]), std::move(attrs)});
      else
        same->lanes = same->lanes.unite(Lanes::one(lanes[i]));
    }
  } else {
    compute.attrs = {{lanes, *call.attrs}};
  }
  if (choice.sharded) compute.specs = ShardSpecs{specs, choice.outputs};
  std::vector<PlacedValue> results;
  for (size_t o = 0; o < outputs.size(); ++o) {
    PlacedValue placed;
    placed.id = add_value(outputs[o].dtype, choice.outputs[o], Category::activations);
    placed.meta = outputs[o];
    placed.spec = choice.outputs[o];
    compute.outputs.push_back(placed.id);
    results.push_back(std::move(placed));
  }
  add(std::move(compute), lanes);
  return results;
}

}  // namespace shardproof
