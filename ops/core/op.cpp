// Implements ops/core/op.h: the record's defaults and the registry.
#include "shardproof/ops/core/op.h"

#include <utility>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

bool fits(const Placement& placement, const TensorMeta& meta) {
  if (meta.absent || meta.weak) return placement.is_replicate();
  if (placement.is_shard()) return placement.shard().dim < meta.shape.size();
  return !placement.is_partial() ||
         is_reduction_allowed(placement.partial().reduction.op, meta.dtype);
}

bool fits(const std::vector<Placement>& placements, const std::vector<TensorMeta>& metas) {
  SP_CHECK(placements.size() == metas.size(), "a strategy has {} placements for {} tensors",
           placements.size(), metas.size());
  for (size_t i = 0; i < metas.size(); ++i)
    if (!fits(placements[i], metas[i])) return false;
  return true;
}

OpCost default_cost(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  OpCost cost;
  for (const TensorMeta& out : outputs) {
    const auto elements = static_cast<double>(element_count(out.shape));
    cost.flops += elements;
    cost.bytes += elements * static_cast<double>(size_of(out.dtype));
  }
  for (const TensorMeta& in : call.inputs) {
    if (in.absent) continue;
    const auto elements = static_cast<double>(element_count(in.shape));
    cost.bytes += elements * static_cast<double>(size_of(in.dtype));
  }
  return cost;
}

// Removes strategies whose partials the dtypes do not allow. Rules name reductions regardless of
// dtypes: a sum of bools or a maximum of complex numbers would otherwise be a strategy.
void keep_legal_strategies(Rule& rule) {
  if (!rule.strategies) return;
  rule.strategies = [inner = std::move(rule.strategies)](const OpCall& call,
                                                         const std::vector<TensorMeta>& outputs,
                                                         int64_t axis_size) {
    std::vector<Strategy> legal = inner(call, outputs, axis_size);
    std::erase_if(legal, [&](const Strategy& s) {
      return !fits(s.inputs, call.inputs) || !fits(s.outputs, outputs);
    });
    return legal;
  };
}

}  // namespace

const Decomposition* OpRecord::decomposition_of(const OpCall& call) const {
  for (const Decomposition& decomposition : decompositions)
    if (decomposition.applies(call)) return &decomposition;
  return nullptr;
}

std::vector<int> OpRecord::expand(const OpCall& call, OpBuilder& builder) const {
  const Decomposition* decomposition = decomposition_of(call);
  SP_CHECK(decomposition, "{} is not written as other ops", name);
  return decomposition->emit(call, builder);
}

const GradientRule* OpRecord::gradient_of(const OpCall& call) const {
  const Decomposition* decomposition = decomposition_of(call);
  const GradientRule& rule = decomposition ? decomposition->gradient : gradient;
  return rule ? &rule : nullptr;
}

void OpRecord::fill_fallbacks(Attrs& attrs) const {
  for (const Param& param : params)
    if (!param.required && param.kind != ParamKind::optional_tensor &&
        attrs.values().find(param.name) == attrs.values().end())
      attrs.set(param.name, param.fallback);
}

void OpRegistry::add(OpRecord record) {
  SP_CHECK(!record.name.empty() && !records_.contains(record.name),
           "op name '{}' is empty or taken", record.name);
  SP_CHECK(!record.decompositions.empty() || (record.infer && record.prepare),
           "op {} needs infer and prepare", record.name);
  keep_legal_strategies(record.rule);
  if (!record.cost) record.cost = default_cost;
  if (!record.samples) record.samples = [] { return std::vector<Sample>{}; };
  const std::string name = record.name;
  if (!record.infix.empty()) name_by_infix_.emplace(record.infix, name);
  records_.emplace(name, std::move(record));
  order_.push_back(name);
}

const OpRecord* OpRegistry::find(std::string_view name) const {
  const auto found = records_.find(name);
  return found == records_.end() ? nullptr : &found->second;
}

const OpRecord& OpRegistry::at(std::string_view name) const {
  if (const OpRecord* found = find(name)) return *found;
  NearestName nearest(name);
  for (const std::string& candidate : order_) nearest.offer(candidate);
  throw_bad_input("unknown op '{}'{}", name, nearest.hint());
}

const OpRecord* OpRegistry::find_infix(std::string_view symbol) const {
  const auto found = name_by_infix_.find(symbol);
  return found == name_by_infix_.end() ? nullptr : find(found->second);
}

std::vector<const OpRecord*> OpRegistry::all() const {
  std::vector<const OpRecord*> records;
  records.reserve(order_.size());
  for (const std::string& name : order_) records.push_back(find(name));
  return records;
}

}  // namespace shardproof
