// Implements rank_outputs.h.
//
// Without a truth the global shape follows from the shards: a dim that is cut is as long as its
// parts together. Example: y is declared as dp:S(0) on dp=3. It has 4 rows on rank 0 and 3 on rank
// 2; rank 1 does not hold it. The parts held have 4 + 3 rows. The missing part counts as many as
// the first, so the shape has 11 rows, and misfit() reports rank 1 (rank_outputs_misfit.cpp).
#include "shardproof/engine/compare/rank_outputs.h"

#include <algorithm>
#include <map>

#include "shardproof/engine/compare/compare.h"
#include "shardproof/engine/lower/place_check.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

std::vector<Holder> holders(const RankProgram& ranks, const std::string& name, const Lanes& on) {
  std::vector<Holder> found;
  for (const NamedPart& part : ranks.names.at(name)) {
    const SpmdValue& value = ranks.program.values[static_cast<size_t>(part.value)];
    for (const LocalShape& shape : value.shapes) {
      const Lanes here = shape.lanes.intersect(part.lanes).intersect(on);
      for (int64_t i = 0; i < here.size(); ++i)
        found.push_back({here[i], {value.dtype, shape.shape}});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const Holder& a, const Holder& b) { return a.rank < b.rank; });
  return found;
}

namespace {

// Returns the axes that cut each dim.
std::vector<std::vector<int>> cutting_axes(const std::string& placements, const Mesh& mesh,
                                           int dims) {
  std::vector<std::vector<int>> axes(static_cast<size_t>(dims));
  const std::vector<PlacementText> entries = parse_placements(placements);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].placement.is_shard()) continue;
    const std::string& name = entries[i].axis;
    const int dim = normalize_dim(entries[i].placement.shard().dim, dims);
    axes[static_cast<size_t>(dim)].push_back(name.empty() ? static_cast<int>(i) : mesh.axis(name));
  }
  return axes;
}

// Returns the global shape that the held parts add up to. A part that no rank holds counts as the
// first one.
Dims whole_shape(const std::vector<Holder>& held, const std::string& placements, const Mesh& mesh) {
  Dims shape = held.front().meta.shape;
  const std::vector<std::vector<int>> cuts = cutting_axes(placements, mesh, shape.size());
  for (int dim = 0; dim < shape.size(); ++dim) {
    const std::vector<int>& axes = cuts[static_cast<size_t>(dim)];
    int64_t parts = 1, total = 0;
    for (const int axis : axes) {
      if (axis >= mesh.axis_count()) return shape;  // refused where the placements are read
      parts *= mesh.axis_size(axis);
    }
    std::map<Dims, int64_t> lengths;  // by coordinate on these axes
    for (const Holder& holder : held) {
      const std::optional<Dims> at = mesh.coordinate_of(holder.rank);
      if (!at || holder.meta.shape.size() != shape.size()) continue;
      Dims place;
      for (const int axis : axes) place.push_back((*at)[axis]);
      lengths.emplace(place, holder.meta.shape[dim]);
    }
    for (const auto& [place, length] : lengths) total += length;
    shape[dim] = total + (parts - static_cast<int64_t>(lengths.size())) * shape[dim];
  }
  return shape;
}

}  // namespace

const Mesh& RankOutputs::mesh_of(const JobOutput& output) const {
  for (const auto& [key, mesh] : job.meshes)
    if (key == output.mesh) return mesh;
  return job.meshes.at(0).second;
}

Lanes RankOutputs::owners(const JobOutput& output) const {
  return output.on.empty() ? mesh_of(output).ranks() : output.on;
}

TensorMeta RankOutputs::meta_of(const JobOutput& output) const {
  if (truth) {
    const auto found = truth->names.find(output.name);
    if (found == truth->names.end()) {
      NearestName nearest(output.name);
      for (const auto& [name, id] : truth->names) nearest.offer(name);
      throw_bad_input("the truth does not bind {}{}", output.name,
                      nearest.best().empty() ? "; bind it there, or remove it from \"outputs\""
                                             : nearest.hint());
    }
    const GlobalValue& global = truth->values[static_cast<size_t>(found->second)];
    return {global.dtype, global.shape};
  }
  const Lanes on = owners(output);
  const std::vector<Holder> held = holders(ranks, output.name, on);
  if (held.empty()) throw_bad_input("rank {} does not bind {}", on[0], output.name);
  return {held.front().meta.dtype, whole_shape(held, output.placements, mesh_of(output))};
}

Spec RankOutputs::spec_of(const JobOutput& output) const {
  if (!ranks.names.contains(output.name))
    throw_bad_input("no rank binds {}; bind it in a listing, or remove it from \"outputs\"",
                    output.name);
  const TensorMeta meta = meta_of(output);
  const Spec spec = Spec::parse(output.placements, mesh_of(output), meta.shape, meta.dtype);
  if (const std::optional<int32_t> rank = missing_part(owners(output), spec))
    throw_bad_input("{} placed as {} cannot be reduced without the part of rank {}", output.name,
                    placements_text(spec), *rank);
  return spec;
}

const NamedPart* RankOutputs::first_part(const std::string& name, const Lanes& on) const {
  const NamedPart* first = nullptr;
  for (const NamedPart& part : ranks.names.at(name))
    if (!part.lanes.intersect(on).empty() && (!first || part.line < first->line)) first = &part;
  return first;
}

const JobOutput* RankOutputs::find(const std::string& name) const {
  for (const JobOutput& output : job.outputs)
    if (output.name == name) return &output;
  return nullptr;
}

LocalTensor gather(const std::vector<NamedPart>& parts, const Lanes& on,
                   const std::function<LocalTensor(ValueId)>& value_of) {
  LocalTensor all;
  for (const NamedPart& part : parts) {
    const Lanes here = part.lanes.intersect(on);
    const LocalTensor own = value_of(part.value);
    if (here.empty() || own.empty()) continue;
    const LocalTensor cut = own.restrict_to(here);
    if (!cut.empty()) all = all.empty() ? cut : all.merged_with(cut);
  }
  return all;
}

}  // namespace shardproof
