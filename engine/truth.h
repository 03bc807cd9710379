// The truth: the global program on one device, advanced as far as somebody asks. Each value comes
// with the bound of how far an honest sharded computation may lie from it.
#pragma once

#include <deque>
#include <optional>

#include "shardproof/ops/op.h"
#include "shardproof/program/global_program.h"

namespace shardproof {

// How the ranks hold values, by global value.
struct ValuesInParts {
  std::vector<bool> added;   // as partial sums, or it is claimed to be what they hold so
  std::vector<bool> scaled;  // as parts of an average that not all backends make exactly
};

class Truth {
 public:
  // `inputs` are global tensors in the order of program.inputs; `parts`: how many ranks may cut a
  // reduction. `bounds`: what the parts of partial inputs may lose when they are reduced; none:
  // every input is exact. `in_parts`: which values lie as partial sums; empty: none. `matmul`: with
  // which precision ranks may multiply; the truth itself has the highest.
  Truth(const GlobalProgram& program, const OpRegistry& ops, std::vector<Tensor> inputs,
        int64_t parts, std::vector<Bound> bounds = {}, ValuesInParts in_parts = {},
        MatmulPrecision matmul = MatmulPrecision::highest);
  // Throws Error with line and column for data-dependent trouble (an index out of range).
  const Tensor& value(ValueId id);
  const Bound& bound(ValueId id);
  // From here on this is what the value is: what follows is computed from it, and what was computed
  // before stays as it was.
  void anchor(ValueId id, Tensor value, Bound bound);
  // Values made so far that have a name, for explanations.
  std::vector<ValueId> named_until(ValueId id) const;
  bool lies_in_parts(ValueId id) const { return in_parts_.added[static_cast<size_t>(id)]; }
  const GlobalProgram& program() const { return program_; }
  const OpRegistry& ops() const { return ops_; }

 private:
  struct Entry {
    std::optional<Tensor> value;
    Bound bound;
  };
  void advance_to(ValueId id);
  void run(const GlobalInstr& instr);
  void widen_if_scaled(ValueId id);

  const GlobalProgram& program_;
  const OpRegistry& ops_;
  int64_t parts_;
  ValuesInParts in_parts_;
  MatmulPrecision matmul_;
  std::deque<Entry> entries_;
  size_t pc_ = 0;
};

}  // namespace shardproof
