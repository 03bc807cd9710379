// Notes of values of the truth that a line check(..) names and that no rank has reached. Examples
// are the last pass of a loop that is too short, and a branch that no rank takes.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

// Returns one note for each line check(..) of the job's listings that names such a value: with
// whole numbers in the holes of the name, it is a value of the truth that is not checked and no
// output.
std::vector<std::string> notes_of_unreached_checks(const Job& job, const RankProgram& ranks,
                                                   const GlobalProgram& truth);

}  // namespace shardproof
