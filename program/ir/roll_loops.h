// Finds the loops of an expanded program: passes with equal lines become one block.
//
// Passes are equal if their lines differ only in the values that they bind and read, and in
// expressions of the loop variable. A value that a pass reads from the pass before it is a state.
// It gets a name of its own, which the last line of the body binds again.
//
// Example, with the passes i=0 and i=1 of "h = relu(h)":
//
//   h_1 = relu(h)          for i in range(2):
//   h_2 = relu(h_1)          h_1 = relu(h)
//                            h = h_1
//
// Loops whose passes are not equal stay expanded. If only the first or the last pass differs, it is
// printed before or after the loop.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "shardproof/program/ir/printed_line.h"

namespace shardproof {

struct RolledLines {
  std::vector<PrintedLine> lines;
  // Values that represent one of the lines, such as the result of one line in each pass.
  std::map<ValueId, ValueId> same;
  // New values that a loop carries from pass to pass, with their names. Their numbers follow those
  // of `bound`.
  std::map<ValueId, std::string> states;
  // Values that lines name by a text with a hole, such as h{i}. They have their author's names.
  std::set<ValueId> named_by_author;
};

// `bound`: the author's name of each value, "" if there is none. `read_at_end`: values that are
// read after the last line.
RolledLines roll_loops(std::vector<PrintedLine> lines, const std::vector<std::string>& bound,
                       const std::set<ValueId>& read_at_end);

}  // namespace shardproof
