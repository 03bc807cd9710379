// Implements enumerate.h.
#include "shardproof/engine/check_ops/enumerate.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

std::vector<Placement> of_one_axis(const TensorMeta& meta, const EnumerateOptions& options) {
  std::vector<Placement> list = {R()};
  if (meta.absent || meta.weak) return list;
  for (int dim = 0; dim < meta.shape.size(); ++dim) {
    list.push_back(S(dim));
    // A strided cut of fewer than 3 elements is a plain one.
    if (options.strided && meta.shape[dim] > 2) list.push_back(S(dim, 2));
  }
  if (!options.partials) return list;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::min,
                            ReduceOp::max, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor})
    if (is_reduction_allowed(op, meta.dtype)) list.push_back(P(op));
  return list;
}

// True if two ranks have the same elements of the same part.
bool hold_same(const Slices& slices, size_t a, size_t b) {
  return slices.positions[a] == slices.positions[b] &&
         (!slices.is_partial || slices.part_of[a] == slices.part_of[b]);
}

// True if a table is that of these specs, whose dtype does not matter.
bool has_placements(const PlacementTable& table, const std::vector<Spec>& specs) {
  if (table.size() != specs.size() || specs.empty()) return table.size() == specs.size();
  const Spec& first = table.placements.front().spec;
  if (!(first.shape() == specs.front().shape()) || !(first.mesh() == specs.front().mesh()))
    return false;
  for (size_t p = 0; p < specs.size(); ++p) {
    const Spec& spec = table.placements[p].spec;
    if (spec.placements() != specs[p].placements() || spec.order() != specs[p].order())
      return false;
  }
  return true;
}

void add_ranks(const Slices& slices, PlacementTable& table) {
  const size_t first = table.shape_of.size();
  for (size_t rank = 0; rank < slices.shapes.size(); ++rank) {
    const auto found = std::find(table.shapes.begin(), table.shapes.end(), slices.shapes[rank]);
    const auto shape = static_cast<size_t>(found - table.shapes.begin());
    if (found == table.shapes.end()) {
      table.shapes.push_back(slices.shapes[rank]);
      table.places.push_back(0);
    }
    int32_t place = -1;
    for (size_t other = 0; other < rank && place < 0; ++other)
      if (table.shape_of[first + other] == static_cast<int32_t>(shape) &&
          hold_same(slices, other, rank))
        place = table.place_of[first + other];
    if (place < 0) place = table.places[shape]++;
    table.shape_of.push_back(static_cast<int32_t>(shape));
    table.place_of.push_back(place);
  }
}

}  // namespace

std::vector<Spec> all_placements(const TensorMeta& meta, const Mesh& mesh,
                                 const EnumerateOptions& options) {
  const std::vector<Placement> choices = of_one_axis(meta, options);
  const Dims shape = meta.absent ? Dims{} : meta.shape;
  std::vector<Spec> specs;
  std::vector<size_t> pick(static_cast<size_t>(mesh.axis_count()), 0);
  while (true) {
    std::vector<Placement> placements;
    for (const size_t choice : pick) placements.push_back(choices[choice]);
    try {
      specs.emplace_back(mesh, std::move(placements), shape, meta.dtype);
    } catch (const Error&) {
      // Two kinds of partials.
    }
    size_t axis = 0;
    for (; axis < pick.size(); ++axis) {
      if (++pick[axis] < choices.size()) break;
      pick[axis] = 0;
    }
    if (axis == pick.size()) return specs;
  }
}

PlacementTable table_of(const std::vector<Spec>& specs) {
  PlacementTable table;
  table.placements.reserve(specs.size());
  for (const Spec& spec : specs) {
    table.placements.push_back(slices_of(spec));
    table.ranks = table.placements.back().ranks();
    add_ranks(table.placements.back(), table);
    uint32_t reductions = 0;
    for (const Placement& p : spec.placements())
      if (p.is_partial()) reductions |= reduction_bit(p.partial().reduction.op);
    table.reductions.push_back(reductions);
  }
  return table;
}

const PlacementTable& PlacementTables::table(const std::vector<Spec>& specs) {
  for (const PlacementTable& known : tables_)
    if (has_placements(known, specs)) return known;
  return tables_.emplace_back(table_of(specs));
}

uint32_t allowed_reductions(DType dtype) {
  uint32_t allowed = 0;
  for (unsigned op = 0; op <= static_cast<unsigned>(ReduceOp::norm); ++op)
    if (is_reduction_allowed(static_cast<ReduceOp>(op), dtype))
      allowed |= reduction_bit(static_cast<ReduceOp>(op));
  return allowed;
}

}  // namespace shardproof
