// Implements local_shapes.h. A union of two sets at a time would copy the ranks once for each set,
// so the ranks of all sets are listed first.
#include "shardproof/program/ir/local_shapes.h"

#include <algorithm>
#include <utility>

namespace shardproof {
namespace {

Lanes united(const std::vector<Lanes>& sets) {
  if (sets.size() == 1) return sets[0];
  std::vector<int32_t> ranks;
  for (const Lanes& lanes : sets)
    for (int64_t i = 0; i < lanes.size(); ++i) ranks.push_back(lanes[i]);
  return Lanes::of(std::move(ranks));
}

bool is_earlier(const LocalShape& a, const LocalShape& b) { return a.lanes[0] < b.lanes[0]; }

}  // namespace

LocalShapes::LocalShapes(std::vector<LocalShape> shapes) {
  if (!std::is_sorted(shapes.begin(), shapes.end(), is_earlier))
    std::sort(shapes.begin(), shapes.end(), is_earlier);
  shapes_ = std::move(shapes);
}

const LocalShape* LocalShapes::find(int64_t rank) const {
  const std::vector<LocalShape>& shapes = list();
  auto at = std::upper_bound(
      shapes.begin(), shapes.end(), rank,
      [](int64_t wanted, const LocalShape& shape) { return wanted < shape.lanes[0]; });
  while (at != shapes.begin())
    if ((--at)->lanes.contains(rank)) return &*at;
  return nullptr;
}

Lanes LocalShapes::lanes() const {
  std::vector<Lanes> sets;
  for (const LocalShape& shape : list()) sets.push_back(shape.lanes);
  return united(sets);
}

void ShapesByLanes::add(const Lanes& lanes, const Dims& shape) { lanes_[shape].push_back(lanes); }

LocalShapes ShapesByLanes::shapes() const {
  std::vector<LocalShape> shapes;
  for (const auto& [shape, sets] : lanes_) shapes.push_back({united(sets), shape});
  return shapes;
}

}  // namespace shardproof
