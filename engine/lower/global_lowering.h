// Global lowering: turns the listing of a global program or of a truth into a GlobalProgram. Loops
// are expanded, names resolved and shapes inferred; every error of the text has a line and a
// column.
#pragma once

#include "shardproof/engine/job/job.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

struct GlobalContext {
  const OpRegistry* ops = nullptr;
  std::vector<std::pair<std::string, TensorMeta>> inputs;  // tensors of the scenario
  std::vector<std::pair<std::string, Number>> numbers;     // `let`
  std::vector<std::pair<std::string, Mesh>> meshes;        // for size(axis)
};

// Returns the inputs, numbers and meshes that a job gives to its global program or its truth.
GlobalContext context_of(const Job& job, const OpRegistry& ops);

// Returns the lowered listing. `path` is its JSON pointer ("/program"). Throws Error(bad_input)
// with path, line and column; Error(limit) if its loops expand to too many lines.
GlobalProgram lower_global(const Listing& listing, const GlobalContext& context,
                           const std::string& path);

}  // namespace shardproof
