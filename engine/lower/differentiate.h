// Differentiator: emits the gradient of one value by others, for `grad`. Internal to the engine.
//
// 1. Find the tape entries that lie between: reached backward from the value, and reaching one of
//    the others forward.
// 2. Walk them from the last to the first. Each turns the gradients by its results (cotangents)
//    into gradients by its inputs; those of one version are added.
// 3. Remove instructions that no gradient needs.
//
// A redistribution moves the gradient to the placements of its input (TapeKind::move). At `as`
// (TapeKind::claim) the gradient of the result gets the dual placements, and each rank
// differentiates its own shards. The gradient of an input gets the dual placements of that input.
// The dual of R is P(sum), and that of P(sum) is R. Partitioner::spec_like (partition.cpp) derives
// all these placements.
//
// Example: z = x * y + x, grad(z, x). The entries are add(t, x) -> z and mul(x, y) -> t. The
// gradient by z is 1. add contributes 1 to t and 1 to x; mul contributes 1 * y to x. The gradient
// by x is 1 + y.
//
// A gradient may exist on some lanes only, so cotangents are kept as parts with lanes. A formula is
// made for each class of lanes with equal shapes, attributes and cotangents. Formulas that differ
// only in attributes and numbers are emitted as one (formula_recorder.h).
#pragma once

#include <map>
#include <set>

#include "shardproof/engine/lower/lowering.h"
#include "shardproof/engine/lower/tape.h"

namespace shardproof {

// One value by which grad differentiates.
struct GradientTarget {
  ValueId value = kNoValue;
  std::string shown;  // as written
  SourceLocation place;
};

class Lowering::Differentiator {
 public:
  // `recomputed`: values that are computed again where a gradient reads them.
  Differentiator(Lowering& lowering, ValueId of, std::string shown, SourceLocation place,
                 std::set<ValueId> recomputed);
  // Returns one value for each target, on the current lanes. `seed` has the shape of the value.
  // Throws Error(bad_input) for a target that does not reach the value.
  std::vector<ValueId> run(const std::vector<GradientTarget>& targets, ValueId seed);

 private:
  class Builder;
  using Parts = std::vector<std::pair<Lanes, ValueId>>;

  bool is_float(VersionId version, const Lanes& lanes) const;
  bool passes(const TapeEntry& entry) const;  // false: grad stops at the entry
  std::set<int> entries_before(bool through_stops) const;
  void find_path(const std::set<int>& entries);
  bool is_on_path(VersionId target) const;
  std::string unused_text(VersionId target) const;
  std::string stop_text() const;
  [[noreturn]] void fail_unreached(const GradientTarget& target);

  void walk_back(const TapeEntry& entry);
  void through_op(const TapeEntry& entry);
  std::vector<std::vector<RecordedFormula>> formulas_of(const TapeEntry& entry,
                                                        const std::vector<ValueId>& values,
                                                        const std::vector<LaneAttrs>& classes);
  void through_op_on(const TapeEntry& entry, const std::vector<RecordedFormula>& group);
  void through_write(const TapeEntry& entry);
  void through_call(const TapeEntry& entry);
  // Splits lanes into those with the same results that have a cotangent; drops those without any.
  std::vector<Lanes> classes_with_cotangents(const TapeEntry& entry, const Lanes& lanes);

  void add(VersionId version, const Lanes& lanes, ValueId gradient);
  ValueId sum_of(VersionId version, const Lanes& lanes, ValueId a, ValueId b);
  // Ends the sum of a version; in global programs it moves to the placements of the value.
  void finish(VersionId version);
  ValueId cotangent(VersionId version, const Lanes& lanes);  // kNoValue: 0
  std::optional<TensorMeta> meta_of_cotangent(VersionId version);
  ValueId zeros_like(ValueId value, const Lanes& lanes);
  ValueId filled(VersionId version, const Lanes& lanes);  // the cotangent, with zeros for absent
  bool is_local(VersionId version) const;
  // Returns the value of a version for a formula on the current lanes: computed again if
  // `recompute` has it.
  ValueId read(VersionId version, const TapeEntry& reader);
  ValueId result_of(const GradientTarget& target);
  ValueId recomputed(VersionId version);

  Lowering& lowering_;
  Tape& tape_;
  const VersionId of_;
  const std::string shown_;
  const SourceLocation place_;
  const Lanes all_;
  std::set<ValueId> recompute_;
  std::map<VersionId, Parts> recomputed_;  // on overlapping lanes
  std::vector<VersionId> targets_;
  std::set<int> path_;
  std::set<VersionId> carries_;  // versions that depend on a target
  std::map<VersionId, Parts> cotangents_;
  std::set<VersionId> finished_;
};

}  // namespace shardproof
