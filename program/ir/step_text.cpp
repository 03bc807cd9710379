// Implements step_text.h.
//
// A plain call is compared with the step by the global indices of each rank. all_gather on dim d:
// the indices of d that the members own, one after another, are those of the result. Example: S(0)
// of 7 rows over 2 ranks has parts of 4 and 3 rows, so that no plain all_gather can join them.
#include "shardproof/program/ir/step_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int64_t kMostChecked = 1024;  // first and last ranks that plain_dims() compares

// Returns the indices of a list of runs, one after another, with neighbouring runs joined.
void append_runs(Runs& to, const Runs& from) {
  for (const Run& run : from)
    if (!to.empty() && to.back().start + to.back().length == run.start)
      to.back().length += run.length;
    else
      to.push_back(run);
}

// Returns the part [first, first + count) of the indices.
Runs part_of(const Runs& runs, int64_t first, int64_t count) {
  Runs part;
  for (const Run& run : runs) {
    const int64_t skipped = std::min(first, run.length);
    const int64_t taken = std::min(count, run.length - skipped);
    if (taken > 0) append_runs(part, {{run.start + skipped, taken}});
    first -= skipped;
    count -= taken;
  }
  return part;
}

// The group of one rank: its members, and its own place among them.
struct Siblings {
  std::vector<int32_t> members;
  size_t self = 0;
};

// True if the members' parts of a dim all have one length. One after another, they must also be the
// part that a rank owns after the step.
bool joins(const Spec& from, const Spec& to, const Siblings& group, int dim) {
  Runs joined;
  const int64_t size = length(from.owned(group.members[0], dim));
  for (const int32_t member : group.members) {
    const Runs part = from.owned(member, dim);
    if (length(part) != size) return false;
    append_runs(joined, part);
  }
  return joined == to.owned(group.members[group.self], dim);
}

// True if the part that a rank owns after the step is its share of equal pieces of its part before.
bool cuts(const Spec& from, const Spec& to, const Siblings& group, int dim) {
  const int32_t rank = group.members[group.self];
  const Runs whole = from.owned(rank, dim);
  const int64_t count = static_cast<int64_t>(group.members.size());
  if (length(whole) % count != 0) return false;
  const int64_t size = length(whole) / count;
  return part_of(whole, static_cast<int64_t>(group.self) * size, size) == to.owned(rank, dim);
}

bool stays(const Spec& from, const Spec& to, int32_t rank, int dim) {
  return from.owned(rank, dim) == to.owned(rank, dim);
}

// True if every rank's part changes as the call with these dims changes it; a dim below 0 means no
// dim.
bool is_plain(const PlanStep& step, const Group& group, int cut, int join) {
  const Lanes ranks = step.from.mesh().ranks();
  for (int64_t i = 0; i < ranks.size(); ++i) {
    // Parts that differ from the others belong to the last ranks of some axis.
    if (ranks.size() > 2 * kMostChecked && i == kMostChecked) i = ranks.size() - kMostChecked;
    const int32_t rank = ranks[i];
    const Siblings siblings{group.members(group.sibling_of(rank)),
                            static_cast<size_t>(group.index_of(rank))};
    for (int dim = 0; dim < step.from.shape().size(); ++dim) {
      const bool fits = dim == cut    ? cuts(step.from, step.to, siblings, dim)
                        : dim == join ? joins(step.from, step.to, siblings, dim)
                                      : stays(step.from, step.to, rank, dim);
      if (!fits) return false;
    }
  }
  return true;
}

// True if the call reduces by one operator that a call can name.
bool reduces_plainly(const PlanStep& step) {
  std::optional<ReduceOp> op;
  for (const int axis : step.axes) {
    const Placement& placement = step.from.placement(axis);
    if (!placement.is_partial()) return false;
    const ReduceOp own = placement.partial().reduction.op;
    if (own == ReduceOp::norm || op.value_or(own) != own) return false;
    op = own;
  }
  return op.has_value();
}

bool same_partials(const PlanStep& step) {
  for (int axis = 0; axis < step.from.mesh().axis_count(); ++axis)
    if ((step.from.placement(axis).is_partial() || step.to.placement(axis).is_partial()) &&
        !(step.from.placement(axis) == step.to.placement(axis)))
      return false;
  return true;
}

std::string mesh_name(const Mesh& mesh, const NamedMeshes& meshes) {
  if (meshes.size() > 1)
    for (const auto& [key, known] : meshes)
      if (known == mesh) return key;
  return "";
}

std::string tensor_text(const Spec& spec, const NamedMeshes& meshes) {
  const std::string mesh = mesh_name(spec.mesh(), meshes);
  std::string text = placements_text(spec) + " of " + to_string(spec.shape());
  if (!mesh.empty()) text.append(" on ").append(mesh);
  return text;
}

std::string tensors_text(const std::vector<Spec>& specs, const NamedMeshes& meshes) {
  std::string text;
  for (const Spec& spec : specs) text += (text.empty() ? "" : ", ") + tensor_text(spec, meshes);
  return text;
}

constexpr const char* kForm = "shards='tp:S(0) of [8, 4] -> R of [8, 4]'";

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

Dims parse_shape(std::string_view text) {
  Dims shape;
  while (!(text = trimmed(text)).empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view word = trimmed(text.substr(0, end));
    int64_t size = -1;
    const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (error != std::errc() || at != word.data() + word.size() || size < 0)
      throw_bad_input("shards: expected the sizes of a tensor, found [{}]; write {}", word, kForm);
    if (shape.size() == kMaxDims)
      throw_bad_input("shards: expected at most {} sizes, found more", kMaxDims);
    shape.push_back(size);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  element_count(shape);  // refuses a tensor that is too large
  return shape;
}

const Mesh& mesh_called(std::string_view name, const NamedMeshes& meshes) {
  if (name.empty()) {
    if (meshes.size() == 1) return meshes[0].second;
    throw_bad_input("shards: expected \"on\" and the name of a mesh, because there are several");
  }
  NearestName nearest(name);
  for (const auto& [key, mesh] : meshes) {
    if (key == name) return mesh;
    nearest.offer(key);
  }
  throw_bad_input("shards: unknown mesh {}{}", name, nearest.hint());
}

// Reads one tensor from the front of `text` and removes it.
WrittenShards parse_one(std::string_view& text, const NamedMeshes& meshes) {
  const size_t of = text.find(" of [");
  const size_t close = text.find(']', of == std::string_view::npos ? 0 : of);
  if (of == std::string_view::npos || close == std::string_view::npos)
    throw_bad_input("shards: expected placements, \"of\" and a shape, found '{}'; write {}",
                    trimmed(text), kForm);
  WrittenShards written;
  written.placements = trimmed(text.substr(0, of));
  written.shape = parse_shape(text.substr(of + 5, close - of - 5));
  text = trimmed(text.substr(close + 1));
  std::string_view mesh;
  if (text.starts_with("on ")) {
    text = trimmed(text.substr(3));
    const size_t end = std::min(text.find_first_of(", "), text.size());
    mesh = text.substr(0, end);
    text = trimmed(text.substr(end));
  }
  written.mesh = mesh_called(mesh, meshes);
  return written;
}

std::vector<WrittenShards> parse_list(std::string_view text, const NamedMeshes& meshes) {
  std::vector<WrittenShards> list;
  text = trimmed(text);
  while (!text.empty()) {
    list.push_back(parse_one(text, meshes));
    if (text.empty()) break;
    if (!text.starts_with(','))
      throw_bad_input("shards: expected a comma between two tensors, found '{}'", text);
    text = trimmed(text.substr(1));
  }
  return list;
}

}  // namespace

std::optional<PlainDims> plain_dims(const PlanStep& step) {
  if (step.kind == StepKind::local || step.kind == StepKind::transfer) return std::nullopt;
  const bool reduces = step.kind == StepKind::all_reduce || step.kind == StepKind::reduce_scatter;
  if (reduces ? !reduces_plainly(step) : !same_partials(step)) return std::nullopt;
  const Group group = Group::of_axes(step.from.mesh(), step.axes);
  if (step.kind == StepKind::all_reduce)
    return is_plain(step, group, -1, -1) ? std::optional(PlainDims{}) : std::nullopt;
  const int dims = step.from.shape().size();
  for (int dim = 0; dim < dims; ++dim) {
    if (step.kind == StepKind::all_gather && is_plain(step, group, -1, dim)) return PlainDims{dim};
    if (step.kind == StepKind::reduce_scatter && is_plain(step, group, dim, -1))
      return PlainDims{dim};
    if (step.kind != StepKind::all_to_all) continue;
    for (int join = 0; join < dims; ++join)
      if (join != dim && is_plain(step, group, dim, join)) return PlainDims{dim, join};
  }
  return std::nullopt;
}

std::string_view local_verb(const PlanStep& step) {
  if (step.from.same_ownership(step.to)) return "relabel";
  for (int axis = 0; axis < step.from.mesh().axis_count(); ++axis)
    if (step.from.placement(axis).is_partial() != step.to.placement(axis).is_partial())
      return "zero_fill";
  return "slice_local";
}

std::string shards_text(const std::vector<Spec>& inputs, const std::vector<Spec>& results,
                        const NamedMeshes& meshes) {
  return fmt::format("{} -> {}", tensors_text(inputs, meshes), tensors_text(results, meshes));
}

ShardsArgument parse_shards(std::string_view text, const NamedMeshes& meshes) {
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos)
    throw_bad_input("shards: expected \"->\" between inputs and results, found '{}'; write {}",
                    text, kForm);
  return {parse_list(text.substr(0, arrow), meshes), parse_list(text.substr(arrow + 2), meshes)};
}

}  // namespace shardproof
