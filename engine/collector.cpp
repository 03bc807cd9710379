#include "shardproof/engine/collector.h"

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/input_bounds.h"
#include "shardproof/engine/values_added.h"
#include "shardproof/localtensor/split.h"

namespace shardproof {

Collector::Collector(const SpmdProgram& program, Truth* truth, CollectorOptions options)
    : program_(program), truth_(truth), options_(std::move(options)) {
  if (options_.sees) added_ = values_added(program, truth->ops());
}

bool Collector::complete(const SpmdValue& value, const LocalTensor& parts) const {
  const Lanes have = parts.lanes();
  for (const LocalShape& shape : value.shapes)
    if (!have.contains(shape.lanes)) return false;
  return true;
}

bool Collector::compares(ValueId id) const {
  if (options_.only && !options_.only->contains(id)) return false;
  const SpmdValue& info = program_.values[static_cast<size_t>(id)];
  return truth_ && info.global != kNoValue && info.spec;
}

bool Collector::wants(ValueId id) const { return options_.keep.contains(id) || compares(id); }

void Collector::made(ValueId id, const LocalTensor& value) {
  if (!wants(id)) return;
  const SpmdValue& info = program_.values[static_cast<size_t>(id)];
  // Independent of later writes into the buffers.
  LocalTensor copy = fork(value, value.lanes());
  LocalTensor& parts = parts_[id];
  parts = parts.empty() ? std::move(copy) : parts.merged_with(copy);
  if (!complete(info, parts)) return;
  if (compares(id)) {
    ++compared_;
    if (options_.watch) options_.watch(id, parts);
    const Tensor& expected = truth_->value(info.global);
    const Bound& bound = truth_->bound(info.global);
    const double width = width_of(expected, bound);
    widest_ = std::max(widest_, width);
    const bool granted = options_.granted.contains(info.global);
    std::optional<Difference> difference;
    if (!granted) difference = compare_value(parts, *info.spec, expected, bound);
    if (difference) {
      // Only the first difference of the program is told.
      if (differences_.empty() || id < differences_.begin()->first)
        difference->right_as = right_as(parts, *info.spec, expected, bound);
      differences_.emplace(id, std::move(*difference));
    } else if (!bound.exact && !granted) {
      if (std::optional<ReplicaDifference> replicas = compare_replicas(parts, *info.spec))
        replicas_.emplace(id, *replicas);
    }
    if (options_.sees) {
      SeenValue& seen = seen_[id] = see_value(info, info.spec, parts);
      seen.added = added_[static_cast<size_t>(id)];
    }
    const bool right = !differences_.contains(id) && !replicas_.contains(id);
    if (granted || (right && width > options_.anchors)) anchor(info, parts);
  }
  if (options_.keep.contains(id)) kept_[id] = parts;
  parts_.erase(id);
}

void Collector::anchor(const SpmdValue& info, const LocalTensor& parts) {
  const bool partial = info.spec->has_partial();
  // What is claimed to be parts is more than its own spec says.
  if (partial != truth_->lies_in_parts(info.global)) return;
  const LocalTensor reduced = partial ? reduced_for_comparison(parts, *info.spec) : parts;
  Spec whole = info.spec->with_dtype(reduced.dtype());
  for (const int axis : info.spec->partial_axes()) whole = whole.with_placement(axis, R());
  Tensor value = as_dtype(assemble(reduced, whole), info.dtype);
  Bound bound = partial ? bound_of_parts(value, *info.spec, parts) : Bound::exact_of(value);
  truth_->anchor(info.global, std::move(value), std::move(bound));
}

LocalTensor Collector::kept(ValueId id) const {
  const auto found = kept_.find(id);
  return found == kept_.end() ? LocalTensor() : found->second;
}

}  // namespace shardproof
