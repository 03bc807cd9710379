// Implements the text form of spec.h: placements text resolved against a mesh and a shape, and
// back.
//
// Spec::parse: (1) parse_placements; assign each entry to its axis. (2) Axes that are not named are
// R, or placed as in `base`. (3) Collect pairs (first, then) of axes that cut one dim: from
// `after=`, and from the order in `base` of axes that are not named. (4) Order the axes by the
// pairs, and in mesh order where the pairs leave a choice. (5) If explicit sizes of `base` no
// longer add up, the chunk rule replaces them.
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

int axis_named(const Mesh& mesh, const std::string& name, const PlacementText& entry) {
  try {
    return mesh.axis(name);
  } catch (const Error& error) {
    throw error.inside(Where{"", "", 0, entry.column});
  }
}

// The entries of the text by axis.
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
        fail(entry,
             "expected an axis before every placement or before none; write \"dp:S(0) tp:R\" or "
             "\"S(0) R\"");
      if (by_position && entries_.size() != axes)
        fail(entry, fmt::format("expected {} placements by position, one for each axis of the mesh "
                                "\"{}\", found {}; write the axis before a placement: \"{}:{}\"",
                                axes, to_string(mesh), entries_.size(), mesh.axes()[0].name,
                                to_string(entry.placement)));
      const size_t axis =
          by_position ? i : static_cast<size_t>(axis_named(mesh, entry.axis, entry));
      if (entry_of_[axis] >= 0)
        fail(entry, fmt::format("expected one placement for axis '{}', found two",
                                mesh.axes()[axis].name));
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
  std::vector<int> entry_of_;  // by axis; -1: not named
  bool all_replicated_ = false;
};

// Pairs (first, then) of axes that cut one dim.
using Pairs = std::vector<std::pair<int, int>>;

void add_written_pairs(const Written& written, const Mesh& mesh,
                       const std::vector<Placement>& placements, Pairs& pairs) {
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    const PlacementText* entry = written.of(axis);
    if (!entry) continue;
    for (const std::string& name : entry->after) {
      const int first = axis_named(mesh, name, *entry);
      const int dim = placements[static_cast<size_t>(axis)].shard().dim;
      if (first == axis || !placements[static_cast<size_t>(first)].is_shard(dim))
        fail(*entry, fmt::format("after={}: expected another axis that cuts dim {}, found '{}'",
                                 name, dim, name));
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

// Returns an order that all pairs agree with; mesh order where they leave a choice. Throws
// Error(bad_input) for a cycle.
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
    if (next == axes)
      throw_bad_input("after= makes a cycle: each of the axes waits for another one to cut first");
    placed[static_cast<size_t>(next)] = true;
    order.push_back(next);
  }
  return order;
}

// Replaces explicit sizes of the base by the chunk rule if earlier cuts no longer leave the extent
// that the sizes add up to.
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
    if (!out.empty()) out += ' ';
    out.append(mesh.axes()[static_cast<size_t>(axis)].name)
        .append(":")
        .append(to_string(placement));
    if (!placement.is_shard()) continue;
    // Mesh order is the default, so `after=` is written only if a higher axis cuts before.
    int before = -1, highest = -1;  // of the axes that cut the dim before this one
    for (const int other : spec.order()) {
      if (other == axis) break;
      if (!spec.placement(other).is_shard(placement.shard().dim)) continue;
      before = other;
      highest = std::max(highest, other);
    }
    if (highest < axis) continue;
    out.pop_back();
    out += fmt::format(", after={})", mesh.axes()[static_cast<size_t>(before)].name);
  }
  return out.empty() ? "R" : out;
}

std::string to_string(const Spec& spec) {
  return fmt::format("{}{} {} on {}", name(spec.dtype()), to_string(spec.shape()),
                     placements_text(spec), to_string(spec.mesh()));
}

}  // namespace shardproof
