// Finds the first collective that members of a group make on different lines of one listing. Where
// a member has left out a call, later ones still match if they are of the same kind and size, and
// the finding is about a later call.
#pragma once

#include <cstdint>
#include <string>

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Returns "call 1 of this group: rank 1 makes the call of line 13, ranks 0 2 3 that of line 11", or
// "" if there is none before call number `before`, or if the members run different listings.
// `group`: as in Finding::group, "dp [0 1 2 3]". O(calls of the group's members).
std::string first_call_on_other_lines(const SpmdProgram& program, const std::string& group,
                                      int64_t before);

}  // namespace shardproof
