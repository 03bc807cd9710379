// LinesByRule: the lines of a global program that need no run in f64 if their values were equal to
// one device in the program's own dtypes.
//
// On such a line each rank runs the op on its shards of the inputs, because the op's sharding rule
// allows it. No input and no result is partial, nothing is sent, and the author claims nothing
// (`as`). Ranks and one device then compute each element from the same elements in the same order,
// in every dtype.
//
// Example, with w1 as tp:S(1) and w2 as tp:S(0):
//
//   h = gelu(x @ w1)         both ops by rule
//   y = h @ w2               adds parts: y is tp:P(sum)
//   z = redistribute(y, tp:R)
//
// The run in f64 begins with h as the ranks hold it in f32, and judges y and z.
#pragma once

#include <set>
#include <vector>

#include "shardproof/engine/partition/partition.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

class LinesByRule {
 public:
  // Finds the lines. A line with a result narrower than f32 is none, because its own bits show too
  // little.
  LinesByRule(const GlobalProgram& program, const Partitioned& parts);

  // Returns the values that these lines make, as values of the global program.
  const std::set<ValueId>& made() const { return made_; }
  // Returns those of them that other lines read, ascending.
  const std::vector<ValueId>& read_by_others() const { return results_; }
  // True if another line reads this value.
  bool is_read_by_others(ValueId id) const { return read_.contains(id); }
  // Removes the lines from the program that the object was made from, and its inputs that no other
  // line reads. Adds read_by_others() to the inputs of both forms. Returns the positions of the
  // inputs that stay.
  std::vector<size_t> remove_from(GlobalProgram& program, Partitioned& parts) const;

 private:
  void find_read_by_others(const GlobalProgram& program, const Partitioned& parts);

  std::set<ValueId> made_, read_;  // read_: by other lines
  std::vector<ValueId> results_;   // in both sets
  std::vector<bool> lines_;        // by instruction of the global program
  std::vector<bool> instrs_;       // by instruction of the ranks' listing
};

}  // namespace shardproof
