// Implements place_check.h. The mesh of a check is the first one that has all axes and ranks it
// names. If the check names no ranks and no mesh holds all ranks at the line, each mesh with these
// axes gets a part. Example: two pipeline stages with meshes of ranks 0-3 and 4-7 that both have an
// axis tp make one value each.
#include "shardproof/engine/lower/place_check.h"

#include <algorithm>

#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/value/select_ranks.h"

namespace shardproof {
namespace {

[[noreturn]] void fail_check_at(const SourceLocation& place, ErrorKind kind,
                                const std::string& message) {
  throw Error(kind, message, Where{"", "", place.line, place.column});
}

// Calls the function and reports its errors at `place`. Errors of selectors and placements count
// columns in their own text.
template <typename Function>
auto with_errors_at(const SourceLocation& place, const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    fail_check_at(place, error.kind(), error.message());
  }
}

bool has_axes(const Mesh& mesh, const std::vector<PlacementText>& placements) {
  return std::all_of(placements.begin(), placements.end(), [&](const PlacementText& one) {
    return one.axis.empty() || mesh.find_axis(one.axis);
  });
}

}  // namespace

const GlobalProgram& TruthOfChecks::program() {
  if (!program_) program_ = lower_global(*job_.truth, context_of(job_, ops_), "/truth");
  return *program_;
}

std::vector<CheckPart> parts_of_check(const WrittenCheck& check, const Job& job,
                                      const Lanes& lanes) {
  Lanes on;
  if (!check.on.empty())
    on = with_errors_at(check.on_place,
                        [&] { return select_ranks(check.on, job.meshes, job.world); });
  std::vector<CheckPart> parts;
  for (const auto& [key, mesh] : job.meshes) {
    const Lanes ranks = mesh.ranks();
    if (!has_axes(mesh, check.placements) || !ranks.contains(on)) continue;
    parts.push_back({key, &mesh, on.empty() ? ranks : on});
    if (!on.empty()) return parts;
  }
  if (parts.empty()) {
    for (const PlacementText& one : check.placements)
      with_errors_at(check.placed_at,
                     [&] { return one.axis.empty() ? 0 : job.meshes.at(0).second.axis(one.axis); });
    fail_check_at(check.placed_at, ErrorKind::bad_input, "no mesh has these axes and ranks");
  }
  for (const CheckPart& part : parts)
    if (part.owners.contains(lanes)) return {part};
  return parts;
}

Spec spec_of_check(const WrittenCheck& check, const CheckPart& part, const GlobalProgram& truth) {
  const auto found = truth.names.find(check.name);
  if (found == truth.names.end()) {
    NearestName nearest(check.name);
    for (const auto& [name, id] : truth.names) nearest.offer(name);
    fail_check_at(check.name_place, ErrorKind::bad_input,
                  fmt::format("the truth does not bind {}{}", check.name, nearest.hint()));
  }
  const GlobalValue& global = truth.values[static_cast<size_t>(found->second)];
  const Spec spec = with_errors_at(check.placed_at, [&] {
    if (check.placements.empty()) return Spec::replicated(*part.mesh, global.shape, global.dtype);
    return Spec::parse(to_string(check.placements), *part.mesh, global.shape, global.dtype);
  });
  if (const std::optional<int32_t> rank = missing_part(part.owners, spec))
    fail_check_at(check.placed_at, ErrorKind::bad_input,
                  fmt::format("{} placed as {} cannot be reduced without the part of rank {}",
                              check.name, placements_text(spec), *rank));
  return spec;
}

std::optional<int32_t> missing_part(const Lanes& on, const Spec& spec) {
  if (!spec.has_partial()) return std::nullopt;
  const Group group = Group::of_axes(spec.mesh(), spec.partial_axes());
  for (int64_t sibling = 0; sibling < group.count(); ++sibling) {
    const Lanes members = Lanes::of(group.members(sibling)), missing = members.minus(on);
    if (!missing.empty() && missing.size() < members.size()) return missing[0];
  }
  return std::nullopt;
}

Lanes ranks_of_absent_shards(const Lanes& on, const Spec& spec) {
  std::vector<int> uncut;
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (!spec.placement(axis).is_shard()) uncut.push_back(axis);
  const Group same_shard = Group::of_axes(spec.mesh(), uncut);
  std::vector<int32_t> absent;
  for (int64_t sibling = 0; sibling < same_shard.count(); ++sibling) {
    const std::vector<int32_t> members = same_shard.members(sibling);
    const bool is_held = std::any_of(members.begin(), members.end(),
                                     [&](int32_t rank) { return on.contains(rank); });
    if (!is_held && element_count(spec.local_shape(members.front())) > 0)
      absent.insert(absent.end(), members.begin(), members.end());
  }
  return Lanes::of(std::move(absent));
}

}  // namespace shardproof
