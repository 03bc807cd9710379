// RankOutputs: the declared outputs of rank programs. It finds the spec of each output and the
// ranks that must hold it. It reports values whose shapes or dtypes do not fit their entry.
#pragma once

#include <functional>
#include <optional>

#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/localtensor/report/finding.h"
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
  // Returns the finding of an output whose shapes, dtype or ranks do not fit its spec. Its fix
  // states the dim of a call, or the placements, that fit.
  std::optional<Finding> misfit(const JobOutput& output) const;
  // Returns plain placements that fit the shapes of all parts and for which `accepts` is true,
  // those with the fewest axes changed. nullopt if there are none.
  std::optional<Spec> fitting_spec(const JobOutput& output,
                                   const std::function<bool(const Spec&)>& accepts) const;
  // Returns the fix of an output whose values are right as placed by `fits`: that declaration, or
  // another dim of a call that scatters. A gather along another dim would not be right.
  std::string fix_by_placements(const JobOutput& output, const Spec& fits) const;
  // Returns the part of a name on these ranks that the earliest line bound; null if there is none.
  const NamedPart* first_part(const std::string& name, const Lanes& on) const;
  // Returns the declared output of a name; null if there is none.
  const JobOutput* find(const std::string& name) const;

 private:
  TensorMeta meta_of(const JobOutput& output) const;
  Finding wrong_output(const JobOutput& output, const Lanes& ranks) const;
  Finding wrong_dtype(const JobOutput& output, DType expected) const;
  Finding wrong_shape(const JobOutput& output, const Spec& spec, int32_t rank) const;
  std::string claim_text(const JobOutput& output, const Spec& fits) const;
  // Returns "write dim=1 in the all_gather of line 3", or "" if no dim makes all parts fit.
  std::string fix_by_dim(const JobOutput& output, const Spec& spec, bool of_gathers) const;
};

// A rank that has a value of some name, with its dtype and local shape.
struct Holder {
  int32_t rank;
  TensorMeta meta;
};
// Returns the ranks of `on` that have a value of this name, in order. A rank that binds the name
// may have none: only the root of a reduce has a result.
std::vector<Holder> holders(const RankProgram& ranks, const std::string& name, const Lanes& on);

// Returns the tensors that these ranks hold under a name; empty if no part has contents.
LocalTensor gather(const std::vector<NamedPart>& parts, const Lanes& on,
                   const std::function<LocalTensor(ValueId)>& value_of);

}  // namespace shardproof
