// Collecting: a value of many frames is compared once all its ranks have made it.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "shardproof/engine/compare.h"
#include "shardproof/engine/seen_value.h"
#include "shardproof/engine/truth.h"
#include "shardproof/program/spmd_program.h"

namespace shardproof {

struct CollectorOptions {
  std::set<ValueId> keep;
  std::optional<std::set<ValueId>> only;  // what is compared, when not all
  bool sees = false;                      // values are kept as they were compared
  // A value that is right, as far as a bound wider than this can tell (as a share of its largest
  // element), becomes the truth of what follows: what ranks then do is judged by itself.
  double anchors = std::numeric_limits<double>::infinity();
  std::set<ValueId> granted = {};  // of the truth: right whatever they are, and anchors too
  // Told of every value that is compared, before it is judged.
  std::function<void(ValueId, const LocalTensor&)> watch = {};
};

// The probe on the executor: compares every value that has a global origin with the truth. Findings
// are kept by value, so that the first in program order can be named whatever the schedule was.
class Collector {
 public:
  Collector(const SpmdProgram& program, Truth* truth, CollectorOptions options);
  bool wants(ValueId id) const;
  void made(ValueId id, const LocalTensor& value);
  const std::map<ValueId, Difference>& differences() const { return differences_; }
  const std::map<ValueId, ReplicaDifference>& replicas() const { return replicas_; }
  int64_t compared() const { return compared_; }
  double widest() const { return widest_; }
  // A kept value; empty when some rank never made it.
  LocalTensor kept(ValueId id) const;
  const std::map<ValueId, SeenValue>& seen() const { return seen_; }

 private:
  bool compares(ValueId id) const;
  bool complete(const SpmdValue& value, const LocalTensor& parts) const;
  void anchor(const SpmdValue& info, const LocalTensor& parts);

  const SpmdProgram& program_;
  Truth* truth_;
  CollectorOptions options_;
  std::vector<bool> added_;  // of those that see
  std::map<ValueId, SeenValue> seen_;
  std::map<ValueId, LocalTensor> parts_, kept_;
  std::map<ValueId, Difference> differences_;
  std::map<ValueId, ReplicaDifference> replicas_;
  int64_t compared_ = 0;
  double widest_ = 0;  // of the bounds that were compared with
};

}  // namespace shardproof
