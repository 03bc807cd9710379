// Implements lower_by_rules.h.
#include "shardproof/engine/check_ops/lower_by_rules.h"

#include <map>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

// Returns the shard of an axis, from any input that it shards.
std::optional<Shard> cut_on_axis(const std::vector<Spec>& inputs, int axis) {
  for (const Spec& spec : inputs)
    if (spec.placement(axis).is_shard()) return spec.placement(axis).shard();
  return std::nullopt;
}

bool takes(const Strategy& strategy, const std::vector<Spec>& inputs, int axis) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Placement& have = inputs[i].placement(axis);
    const Placement& want = strategy.inputs[i];
    if (want.is_shard() ? !have.is_shard(want.shard().dim) : !(have == want)) return false;
  }
  return true;
}

bool cut_is_legal(const Strategy& strategy, const Spec& spec, int dim) {
  const ShardLayout cut = strategy.cut;
  if (strategy.blocks > 0 && !has_cuts_between_blocks(spec, dim, strategy.blocks)) return false;
  if (cut == ShardLayout::any) return true;
  if (cut == ShardLayout::chunks) {
    const std::vector<int> axes = spec.axes_of_dim(dim);
    const Shard& shard = spec.placement(axes.at(0)).shard();
    return axes.size() == 1 && shard.split == 1 && shard.sizes.empty();
  }
  const Lanes ranks = spec.mesh().ranks();
  const int64_t first = length(spec.owned(ranks[0], dim));
  for (int64_t i = 0; i < ranks.size(); ++i) {
    const Runs runs = spec.owned(ranks[i], dim);
    if (cut == ShardLayout::contiguous && runs.size() > 1) return false;
    if (cut == ShardLayout::even && length(runs) != first) return false;
  }
  return true;
}

}  // namespace

std::optional<Placed> place(const std::vector<TensorMeta>& outputs, const std::vector<Spec>& inputs,
                            const std::vector<const Strategy*>& per_axis) {
  Placed placed;
  std::vector<std::vector<Placement>> placements(outputs.size());
  for (size_t axis = 0; axis < per_axis.size(); ++axis) {
    const Strategy* strategy = per_axis[axis];
    for (std::vector<Placement>& list : placements) list.push_back(R());
    if (!strategy) continue;
    const auto cut = cut_on_axis(inputs, static_cast<int>(axis));
    for (size_t i = 0; i < outputs.size(); ++i) {
      placements[i][axis] = strategy->outputs[i];
      if (!strategy->outputs[i].is_shard() || !cut) continue;
      placements[i][axis] = Shard{strategy->outputs[i].shard().dim, cut->split, cut->sizes};
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (strategy->inputs[i].is_shard() &&
          !cut_is_legal(*strategy, inputs[i], strategy->inputs[i].shard().dim))
        return std::nullopt;
    placed.rank_attrs = placed.rank_attrs || strategy->form == LocalExecution::local_attrs;
    placed.shard_info = placed.shard_info || strategy->form == LocalExecution::needs_shard_index;
    placed.lower = placed.lower || strategy->form == LocalExecution::lower_to_ops;
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    placed.outputs.emplace_back(inputs.front().mesh(), placements[i], outputs[i].shape,
                                outputs[i].dtype);
  return placed;
}

std::optional<Placed> place_without_redistribution(const OpRecord& record, const OpCall& call,
                                                   const std::vector<TensorMeta>& outputs,
                                                   const std::vector<Spec>& inputs) {
  if (record.rule.joint) {
    if (auto specs = record.rule.joint(call, outputs, inputs)) {
      const LocalExecution form = record.rule.joint_form;
      return Placed{*specs, form == LocalExecution::local_attrs,
                    form == LocalExecution::needs_shard_index,
                    form == LocalExecution::lower_to_ops};
    }
  }
  const Mesh& mesh = inputs.front().mesh();
  std::map<int64_t, std::vector<Strategy>> rules;  // by axis size
  std::vector<const Strategy*> chosen;
  Strategy whole;
  whole.inputs.assign(inputs.size(), R());
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    if (takes(whole, inputs, axis)) {
      chosen.push_back(nullptr);
      continue;
    }
    const int64_t size = mesh.axes()[static_cast<size_t>(axis)].size;
    const auto [known, added] = rules.try_emplace(size);
    if (added) known->second = record.rule.strategies(call, outputs, size);
    const Strategy* found = nullptr;
    for (const Strategy& strategy : known->second) {
      if (found || !takes(strategy, inputs, axis)) continue;
      std::vector<const Strategy*> alone(static_cast<size_t>(mesh.axis_count()), nullptr);
      alone[static_cast<size_t>(axis)] = &strategy;
      if (place(outputs, inputs, alone)) found = &strategy;
    }
    if (!found) return std::nullopt;
    chosen.push_back(found);
  }
  return place(outputs, inputs, chosen);
}

LowerByRules::LowerByRules(const OpRegistry& ops, Mesh mesh, std::vector<Value> inputs)
    : ops_(ops), mesh_(std::move(mesh)), values_(inputs.begin(), inputs.end()) {}

int LowerByRules::add(Value value) {
  values_.push_back(std::move(value));
  return static_cast<int>(values_.size()) - 1;
}

std::vector<int> LowerByRules::ops(const std::string& name, Attrs attrs, std::vector<int> inputs) {
  const OpRecord& record = ops_.at(name);
  const Attrs all = with_fallbacks(record, std::move(attrs));
  LocalCall local;
  local.record = &record;
  local.attrs = &all;
  for (const int i : inputs) {
    local.metas.push_back(i < 0 ? TensorMeta{DType::f32, {}, false, true} : at(i).meta);
    local.inputs.push_back(i < 0 ? nullptr : &at(i).parts);
    local.input_specs.push_back(i < 0 ? Spec::replicated(mesh_, {}, DType::f32) : at(i).spec);
  }
  const OpCall call{&all, local.metas};
  const std::vector<TensorMeta> outputs = record.infer(call);
  auto placed = place_without_redistribution(record, call, outputs, local.input_specs);
  if (!placed) {
    // The partitioner redistributes such inputs. Example: a cut dim of size 1 meets a replicated
    // one.
    replicated_ = true;
    std::vector<int> whole;
    for (const int i : inputs) {
      if (i < 0) {
        whole.push_back(i);
        continue;
      }
      whole.push_back(
          redistribute(i, std::vector<Placement>(static_cast<size_t>(mesh_.axis_count()), R())));
    }
    if (!is_replicated(inputs)) return this->ops(name, all, whole);
    throw_bad_input("lowering: {}({}) takes no replicated inputs", name, to_string(all));
  }
  local.output_specs = placed->outputs;
  local.rank_attrs = placed->rank_attrs;
  local.shard_info = placed->shard_info;
  std::vector<int> made;
  if (placed->lower) {
    std::vector<Value> values;
    for (const int i : inputs) values.push_back(at(i));
    LowerByRules inner(ops_, mesh_, std::move(values));
    for (const int handle : record.rule.lower(call, local.input_specs, inner))
      made.push_back(add({inner.meta(handle), inner.spec(handle), inner.parts(handle)}));
    replicated_ = replicated_ || inner.replicated_;
    return made;
  }
  const std::vector<LocalTensor> results = run_local(local);
  for (size_t i = 0; i < results.size(); ++i)
    made.push_back(add({outputs[i], placed->outputs[i], results[i]}));
  return made;
}

bool LowerByRules::is_replicated(const std::vector<int>& inputs) {
  for (const int i : inputs)
    if (i >= 0 && !at(i).spec.is_replicated()) return false;
  return true;
}

int LowerByRules::number(Number value) {
  const DType dtype = value.is_double() ? DType::f64 : DType::i64;
  Value made;
  made.meta = {dtype, {}, true, false};
  made.spec = Spec::replicated(mesh_, {}, dtype);
  made.parts = split(tensor_of(dtype, {}, {value.real()}), made.spec);
  return add(std::move(made));
}

int LowerByRules::redistribute(int value, const std::vector<Placement>& placements) {
  Value made{
      at(value).meta, Spec(mesh_, placements, at(value).spec.shape(), at(value).spec.dtype()), {}};
  made.parts = split(assemble(at(value).parts, at(value).spec), made.spec);
  return add(std::move(made));
}

int LowerByRules::replicate_partials(int value) {
  std::vector<Placement> placements = at(value).spec.placements();
  for (Placement& placement : placements)
    if (placement.is_partial()) placement = R();
  return redistribute(value, placements);
}

}  // namespace shardproof
