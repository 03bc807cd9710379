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

// Returns the lines, which end with "w = w_1" for names that were bound again. A state (`w` in `w =
// w - g`) is brought to the placements of its input by a line of its own, because no value has the
// name of the input again.
std::vector<ListingLine> global_text(const GlobalProgram& program,
                                     const GlobalTextOptions& options);

}  // namespace shardproof
