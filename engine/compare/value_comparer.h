// ValueComparer: the probe on the executor in runs of global programs. It collects the parts of
// each value from the ranks and passes complete values to the judge in the order of the reference
// program. The schedule may make them in another order.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "shardproof/engine/compare/judge.h"
#include "shardproof/localtensor/tensor/collected_parts.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// True if the parts hold all lanes of these shapes.
bool cover_all(const CollectedParts& parts, const LocalShapes& shapes);

class ValueComparer {
 public:
  struct Options {
    // Values to compare, in the order of the reference program.
    std::vector<ValueId> compared;
    std::set<ValueId> kept;  // values that kept() returns
    // Integers and bools, by global value, that replace those of the ranks once these are judged.
    const std::map<ValueId, Tensor>* integers = nullptr;
    // True if calls return exactly what `reference` (collective.h) computes: simulated ranks
    // without faults.
    bool calls_are_exact = false;
  };
  // `lines`: the source text, for labels.
  ValueComparer(const SpmdProgram& program, const std::vector<std::string>& lines, Options options,
                ReferenceRun& reference, Judge& judge);

  bool compares(ValueId id) const { return place_.contains(id) || options_.kept.contains(id); }
  // Adds the part of a value that some ranks have made. A later line may write it in place.
  void made(ValueId id, const LocalTensor& value);
  // Called after the last value. Judges complete values that came after one that never was
  // complete.
  void finish();
  // Returns a kept value; empty if some rank never made it.
  LocalTensor kept(ValueId id) const;

 private:
  bool is_complete(ValueId id) const;
  void find_reductions();
  void judge_ready();
  std::string gradient_name(ValueId global) const;
  void judge_one(ValueId id);
  void replace_integers(ValueId id, const LocalTensor& value) const;

  const SpmdProgram& program_;
  const std::vector<std::string>& lines_;
  Options options_;
  ReferenceRun& reference_;
  Judge& judge_;
  std::map<ValueId, size_t> place_;  // in options_.compared
  // Partial values that an all_reduce of the program reduces, with its result, which is compared
  // next.
  std::map<ValueId, ValueId> reduced_as_;
  size_t next_ = 0;  // of options_.compared, to be judged
  std::map<ValueId, CollectedParts> parts_;
  std::map<ValueId, LocalTensor> kept_;
};

}  // namespace shardproof
