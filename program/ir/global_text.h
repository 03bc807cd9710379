// The global program as text that parses back, as `show` prints it: with loops, unique names, and
// remarks after "#".
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "shardproof/program/ir/global_program.h"
#include "shardproof/program/ir/printed_line.h"

namespace shardproof {

struct GlobalTextOptions {
  std::function<std::string(ValueId)> remark;  // of a value, such as its placements; "": none
  std::set<std::string> reserved;              // names that no value gets: axes, meshes, numbers
};

// Returns the lines, which end with "w = w_1" for names that were bound again. A separate line
// redistributes a state (`w` in `w = w - g`) to the placements of its input. It is needed because
// the new value has another name than the input.
std::vector<ListingLine> global_text(const GlobalProgram& program,
                                     const GlobalTextOptions& options);

}  // namespace shardproof
