// Provenance: the state of each value of an SPMD program over each axis of a mesh. It follows the
// placements of the inputs through ops and calls. It depends only on the program; nothing runs.
//
// A stated state is always true of the values of a run; `unknown` is always allowed. Let the group
// be the ranks that differ in one coordinate of the axis:
//
//   replicated   all ranks of the group hold the same bits
//   cut          S(d): the shards of the group, one after the other along dim d, are a value on
//                which the line computes what each rank computes on its shard
//   partial      P(op): the same of the elementwise reduction of what the group holds
//   varying      computed from what is not replicated, and none of the above is known
//   unknown      nothing is known
//
// A replicated value may count as cut, too. If all its elements along a dim are equal, as after
// `expand`, its copies are the shards of a larger such value. Example: the gradient of
// sum(square(x)), x cut over dp, is expand(1) * (2 * x).
//
// The law of cut and partial: an op applied to the whole values of the group gives the whole value
// of the op's result. Example: h is S(1) and w is S(0) over tp; h @ w is P(sum).
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

enum class AxisKind : uint8_t { replicated, cut, partial, varying, unknown };

struct AxisState {
  AxisKind kind = AxisKind::unknown;
  Placement placement;  // of cut and partial
  // Inputs of the program that differ over the axis, and from which the value is computed without a
  // call over the axis.
  std::set<ValueId> sources;
  bool is_same_kind(const AxisState& other) const {
    return kind == other.kind && placement == other.placement;
  }
};

class Provenance {
 public:
  // Follows the listings in order. A value that is written in place has the state that it has at
  // the end of the listings.
  Provenance(const SpmdProgram& program, const Mesh& mesh, const OpRegistry& ops);

  const AxisState& state(ValueId id, int axis) const {
    return states_[static_cast<size_t>(id)][static_cast<size_t>(axis)];
  }
  // Returns the state of input `slot` of an instruction when it runs. Slots are those of
  // Compute::inputs, or the items of a Communicate. It may be cut where the value is replicated.
  const AxisState& state_read(size_t listing, size_t instr, size_t slot, int axis) const;
  const Mesh& mesh() const { return mesh_; }

 private:
  using States = std::vector<AxisState>;  // by axis
  void follow(size_t listing, size_t index, const Instr& instr);
  void follow_inputs();
  States& of(ValueId id) { return states_[static_cast<size_t>(id)]; }
  void write(ValueId id, const Lanes& lanes, States states, bool in_place);
  void write_in_place(const Compute& compute, const Lanes& lanes, States states);
  bool is_covered(const Lanes& lanes, int axis) const;
  bool splits(const std::vector<Lanes>& classes, const Lanes& lanes, int axis) const;
  AxisState input_state(const SpmdValue& value, int axis) const;
  std::optional<Placement> placement_by_rule(const Instr& instr, const Compute& compute,
                                             size_t output, int axis,
                                             const std::vector<Placement>& given) const;
  AxisState compute_state(const Instr& instr, const Compute& compute,
                          const std::vector<States>& reads, size_t output, int axis) const;
  void cut_repeated(const Instr& instr, const Compute& compute, int axis,
                    std::vector<States>& reads) const;
  std::vector<std::pair<Lanes, Dims>> classes_of_view(const Compute& compute, const Lanes& lanes,
                                                      std::vector<int>& from) const;
  void follow_repeated(const Instr& instr, const Compute& compute);
  std::optional<Placement> placement_of_view(const Instr& instr, const Compute& compute,
                                             const AxisState& read) const;
  AxisState merged_state(const Merge& merge, int axis) const;
  AxisState number_state(const Instr& instr, const NumberValue& number, int axis) const;
  AxisState called_state(const Communicate& call, const CallItem& item, int axis) const;
  AxisState after_call_elsewhere(const CallItem& item, const AxisState& before, int axis) const;

  const SpmdProgram& program_;
  Mesh mesh_;
  const OpRegistry& ops_;
  std::vector<Group> groups_;            // by axis
  std::vector<bool> is_zero_;            // by value: a number that is 0 on some rank
  std::vector<bool> is_shared_;          // by value: its memory is shared and written in place
  std::vector<std::set<int>> repeated_;  // by value: dims along which all elements are equal
  std::vector<States> states_;           // by value
  std::vector<std::vector<std::vector<States>>> reads_;  // by listing, instruction, slot
};

// True if every group of `group` holds whole groups of the axis: a call over it is one over the
// axis. Only ranks of `lanes` count.
bool is_over_axis(const Group& group, const Mesh& mesh, int axis, const Lanes& lanes);

}  // namespace shardproof
