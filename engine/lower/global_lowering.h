// Global lowering: the listing of a global program (or of a truth) to a GlobalProgram: loops
// expanded, names resolved, shapes inferred, every error of the text found with its line and
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

// The inputs, numbers and meshes that a job gives to its global program or its truth.
GlobalContext context_of(const Job& job, const OpRegistry& ops);

// `path` is the JSON pointer of the array ("/program"), for errors.
GlobalProgram lower_global(const Listing& listing, const GlobalContext& context,
                           const std::string& path);

}  // namespace shardproof
