// Meshes of constants. A constant is a value that depends on no tensor of the scenario and on no
// redistribution to a mesh. Examples: zeros, arange, the masks of decompositions, the seed of a
// gradient. It has no mesh of its own; it is computed on the mesh of each instruction that reads
// it.
//
// A constant lies on the mesh of its first reader. Each further mesh gets a copy without a name. A
// constant that nothing reads is on the first mesh. A constant that `as` or redistribute places is
// on the first of these meshes that has the axes they name.
//
// Example: meshes enc and dec, u on dec, e on enc.
//
//   c = eye(4)         c is on dec, its copy c' on enc
//   y = c @ u          reads c
//   z = c @ e          reads c'
#pragma once

#include <optional>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

struct ConstantMeshes {
  GlobalProgram program;             // copies have ids after those of the values given
  std::vector<const Mesh*> mesh_of;  // by instruction: that on which it runs; meshes of the job
};

// Returns nullopt for a job of one mesh. The pointers are valid as long as the job.
std::optional<ConstantMeshes> place_constants(const GlobalProgram& program, const Job& job);

}  // namespace shardproof
