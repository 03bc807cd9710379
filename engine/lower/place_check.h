// Placement of check(x, 'name', placements): finds the mesh, the ranks, and the part of the truth's
// value with which x is compared. Internal to the engine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/global_program.h"
#include "shardproof/program/syntax/ast.h"

namespace shardproof {

// The truth that checks compare with, lowered at the first call of program().
class TruthOfChecks {
 public:
  TruthOfChecks(const Job& job, const OpRegistry& ops) : job_(job), ops_(ops) {}
  // Requires Job::truth. Throws Error with path "/truth".
  const GlobalProgram& program();

 private:
  const Job& job_;
  const OpRegistry& ops_;
  std::optional<GlobalProgram> program_;
};

// The arguments of one line check(x, 'h_{i}', dp:S(0)), with {i} replaced by its value.
struct WrittenCheck {
  const Expr* value = nullptr;
  std::string name;  // of the truth's value
  SourceLocation name_place;
  std::vector<PlacementText> placements;
  SourceLocation placed_at;
  std::string on;  // selector of ranks; empty: all ranks of the mesh
  SourceLocation on_place;
};

// A mesh that the check is placed on, and the ranks that have to hold the value.
struct CheckPart {
  std::string key;  // of Job::meshes
  const Mesh* mesh = nullptr;
  Lanes owners;
};

// Returns the first mesh that has the axes and all ranks of `on`. Without `on` it must hold all of
// `lanes`, the ranks that reach the line; where none does, each mesh with these axes is one part.
// Throws Error with line and column.
std::vector<CheckPart> parts_of_check(const WrittenCheck& check, const Job& job,
                                      const Lanes& lanes);

// Returns the truth's shape and dtype, placed. Throws Error with line and column if the name is
// unbound, if the placements do not fit the shape, or if a partial sum lacks the part of a rank.
Spec spec_of_check(const WrittenCheck& check, const CheckPart& part, const GlobalProgram& truth);

// Returns a rank that is missing in `on` while other ranks of its group of partial axes are
// present. The parts of that group cannot be reduced.
std::optional<int32_t> missing_part(const Lanes& on, const Spec& spec);

// Returns the ranks of the mesh whose shard, if it has elements, no rank of `on` holds. A value on
// the ranks `on` is compared without these elements.
Lanes ranks_of_absent_shards(const Lanes& on, const Spec& spec);

}  // namespace shardproof
