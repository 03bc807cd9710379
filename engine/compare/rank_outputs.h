// The declared outputs of rank programs: how each is placed, who has to hold it, and what fits.
#pragma once

#include <functional>
#include <optional>

#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

struct RankOutputs {
  const Job& job;
  const RankProgram& ranks;
  const GlobalProgram* truth;  // null: shape and dtype are what the ranks' parts make up

  const Mesh& mesh_of(const JobOutput& output) const;
  // Ranks that have to hold it: those of `on`, else the mesh's.
  Lanes owners(const JobOutput& output) const;
  // Throws Error where nobody binds it, or it cannot be placed like that.
  Spec spec_of(const JobOutput& output) const;
  // What is wrong with this output's shapes, dtype or ranks.
  std::optional<Error> misfit(const JobOutput& output) const;
  // The earliest line that gave these ranks their value; lines of two listings are two lines.
  const NamedPart* first_part(const std::string& name, const Lanes& on) const;
  const JobOutput* find(const std::string& name) const;

 private:
  TensorMeta meta_of(const JobOutput& output) const;
  void check_shapes(const JobOutput& output, const Spec& spec, const Lanes& on) const;
};

// What these ranks hold of a name.
LocalTensor gather(const std::vector<NamedPart>& parts, const Lanes& on,
                   const std::function<LocalTensor(ValueId)>& value_of);

}  // namespace shardproof
