// WayToValue: the instructions of a rank program from which a value is computed, in program order.
// Candidates of causes are made from them.
#pragma once

#include <set>

#include "shardproof/engine/compare/judge.h"
#include "shardproof/engine/explain/edit_ranks.h"
#include "shardproof/engine/explain/line_text.h"
#include "shardproof/engine/explain/provenance.h"

namespace shardproof {

// An instruction on the way, in the first pass of its line. Steps of a listing are in program
// order; those of listings that send come before those of listings that receive.
struct Step {
  size_t listing = 0, index = 0;  // of the instruction
  Site site;
  const Instr* instr = nullptr;
};

struct WayToValue {
  std::vector<ValueId> ends;       // the parts of the value
  std::set<size_t> listings = {};  // that make them
  std::vector<Step> steps;
};
// Returns the way to an output or to the value of a check. It continues in the listings of other
// ranks with the inputs of calls that join listings. It ends at messages between ranks of one
// listing.
WayToValue way_to(const RankProgram& ranks, const ComparedValue& value);

// Returns the lines from which outputs of these names are computed. Lines to the outputs in `given`
// are left out: a value is judged on its inputs, which may be wrong.
std::set<ListedLine> lines_to(const RankProgram& ranks, const std::set<std::string>& names,
                              const std::set<std::string>& given = {});

// Returns the state of the value over an axis: that of its parts if they agree, else unknown.
AxisState state_of(const WayToValue& way, const Provenance& provenance, int axis);

// Returns the step's call if it is one collective of one input, the same one on all ranks, else
// null.
const CallItem* collective_of(const Step& step);
// Returns the same if the call is an all_reduce, reduce_scatter or reduce, else null.
const CallItem* reduction_of(const Step& step);
// True if the last reduction on the way, of the step's listing and up to the step, is an average.
bool averages_before(const WayToValue& way, const Step& step);
// True if a call averages another result of the step's line: another gradient of the same loss.
bool averages_other_results(const RankProgram& ranks, const Step& step);
// True if a line of a listing calls grad(..): the author did not write the factors of its
// instructions. The second one takes the line of a step.
bool is_gradient_line(const std::vector<std::string>& lines, int line);
bool is_made_by_grad(const RankProgram& ranks, const Step& step);
// Returns the axes of a mesh that form a group; nullopt if no axes do.
std::optional<std::vector<int>> axes_of(const Group& group, const Mesh& mesh, const Lanes& lanes);
// Returns the number that an input is on all ranks; nullopt for other inputs.
std::optional<double> number_of(const RankProgram& ranks, ValueId id);

}  // namespace shardproof
