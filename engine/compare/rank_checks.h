// RankChecks: collects the tensors of the ranks at their lines check(x, 'name', ...), and calls
// back when all parts of one value exist. Internal to the engine.
//
// Entries of one name with equal placements on the same ranks form one series. They may come from
// different listings, lines and passes of a loop. The k-th entry of each rank is its part of the
// k-th value. If ranks do not reach a series equally often, it has no values and is undecided; the
// lowered program shows this before the run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/engine/compare/judge.h"
#include "shardproof/engine/job/job.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/localtensor/tensor/collected_parts.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

// One value of a series, with the entries of the ranks' checks that are its parts.
struct CheckedValue {
  size_t number = 0;                                        // the same in each run of the program
  std::vector<std::pair<const RankCheck*, Lanes>> entries;  // at least one
  Spec spec;
  Lanes owners;       // ranks that must hold it
  LocalTensor parts;  // of all owners once it is complete
};

class RankChecks {
 public:
  using Complete = std::function<void(const CheckedValue&)>;
  // Calls `complete` for each value, in the order of their last parts. `ranks` must outlive it.
  RankChecks(const Job& job, const RankProgram& ranks, Complete complete);

  const std::vector<CheckedValue>& values() const { return values_; }
  // True if the value is a copy that some check has made.
  bool compares(ValueId id) const { return routes_.contains(id); }
  // Adds a part; ignores values that no check has made. Parts of a value are dropped after
  // `complete` has returned.
  void add(ValueId id, const LocalTensor& part);
  // Returns one entry for each series that is not reached equally often, and for each value with a
  // missing part, in the order of RankProgram::checks. `elements` counts those of the truth's
  // value.
  std::vector<UndecidedValue> undecided(const GlobalProgram& truth) const;

 private:
  // The values of one series, and the count of each rank.
  struct Series {
    const RankCheck* first = nullptr;
    Lanes owners;
    std::map<int32_t, int64_t> times;
    std::vector<size_t> values;  // of values_
    std::string uneven;          // why it is undecided; empty: all owners reach it equally often
  };
  // The value that a copy is part of, and on which ranks.
  struct Route {
    size_t value = 0;
    Lanes lanes;
  };
  enum class State : uint8_t { open, complete, undecided };

  Series& series_of(const Job& job, const RankCheck& check);
  void enter(Series& series, const RankCheck& check, const RankProgram& ranks);

  Complete complete_;
  std::vector<Series> series_;          // in the order of their first checks
  std::map<std::string, size_t> keys_;  // of series_
  std::vector<CheckedValue> values_;
  std::vector<State> states_;              // of values_
  std::vector<CollectedParts> collected_;  // of values_, until they are complete
  std::map<ValueId, std::vector<Route>> routes_;
};

// Returns the label of a checked value of which `ranks` hold wrong elements. Its line is that of
// the first entry that one of `ranks` reached.
ValueLabel label_of(const CheckedValue& value, const SpmdProgram& program, const Lanes& ranks);

}  // namespace shardproof
