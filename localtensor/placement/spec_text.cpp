// Placements text against a mesh and a shape, both ways.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/shard_cut.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

namespace {

[[noreturn]] void fail(const PlacementText& entry, const std::string& message) {
  throw Error(ErrorKind::bad_input, message, Where{"", "", 0, entry.column});
}

int axis_of(const Mesh& mesh, const std::string& name, const PlacementText& entry) {
  try {
    return mesh.axis(name);
  } catch (const Error& error) {
    throw error.inside(Where{"", "", 0, entry.column});
  }
}

// What was written, by axis; -1: not named.
class Written {
 public:
  Written(std::string_view text, const Mesh& mesh) : entries_(parse_placements(text)) {
    const auto axes = static_cast<size_t>(mesh.axis_count());
    entry_of_.assign(axes, -1);
    if (entries_.empty()) return;
    const bool by_position = entries_[0].axis.empty();
    all_replicated_ = by_position && entries_.size() == 1 && entries_[0].placement == R();
    if (all_replicated_) return;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const PlacementText& entry = entries_[i];
      if (entry.axis.empty() != by_position)
        fail(entry, "name every axis or none: \"dp:S(0) tp:R\" or \"S(0) R\"");
      if (by_position && entries_.size() != axes)
        fail(entry, fmt::format("{} placements by position for the {} axes of the mesh \"{}\"",
                                entries_.size(), axes, to_string(mesh)));
      const size_t axis = by_position ? i : static_cast<size_t>(axis_of(mesh, entry.axis, entry));
      if (entry_of_[axis] >= 0)
        fail(entry, fmt::format("axis '{}' is placed twice", mesh.axes()[axis].name));
      entry_of_[axis] = static_cast<int>(i);
    }
  }

  bool all_replicated() const { return all_replicated_; }
  const PlacementText* of(int axis) const {
    const int at = entry_of_[static_cast<size_t>(axis)];
    return at < 0 ? nullptr : &entries_[static_cast<size_t>(at)];
  }

 private:
  std::vector<PlacementText> entries_;
  std::vector<int> entry_of_;
  bool all_replicated_ = false;
};

// Pairs (first, then) of axes that share a dim, from `after=` and from what stays of the base.
using Pairs = std::vector<std::pair<int, int>>;

void add_written_pairs(const Written& written, const Mesh& mesh,
                       const std::vector<Placement>& placements, Pairs& pairs) {
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    const PlacementText* entry = written.of(axis);
    if (!entry) continue;
    for (const std::string& name : entry->after) {
      const int first = axis_of(mesh, name, *entry);
      const int dim = placements[static_cast<size_t>(axis)].shard().dim;
      if (first == axis || !placements[static_cast<size_t>(first)].is_shard(dim))
        fail(*entry, fmt::format("after={}: '{}' does not cut dim {}", name, name, dim));
      pairs.emplace_back(first, axis);
    }
  }
}

void add_base_pairs(const Written& written, const Spec& base, Pairs& pairs) {
  for (int dim = 0; dim < base.shape().size(); ++dim) {
    int previous = -1;
    for (int axis : base.axes_of_dim(dim)) {
      if (written.of(axis)) continue;
      if (previous >= 0) pairs.emplace_back(previous, axis);
      previous = axis;
    }
  }
}

// Mesh order wherever the pairs leave a choice.
std::vector<int> order_by(const Pairs& pairs, int axes) {
  std::vector<int> order;
  std::vector<bool> placed(static_cast<size_t>(axes), false);
  while (static_cast<int>(order.size()) < axes) {
    int next = 0;
    const auto waits = [&](int axis) {
      return std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
        return pair.second == axis && !placed[static_cast<size_t>(pair.first)];
      });
    };
    while (next < axes && (placed[static_cast<size_t>(next)] || waits(next))) ++next;
    if (next == axes) throw_bad_input("after= goes round in a circle");
    placed[static_cast<size_t>(next)] = true;
    order.push_back(next);
  }
  return order;
}

// Sizes that stay of the base give way to the chunk rule where the axes that cut before no longer
// leave what they add up to.
void cut_anew(const Written& written, const Mesh& mesh, const Dims& shape,
              const std::vector<int>& order, std::vector<Placement>& placements) {
  for (int dim = 0; dim < shape.size(); ++dim) {
    std::vector<int64_t> extents = {shape[dim]};
    for (int axis : order) {
      Placement& placement = placements[static_cast<size_t>(axis)];
      if (!placement.is_shard(dim)) continue;
      const std::vector<int64_t>& sizes = placement.shard().sizes;
      if (!written.of(axis) && !sizes.empty()) {
        const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
        if (extents != std::vector<int64_t>{total}) placement = S(dim);
      }
      extents = cut_extents(placement.shard(), extents, mesh.axis_size(axis));
    }
  }
}

}  // namespace

Spec Spec::parse(std::string_view text, const Mesh& mesh, const Dims& shape, DType dtype,
                 const Spec* base) {
  const Written written(text, mesh);
  if (written.all_replicated()) return replicated(mesh, shape, dtype);
  std::vector<Placement> placements(static_cast<size_t>(mesh.axis_count()));
  if (base) {
    SP_CHECK(base->mesh() == mesh, "the base lies on another mesh");
    placements = base->placements();
  }
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    const PlacementText* entry = written.of(axis);
    if (!entry) continue;
    Placement& placement = placements[static_cast<size_t>(axis)];
    placement = entry->placement;
    if (!placement.is_shard()) continue;
    Shard shard = placement.shard();
    try {
      shard.dim = normalize_dim(shard.dim, shape.size());
    } catch (const Error& error) {
      throw error.inside(Where{"", "", 0, entry->column});
    }
    placement = std::move(shard);
  }
  Pairs pairs;
  add_written_pairs(written, mesh, placements, pairs);
  if (base) add_base_pairs(written, *base, pairs);
  const std::vector<int> order = order_by(pairs, mesh.axis_count());
  if (base) cut_anew(written, mesh, shape, order, placements);
  return Spec(mesh, std::move(placements), shape, dtype, order);
}

std::string placements_text(const Spec& spec) {
  const Mesh& mesh = spec.mesh();
  std::string out;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    const Placement& placement = spec.placement(axis);
    if (placement.is_replicate()) continue;
    std::string text = to_string(placement);
    if (placement.is_shard()) {
      // Said only where mesh order would cut otherwise: an axis before it in the order has a higher
      // index.
      const std::vector<int> axes = spec.axes_of_dim(placement.shard().dim);
      const auto place = std::find(axes.begin(), axes.end(), axis);
      if (std::any_of(axes.begin(), place, [&](int other) { return other > axis; })) {
        text.pop_back();
        text += fmt::format(", after={})", mesh.axes()[static_cast<size_t>(*(place - 1))].name);
      }
    }
    const std::string& name = mesh.axes()[static_cast<size_t>(axis)].name;
    out += fmt::format("{}{}:{}", out.empty() ? "" : " ", name, text);
  }
  return out.empty() ? "R" : out;
}

std::string to_string(const Spec& spec) {
  return fmt::format("{}{} {} on {}", name(spec.dtype()), to_string(spec.shape()),
                     placements_text(spec), to_string(spec.mesh()));
}

}  // namespace shardproof
