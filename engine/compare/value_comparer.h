// ValueComparer: the probe on the executor in runs of global programs. It collects the parts of
// each value from the ranks, and hands complete values to the judge in the order of the reference
// program, whatever order the schedule made them in.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "shardproof/engine/compare/judge.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

class ValueComparer {
 public:
  struct Options {
    // Values to compare, in the order of the reference program.
    std::vector<ValueId> compared;
    std::set<ValueId> kept;  // values that kept() is asked for
    // Integers and bools, by global value, that replace those of the ranks once these are judged.
    const std::map<ValueId, Tensor>* integers = nullptr;
  };
  // `lines`: the source text, for labels.
  ValueComparer(const SpmdProgram& program, const std::vector<std::string>& lines, Options options,
                ReferenceRun& reference, Judge& judge);

  bool wants(ValueId id) const { return place_.contains(id) || options_.kept.contains(id); }
  // Some ranks have made a value. It may be written in place later.
  void made(ValueId id, const LocalTensor& value);
  // No more values come: judges those that are complete but came after one that never was.
  void finish();
  // A kept value; empty when some rank never made it.
  LocalTensor kept(ValueId id) const;

 private:
  bool is_complete(ValueId id) const;
  void judge_ready();
  void judge_one(ValueId id);
  void replace_integers(ValueId id, const LocalTensor& value) const;

  const SpmdProgram& program_;
  const std::vector<std::string>& lines_;
  Options options_;
  ReferenceRun& reference_;
  Judge& judge_;
  std::map<ValueId, size_t> place_;  // in options_.compared
  size_t next_ = 0;                  // of options_.compared, to be judged
  std::map<ValueId, LocalTensor> parts_, kept_;
};

}  // namespace shardproof
