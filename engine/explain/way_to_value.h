// The way to a value: the instructions of a rank program from which it is computed, in program
// order, with what candidates of causes are made of.
#pragma once

#include "shardproof/engine/compare/judge.h"
#include "shardproof/engine/explain/edit_ranks.h"
#include "shardproof/engine/explain/provenance.h"

namespace shardproof {

// The first pass of each line that is on the way.
struct Step {
  size_t listing = 0, index = 0;  // of the instruction
  Site site;
  const Instr* instr = nullptr;
};

struct WayToValue {
  std::vector<ValueId> ends;  // what makes up the value
  std::vector<Step> steps;
};
// Of an output, or of what a check has seen. What other ranks send ends the way.
WayToValue way_to(const RankProgram& ranks, const ComparedValue& value);

// The state of the value over an axis: that of its parts where they agree, else unknown.
AxisState state_of(const WayToValue& way, const Provenance& provenance, int axis);

// The step's call if it is one all_reduce (of one input for each rank), else null.
const CallItem* all_reduce_of(const Step& step);
// The axes of a mesh that a group is made of; nothing where it is made of other ranks.
std::optional<std::vector<int>> axes_of(const Group& group, const Mesh& mesh, const Lanes& lanes);
// The number that an input is, the same on all ranks; nothing where it is none.
std::optional<double> number_of(const RankProgram& ranks, ValueId id);

}  // namespace shardproof
