// RankOutputs: the declared outputs of rank programs. It finds the spec of each output and the
// ranks that must hold it, and checks shapes and dtypes before the run.
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
  const GlobalProgram* truth;  // null: shape and dtype follow from the ranks' parts

  // Returns the mesh of an output; the first mesh if it names none.
  const Mesh& mesh_of(const JobOutput& output) const;
  // Returns the ranks that must hold it: those of JobOutput::on, or all of the mesh.
  Lanes owners(const JobOutput& output) const;
  // Returns the spec of an output. Throws Error(bad_input) if no rank binds the name or the
  // placements do not fit.
  Spec spec_of(const JobOutput& output) const;
  // Returns the error of an output whose shapes, dtype or ranks do not match its spec.
  std::optional<Error> misfit(const JobOutput& output) const;
  // Returns the part of a name on these ranks that the earliest line bound; null if there is none.
  const NamedPart* first_part(const std::string& name, const Lanes& on) const;
  // Returns the declared output of a name; null if there is none.
  const JobOutput* find(const std::string& name) const;

 private:
  TensorMeta meta_of(const JobOutput& output) const;
  void check_shapes(const JobOutput& output, const Spec& spec, const Lanes& on) const;
};

// Returns the tensors that these ranks hold under a name; empty if no part has contents.
LocalTensor gather(const std::vector<NamedPart>& parts, const Lanes& on,
                   const std::function<LocalTensor(ValueId)>& value_of);

}  // namespace shardproof
