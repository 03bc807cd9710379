// What the checks of global programs and of rank programs have in common. Internal to the engine.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/global_lowering.h"
#include "shardproof/engine/job.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {

Outcome check_ranks(const Job& job, const Registries& registries);

GlobalContext context_of(const Job& job, const OpRegistry& ops);
std::vector<Tensor> global_inputs(const Job& job);
void reduce_in_order(SpmdProgram& program, const ReductionSchedule& order);
// Whether the caller wants the value of this name.
bool keeps(const Job& job, const std::string& name);
std::string line_text(const std::vector<std::string>& lines, int line);
// Errors of kernels and of the truth are bad input found while running.
[[noreturn]] void rethrow(const Error& error, const std::string& path);

}  // namespace shardproof
