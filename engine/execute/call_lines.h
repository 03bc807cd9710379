// Finds the first collective that members of a group make on different lines of one listing. If a
// member has left out a call, its later calls may still match, because their kind and size are the
// same. The finding is then about a later call.
#pragma once

#include <cstdint>
#include <string>

#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// Returns "call 1 of this group: rank 1 makes the call of line 13, ranks 0 2 3 that of line 11".
// Empty if no call before number `before` differs, or if the members run different listings.
// `group`: as in Finding::group, "dp [0 1 2 3]". O(calls of the group's members).
std::string first_call_on_other_lines(const SpmdProgram& program, const std::string& group,
                                      int64_t before);

}  // namespace shardproof
