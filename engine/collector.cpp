#include "shardproof/engine/collector.h"

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/values_added.h"

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
    const Tensor& expected = truth_->value(info.global);
    const Bound& bound = truth_->bound(info.global);
    widest_ = std::max(widest_, width_of(expected, bound));
    std::optional<Difference> difference = compare_value(parts, *info.spec, expected, bound);
    if (difference) {
      // Only the first difference of the program is told.
      if (differences_.empty() || id < differences_.begin()->first)
        difference->right_as = right_as(parts, *info.spec, expected, bound);
      differences_.emplace(id, std::move(*difference));
    } else if (!bound.exact) {
      if (std::optional<ReplicaDifference> replicas = compare_replicas(parts, *info.spec))
        replicas_.emplace(id, *replicas);
    }
    if (options_.sees) {
      SeenValue& seen = seen_[id] = see_value(info, info.spec, parts, &truth_->bound(info.global));
      seen.added = added_[static_cast<size_t>(id)];
    }
  }
  if (options_.keep.contains(id)) kept_[id] = parts;
  parts_.erase(id);
}

LocalTensor Collector::kept(ValueId id) const {
  const auto found = kept_.find(id);
  return found == kept_.end() ? LocalTensor() : found->second;
}

}  // namespace shardproof
